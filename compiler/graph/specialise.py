"""Specialise: give symbols their values.

symbol n; input x: f32[n, 64]; y[a0, a1] over a0<n   →   input x: f32[4, 64]; y[a0, a1] over a0<4
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.errors import InputError
from compiler.graph.ir import Compute, Graph, TensorType
from compiler.index import Index
from compiler.scalar import substitute
from compiler.symbol import Axis


@dataclass(frozen=True)
class Specialise:
    """Symbols that get no value stay.

    Attributes:
        values: a number for some symbols of the graph, each within the symbol's range.
    """

    values: Mapping[str, int]
    name: str = "specialise"

    def run(self, graph: Graph) -> Graph:
        """Substitute in shapes, extents and indices; raises InputError on a value out of range."""
        for symbol in graph.symbols:
            value = self.values.get(symbol.name, symbol.low)
            if not symbol.low <= value <= symbol.high:
                msg = f"{symbol.name} = {value} is outside {symbol.low}..{symbol.high}; give a value within"
                raise InputError(msg)
        bindings = {s.name: Index.of(self.values[s.name]) for s in graph.symbols if s.name in self.values}
        if not bindings:
            return graph
        return replace(
            graph,
            inputs={name: _type(kind, bindings) for name, kind in graph.inputs.items()},
            nodes=tuple(replace(n, compute=_compute(n.compute, bindings)) for n in graph.nodes),
            symbols=tuple(s for s in graph.symbols if s.name not in bindings),
        )


def _type(kind: TensorType, bindings: Mapping[str, Index]) -> TensorType:
    return TensorType(tuple(extent.substitute(bindings) for extent in kind.shape), kind.dtype)


def _compute(compute: Compute, bindings: Mapping[str, Index]) -> Compute:
    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(a.name, a.extent.substitute(bindings)) for a in old)

    body = substitute(compute.body, bindings)
    return replace(compute, axes=axes(compute.axes), reduce_axes=axes(compute.reduce_axes), body=body)
