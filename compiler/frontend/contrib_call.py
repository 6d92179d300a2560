"""A call of an operator that is defined by others here: its inputs and attributes, and the nodes of its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto, helper

Sizes = Callable[[str], tuple[int, ...]]
"""Shape of a value."""


@dataclass
class Call:
    """A call that is defined, and the nodes of its definition so far. Inputs and outputs are known by their places."""

    node: NodeProto
    sizes: Sizes
    nodes: list[NodeProto] = field(default_factory=list)

    def has(self, place: int) -> bool:
        """Whether an input is given."""
        return place < len(self.node.input) and bool(self.node.input[place])

    def wants(self, place: int) -> bool:
        """Whether an output is."""
        return place < len(self.node.output) and bool(self.node.output[place])

    def input(self, place: int) -> str:
        """The name of an input in the definition; empty where it is not given."""
        return f"i{place}" if self.has(place) else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        return next((helper.get_attribute_value(a) for a in self.node.attribute if a.name == name), default)

    def let(self, operator: str, *inputs: str, output: int | None = None, **attributes: Any) -> str:
        """A node, for an output of the call or a value of the definition's own; the name of that value."""
        name = f"t{len(self.nodes)}" if output is None else f"o{output}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def number(self, value: float) -> str:
        """A scalar."""
        return self.let("Constant", value_float=float(value))

    def whole(self, *values: int) -> str:
        """A list of whole numbers."""
        return self.let("Constant", value_ints=list(values))

    def real(self, place: int, axis: int = 1) -> str:
        """The input that is quantised with the two behind it, which may be lists along an axis."""
        return self.let("DequantizeLinear", *(self.input(place + n) for n in range(3)), axis=axis)

    def quantised(self, value: str, place: int) -> None:
        """The output, quantised with two inputs from a place on."""
        self.let("QuantizeLinear", value, self.input(place), self.input(place + 1), output=0)


Definition = Callable[[Call], None]
Definitions = Mapping[str, Definition]
"""By operator. A definition that leaves a wanted output out is none for this call."""
