"""Values that an exporter spreads out: the same all along some of their dimensions.

y[i, j] = x[i, 0]      is the same along j

What is found out from such a value, as where its elements are in order, is found out from one element of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.frontend.builder import GraphBuilder
from compiler.frontend.call import OperatorCall
from compiler.index import ZERO, Index
from compiler.scalar import Expr, Guard, Load, Lookup, Pick, substitute, walk

_STEPS = 16
"""Nodes between a value and the one that is not spread out."""


def spread_dimensions(builder: GraphBuilder, value: str) -> frozenset[int]:
    """The dimensions along which all elements of a value are the same, as far as constants and Computes tell."""
    return _Search(builder).dimensions(value, _STEPS)


def narrowed(call: OperatorCall, value: str, dimensions: frozenset[int]) -> str:
    """A value that is spread out along these dimensions, without them."""
    builder = call.builder
    known = builder.constants.get(value)
    if known is not None:
        row = tuple(0 if d in dimensions else slice(None) for d in range(known.ndim))
        return call.intermediate_constant(known[row], "narrow")
    compute = builder.compute_of(value)
    if compute is None:
        msg = f"{value!r} is not known to be spread out"
        raise ValueError(msg)
    axes = tuple(a for d, a in enumerate(compute.axes) if d not in dimensions)
    first = {compute.axes[d].name: ZERO for d in dimensions}
    return call.intermediate(replace(compute, axes=axes, body=substitute(compute.body, first)), "narrow")


class _Search:
    """Looks at each value once."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._found: dict[str, frozenset[int]] = {}

    def dimensions(self, value: str, steps: int) -> frozenset[int]:
        if value not in self._found:
            self._found[value] = self._dimensions(value, steps)
        return self._found[value]

    def _dimensions(self, value: str, steps: int) -> frozenset[int]:
        known = self._builder.constants.get(value)
        if known is not None:
            return frozenset(
                d for d, n in enumerate(known.shape) if n < 2 or (known == known.take([0], d)).all()
            )
        compute = self._builder.compute_of(value)
        if compute is None or not steps:
            return frozenset()
        varying = {name for index in self._varying(compute.body, steps) for name in index.names()}
        return frozenset(d for d, a in enumerate(compute.axes) if a.name not in varying)

    def _varying(self, body: Expr, steps: int) -> Iterator[Index]:
        """What an element depends on, but for places along which what is read does not change."""
        for e in walk(body):
            match e:
                case Load(buffer, indices):
                    same = self.dimensions(buffer, steps - 1)
                    yield from (index for d, index in enumerate(indices) if d not in same)
                case Guard(bounds):
                    yield from (bound.index for bound in bounds)
                case Pick(_, index):
                    yield index
                case Lookup(found) if isinstance(found.extent, Index):
                    yield found.extent
                case _:
                    pass
