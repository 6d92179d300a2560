"""Collects the values of a model while its nodes are lowered one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import TENSOR_TYPES, DType
from compiler.errors import ModelError, NotStatic
from compiler.frontend.empty import of_nothing, without_empty
from compiler.frontend.limits import checked_shape
from compiler.frontend.precision import with_types
from compiler.graph.fold_constants import fold
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.index import Index
from compiler.scalar import Load
from compiler.symbol import axis

Array = npt.NDArray[Any]

OpenValues = Mapping[str, frozenset[int]]
"""By name, the dimensions whose sizes differ from example to example of a model with open sizes."""
NOTHING_OPEN: OpenValues = MappingProxyType({})

_KNOWN_ELEMENTS, _KNOWN_STEPS = 1 << 22, 64
"""Elements of a value that is found out where it is needed at compile time, and nodes between it and constants."""
_EAGER_ELEMENTS = 4096
"""Constant results up to this size are known at once: later nodes may need them as shapes, axes or limits."""


@dataclass
class GraphBuilder:
    """Values by name. ONNX names lead to them through `aliases` where a node changes nothing."""

    reserved: frozenset[str]
    """Names that the model itself uses, now or later."""
    open_values: OpenValues = field(default_factory=dict)
    """The values whose shape depends on an open size: they are computed, also where they are known."""
    asked: bool = False
    """Whether a lowering has asked what is open."""
    decisions: dict[str, bool] = field(default_factory=dict)
    """What lowerings decided by sizes: a form holds as far as they are decided alike."""
    partial: bool = False
    """Whether a form is of use that holds for a part of all sizes: the others have code of their own."""
    inputs: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    sequences: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The elements of each sequence: their number is always known."""
    absent: set[str] = field(default_factory=set)
    """Optionals without a value."""
    _computed: dict[str, DType] = field(default_factory=dict)
    _promised: set[str] = field(default_factory=set)
    _shared: dict[str, str] = field(default_factory=dict)
    _found: dict[str, Array | None] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """The value that an ONNX name stands for."""
        return self.aliases.get(name, name)

    def is_open(self, value: str, dimensions: Iterable[int]) -> bool:
        """Whether one of these dimensions of a value depends on an open size."""
        self.asked = True
        return not self.open_values.get(value, frozenset()).isdisjoint(dimensions)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Element type of a value; constants may have any that NumPy knows."""
        if name in self.constants:
            return self.constants[name].dtype
        return self._computed[name].numpy

    def add_input(self, name: str, shape: tuple[int, ...], dtype: DType) -> None:
        """Declare an input of the model."""
        self.inputs[name] = TensorType(tuple(Index.of(n) for n in shape), dtype)
        self.shapes[name] = shape
        self._computed[name] = dtype

    def add_constant(self, name: str, array: Array) -> None:
        """Define a value that is known before the first run; it becomes read-only."""
        value = np.asarray(array, order="C")
        value.setflags(write=False)
        self.constants[name] = value
        self.shapes[name] = value.shape

    def shared_constant(self, base: str, make: Callable[[], Array]) -> str:
        """The name of a constant that is made once for all that ask for it by this name."""
        if base not in self._shared:
            self._shared[base] = self.fresh(base)
            self.add_constant(self._shared[base], make())
        return self._shared[base]

    def add_compute(self, node: str, name: str, compute: Compute, *, eager: bool = True) -> None:
        """Define a computed value. `eager`: a small value of constants becomes known at once.

        Raises:
            ValueError: the body mixes element types.
            KeyError: it reads a constant of a type that cannot be computed with.
        """
        shape = checked_shape((a.size for a in compute.axes), f"{name!r} of node {node!r}")
        checked_shape((1, *(a.size for a in compute.reduce_axes)), f"the reduction of node {node!r}")
        compute = without_empty(compute, self.constants)
        compute = with_types(compute, lambda value: DType.from_numpy(self.dtype(value)))
        if 0 in shape or any(a.size == 0 for a in compute.reduce_axes):
            return self.add_constant(name, of_nothing(compute))
        eager = eager and name not in self.open_values
        small = int(np.prod(shape, dtype=np.int64)) <= _EAGER_ELEMENTS
        value = fold(compute, self.constants) if eager and (small or not compute.dtype.is_float) else None
        if value is not None:
            return self.add_constant(name, value)
        self.nodes.append(Node(node, name, compute))
        self.shapes[name] = shape
        self._computed[name] = compute.dtype
        return None

    def known(self, name: str, steps: int = _KNOWN_STEPS) -> Array | None:
        """What a value of constants is, also where it is large; None where it depends on inputs or open sizes.

        For what is needed at compile time, such as indices that an exporter spreads out. `steps`: how many nodes back
        the constants may be.
        """
        if name in self.constants:
            return self.constants[name]
        if name not in self._found:
            self._found[name] = None if name in self.open_values else self._evaluated(name, steps)
        return self._found[name]

    def compute_of(self, name: str) -> Compute | None:
        """How a value is computed; None for inputs and constants."""
        return next((node.compute for node in reversed(self.nodes) if node.output == name), None)

    def _evaluated(self, name: str, steps: int) -> Array | None:
        compute = self.compute_of(name)
        if compute is None or not steps:
            return None
        found = {value: self.known(value, steps - 1) for value in compute.reads}
        values = {value: array for value, array in found.items() if array is not None}
        return fold(compute, values, most=_KNOWN_ELEMENTS) if len(values) == len(found) else None

    def fresh(self, base: str) -> str:
        """A name that no value of the model has."""
        name, count = base, 0
        while name in self.reserved or name in self.shapes or name in self._promised:
            count += 1
            name = f"{base}.{count}"
        return name

    def reserve(self, base: str) -> str:
        """A fresh name that is not given again, for a value that comes later."""
        name = self.fresh(base)
        self._promised.add(name)
        return name

    def graph(self, outputs: Sequence[str], name: str) -> Graph:
        """All of it; an output that repeats another value becomes a copy of it. Raises ModelError."""
        produced = {node.output for node in self.nodes}
        for output in outputs:
            if output in self.inputs:
                msg = f"output {output!r} of the model is one of its inputs; put an Identity node in between"
                raise ModelError(msg)
            if 0 in self.shapes.get(self.resolve(output), ()):
                msg = f"output {output!r} of the model has shape {list(self.shapes[self.resolve(output)])}"
                raise NotStatic(msg)
            if self.resolve(output) not in self.shapes:
                msg = f"output {output!r} of the model is optional and not computed; export the model without it"
                raise ModelError(msg)
            if output not in produced:
                self._copy(output, self.resolve(output))
        read = {value for node in self.nodes for value in node.compute.reads}
        constants = {n: a for n, a in self.constants.items() if n in read}
        return Graph(
            self.inputs,
            tuple(outputs),
            constants,
            tuple(self.nodes),
            open_values=frozenset(self.open_values),
            name=name,
        )

    def _copy(self, output: str, value: str) -> None:
        try:
            dtype = DType.from_numpy(self.dtype(value))
        except KeyError:
            known = ", ".join(d.value for d in TENSOR_TYPES)
            msg = f"output {output!r} of the model has type {self.dtype(value)}; use one of {known}"
            raise ModelError(msg) from None
        if output in self.constants:
            array = self.constants.pop(output)
            value = self.fresh(f"{output}.value")
            self.add_constant(value, array)
        axes = tuple(axis(f"a{d}", n) for d, n in enumerate(self.shapes[value]))
        body = Load(value, tuple(Index.of(a.name) for a in axes))
        self.nodes.append(Node("copy", output, Compute(axes, (), None, body, dtype)))
