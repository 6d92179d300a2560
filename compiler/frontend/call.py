"""OperatorCall: one ONNX node as its lowering sees it, with inputs and attributes that are checked when read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper

from compiler.dtype import DType
from compiler.errors import ModelError, NotStatic, UnsupportedOperator
from compiler.frontend.builder import GraphBuilder
from compiler.frontend.tensors import TensorReader
from compiler.graph.ir import Compute
from compiler.scalar import Expr
from compiler.scalar_type import expr_type

Array = npt.NDArray[Any]


class NeedsValue(NotStatic):
    """A node must know a value before code is made for it, and the value is computed."""

    def __init__(self, value: str, operator: str, node: str, *, ours: bool) -> None:
        """`value`: its name in the builder; `ours`: a lowering made it, not the model."""
        what = "values that are computed" if ours else f"the value of {value!r}, which is computed"
        super().__init__(f"what node {node!r} ({operator}) becomes depends on {what}")
        self.value = value


_MOST_INTEGERS = 1 << 16


@dataclass(frozen=True)
class OperatorCall:
    """Values are addressed by input position; `emit` defines the outputs.

    Attributes:
        opset: version of the node's domain, for attributes that became inputs.
        operator: what it is called in messages.
        opsets: version of each domain.
        pending: what `expand` collects.
        label: the node's name, for messages.
    """

    proto: NodeProto
    opset: int
    label: str
    operator: str
    builder: GraphBuilder
    tensors: TensorReader
    opsets: Mapping[str, int] = field(default_factory=dict)
    pending: list[tuple[NodeProto, Mapping[str, int]]] = field(default_factory=list)

    # inputs

    def has(self, position: int) -> bool:
        """Whether an optional input is given."""
        return position < len(self.proto.input) and bool(self.proto.input[position])

    def value(self, position: int) -> str:
        """The value at an input; raises ModelError where it is missing."""
        if not self.has(position):
            self.reject(f"has no input {position}")
        name = self.proto.input[position]
        value = self.builder.resolve(name)
        if value in self.builder.absent or value in self.builder.sequences:
            self.reject(f"reads {name!r}, which is no tensor")
        if value not in self.builder.shapes:
            self.unsupported(f"it reads {name!r}, an optional output that Luthier does not compute")
        return value

    def values(self) -> list[str]:
        """All inputs of a variadic operator."""
        if not self.proto.input:
            self.reject("has no inputs")
        return [self.value(position) for position in range(len(self.proto.input))]

    def shape(self, position: int) -> tuple[int, ...]:
        """Shape of an input."""
        return self.builder.shapes[self.value(position)]

    def dtype(self, *values: str) -> DType:
        """The common element type; raises UnsupportedOperator where Luthier has none for it."""
        kinds = {self.builder.dtype(value) for value in values}
        try:
            (kind,) = kinds
            return DType.from_numpy(kind)
        except (ValueError, KeyError):
            self.unsupported(f"element type {', '.join(sorted(map(str, kinds)))}")

    def type_of(self, expr: Expr) -> DType:
        """Element type of an expression; raises UnsupportedOperator where it mixes types."""
        try:
            return expr_type(expr, lambda value: self.dtype(value))
        except ValueError as error:
            self.unsupported(f"its element types ({error})")

    def constant(self, position: int) -> Array:
        """Value of an input that must be known before code is made; raises NeedsValue otherwise."""
        name = self.value(position)
        if name not in self.builder.constants:
            ours = name not in self.builder.reserved
            raise NeedsValue(name, self.operator, self.label, ours=ours)
        return self.builder.constants[name]

    def is_sequence(self, position: int) -> bool:
        """Whether an input is a sequence."""
        return self.builder.resolve(self.proto.input[position]) in self.builder.sequences

    def is_absent(self, position: int) -> bool:
        """Whether an input is an optional without a value."""
        return self.builder.resolve(self.proto.input[position]) in self.builder.absent

    def sequence(self, position: int) -> tuple[str, ...]:
        """The values in a sequence; raises ModelError where the input is none."""
        name = self.proto.input[position] if self.has(position) else ""
        found = self.builder.sequences.get(self.builder.resolve(name))
        if found is None:
            self.reject(f"reads {name!r} at input {position}, which is no sequence")
        return found

    def constant_ints(self, position: int) -> list[int]:
        """A constant list of integers, such as axes."""
        array = self.constant(position)
        if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > _MOST_INTEGERS:
            self.reject(f"has {array.dtype}{list(array.shape)} at input {position} instead of integers")
        return [int(i) for i in array.reshape(-1)]

    def constant_float(self, position: int) -> float:
        """A constant number."""
        array = self.constant(position)
        if array.size != 1:
            self.reject(f"has shape {list(array.shape)} at input {position} instead of one number")
        return float(array.reshape(-1)[0])

    # attributes

    def attribute(self, name: str, kind: Any) -> AttributeProto | None:
        """The attribute, or None; raises ModelError where it has another type."""
        found: AttributeProto | None = next((a for a in self.proto.attribute if a.name == name), None)
        if found is not None and found.type != kind:
            self.reject(f"has an attribute {name!r} of the wrong type")
        return found

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        found = self.attribute(name, AttributeProto.INT)
        return default if found is None else found.i

    def number(self, name: str, default: float) -> float:
        """A float attribute."""
        found = self.attribute(name, AttributeProto.FLOAT)
        return default if found is None else found.f

    def ints(self, name: str) -> list[int] | None:
        """A list of integers, or None."""
        found = self.attribute(name, AttributeProto.INTS)
        return None if found is None else list(found.ints)

    def floats(self, name: str) -> list[float] | None:
        """A list of floats, or None."""
        found = self.attribute(name, AttributeProto.FLOATS)
        return None if found is None else list(found.floats)

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        found = self.attribute(name, AttributeProto.STRING)
        return default if found is None else found.s.decode(errors="replace")

    def texts(self, name: str) -> list[str]:
        """A list of texts; none where it is missing."""
        found = self.attribute(name, AttributeProto.STRINGS)
        return [] if found is None else [s.decode(errors="replace") for s in found.strings]

    def element_type(self, name: str, usual: DType) -> DType:
        """The element type that an attribute asks for; raises UnsupportedOperator where Luthier has none for it."""
        asked = self.integer(name, TensorProto.UNDEFINED)
        if not asked:
            return usual
        try:
            return DType.from_numpy(np.dtype(helper.tensor_dtype_to_np_dtype(asked)))
        except (KeyError, ValueError):
            self.unsupported(f"output type {asked}")

    def tensor(self, name: str) -> Array | None:
        """A tensor attribute, or None."""
        found = self.attribute(name, AttributeProto.TENSOR)
        return None if found is None else self.tensors.array(found.t, f"{self.label}.{name}")

    def graph(self, name: str) -> GraphProto:
        """A subgraph; raises ModelError where there is none."""
        found = self.attribute(name, AttributeProto.GRAPH)
        if found is None:
            self.reject(f"has no subgraph {name!r}")
        return found.g

    # outputs

    def expand(self, nodes: Iterable[NodeProto], opsets: Mapping[str, int] | None = None) -> None:
        """Stand for these nodes, which are lowered next; `opsets`: of them, where they are not of this node's."""
        self.pending.extend((node, self.opsets if opsets is None else opsets) for node in nodes)

    def fresh(self, suffix: str) -> str:
        """A name for a value on the way to the outputs, which no value has."""
        first = next(name for name in self.proto.output if name)
        return self.builder.reserve(f"{first}.{suffix}")

    def emit_sequence(self, values: Sequence[str], output: int = 0) -> None:
        """Let an output be a sequence of values."""
        if self.proto.output[output]:
            self.builder.sequences[self.proto.output[output]] = tuple(values)

    def emit_absent(self, output: int = 0) -> None:
        """Let an output be an optional without a value."""
        self.builder.absent.add(self.proto.output[output])

    def emit_alias(self, position: int, output: int = 0) -> None:
        """Let an output be an input, whatever that is."""
        if self.proto.output[output]:
            name = self.builder.resolve(self.proto.input[position])
            self.builder.aliases[self.proto.output[output]] = name

    def emit(self, compute: Compute, output: int = 0, *, eager: bool = True) -> None:
        """Define an output; see `GraphBuilder.add_compute` for `eager`."""
        if self.proto.output[output]:
            self._define(self.proto.output[output], compute, eager=eager)

    def intermediate(self, compute: Compute, suffix: str) -> str:
        """Define a value on the way to the first output, and return its name."""
        name = self.builder.fresh(f"{self.proto.output[0]}.{suffix}")
        self._define(name, compute)
        return name

    def is_open(self, output: int = 0) -> bool:
        """Whether the shape of an output depends on an open size: it is computed, also from constants alone."""
        return self.proto.output[output] in self.builder.open_values

    def decided(self, what: str, decision: bool) -> bool:  # noqa: FBT001 - it is what the name says
        """A decision that depends on sizes, after it was written down."""
        self.builder.decisions[f"{self.proto.output[0]}.{what}"] = decision
        return decision

    def emit_constant(self, array: Array, output: int = 0) -> None:
        """Define an output that is known before the first run."""
        if self.proto.output[output]:
            self.builder.add_constant(self.proto.output[output], array)

    def intermediate_constant(self, array: Array, suffix: str) -> str:
        """Define a constant on the way to the first output, and return its name."""
        name = self.builder.fresh(f"{self.proto.output[0]}.{suffix}")
        self.builder.add_constant(name, array)
        return name

    def emit_same(self, value: str, output: int = 0) -> None:
        """Let an output be another name of a value."""
        self.builder.aliases[self.proto.output[output]] = value

    def _define(self, name: str, compute: Compute, *, eager: bool = True) -> None:
        try:
            self.builder.add_compute(self.label, name, compute, eager=eager)
        except (ValueError, KeyError) as error:
            self.unsupported(f"its element types ({error})")

    # errors

    def reject(self, problem: str) -> NoReturn:
        """Raise ModelError about a node that ONNX does not allow."""
        msg = f"node {self.label!r} ({self.operator}) {problem}; export the model again"
        raise ModelError(msg)

    def unsupported(self, detail: str) -> NoReturn:
        """Raise UnsupportedOperator about a valid node that Luthier has no lowering for."""
        raise UnsupportedOperator(self.operator, self.opset, self.label, detail)


Lowering = Callable[[OperatorCall], None]
"""Emits the Computes of one node."""


def positive_axis(call: OperatorCall, axis: int, rank: int) -> int:
    """The axis counted from the front; raises ModelError where there is none."""
    if not -rank <= axis < rank:
        call.reject(f"has axis {axis} for a tensor of {rank} dimensions")
    return axis % rank


def distinct_axes(call: OperatorCall, axes: list[int], rank: int) -> list[int]:
    """Axes counted from the front, without repeats; raises ModelError."""
    found = [positive_axis(call, axis, rank) for axis in axes]
    if len(set(found)) != len(found):
        call.reject(f"names an axis twice in {axes}")
    return found


def size_of(shape: tuple[int, ...]) -> int:
    """Number of elements."""
    return int(np.prod(shape, dtype=np.int64))
