"""Inputs whose sizes a model leaves open: each open dimension is a symbol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from compiler.frontend.builder import GraphBuilder, OpenValues
from compiler.frontend.input_shapes import input_dims
from compiler.frontend.limits import LARGEST
from compiler.symbol import Symbol

_LENGTHS = (128,)
"""What matters most of a dimension that is not the first of its input: a length, where the first is a batch."""


@dataclass(frozen=True)
class OpenInputs:
    """The symbols, and per input with an open dimension its shape with their names; dimensions may share a symbol."""

    symbols: tuple[Symbol, ...]
    shapes: Mapping[str, tuple[int | str, ...]]

    def shapes_at(self, values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the open inputs under values of the symbols."""
        return {
            name: tuple(values[dim] if isinstance(dim, str) else dim for dim in shape)
            for name, shape in self.shapes.items()
        }


def open_inputs(
    model: onnx.ModelProto,
    given: Mapping[str, tuple[int, ...]],
    named: Sequence[Mapping[str, tuple[int, ...]]] = (),
) -> OpenInputs:
    """The open dimensions of inputs that are not in `given`; an unnamed one gets a name of its own.

    An input without any shape is left out: importing says what is wrong with it. The sizes in `named` are what matters
    most.
    """
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name, dims in input_dims(model.graph).items():
        if name in given or dims is None or all(isinstance(dim, int) for dim in dims):
            continue
        shapes[name] = tuple(dim or f"{name}.{place}" for place, dim in enumerate(dims))
    first = {shape[0] for shape in shapes.values() if shape}
    hints: dict[str, set[int]] = {dim: set() for s in shapes.values() for dim in s if isinstance(dim, str)}
    for name, shape in shapes.items():
        for size in (size for size in named if len(size.get(name, ())) == len(shape)):
            for dim, value in zip(shape, size[name], strict=True):
                if isinstance(dim, str) and value <= LARGEST:
                    hints[dim].add(value)
    symbols = (
        Symbol(
            name, 1, LARGEST, tuple(sorted(hints[name], reverse=True)) or (() if name in first else _LENGTHS)
        )
        for name in hints
    )
    return OpenInputs(tuple(symbols), shapes)


def open_values(examples: Sequence[GraphBuilder]) -> OpenValues:
    """The values of a model whose shape differs between examples.

    A constant whose shape depends on an open size (a mask, the beginning of a table of positions) has other elements
    for every size: it must be left as what it is computed from.
    """
    first, *others = examples
    found = {}
    for name, shape in first.shapes.items():
        shapes = [shape, *(other.shapes.get(name, shape) for other in others)]
        dimensions = frozenset(
            d
            for d in range(len(shape))
            if len({other[d] if d < len(other) else None for other in shapes}) > 1
        )
        if dimensions or len({len(other) for other in shapes}) > 1:
            found[name] = dimensions or frozenset(range(len(shape)))
    return found
