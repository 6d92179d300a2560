"""Inputs whose sizes a model leaves open: each open dimension is a symbol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from compiler.frontend.input_shapes import input_dims
from compiler.frontend.read import read_source
from compiler.symbol import Symbol

LARGEST = 2**20
"""Largest value of a symbol."""


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
    model: str | Path | bytes | onnx.ModelProto, given: Mapping[str, tuple[int, ...]]
) -> OpenInputs:
    """The open dimensions of inputs that are not in `given`; an unnamed one gets a name of its own.

    An input without any shape is left out: importing says what is wrong with it.
    """
    shapes: dict[str, tuple[int | str, ...]] = {}
    for name, dims in input_dims(read_source(model, data=False).model.graph).items():
        if name in given or dims is None or all(isinstance(dim, int) for dim in dims):
            continue
        shapes[name] = tuple(dim or f"{name}.{place}" for place, dim in enumerate(dims))
    names = dict.fromkeys(dim for shape in shapes.values() for dim in shape if isinstance(dim, str))
    return OpenInputs(tuple(Symbol(name, 1, LARGEST) for name in names), shapes)
