"""Scatters: reductions in which each iteration counts for the places alone that it looks up.

    t[p, k] = sum(i) [v = indices[i]: u[i, k] where p = v, else 0]        →  t[v, k] += u[i, k] for every i

So an operator says of each place what it sums, as of any other reduction, and no two iterations write to one place.
Done that way it takes places times updates; an algorithm (compiler/schedule/scattered.py) and the reference go through
the updates once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Expr, Guard, Load, Lookup, substitute, walk
from compiler.scalar_type import neutral
from compiler.symbol import Axis


class Computation(Protocol):
    """What a Compute and a Stage have in common."""

    @property
    def axes(self) -> tuple[Axis, ...]: ...  # noqa: D102
    @property
    def reduce_axes(self) -> tuple[Axis, ...]: ...  # noqa: D102
    @property
    def reducer(self) -> str | None: ...  # noqa: D102
    @property
    def body(self) -> Expr: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Scatter:
    """What an iteration adds, and where.

    Attributes:
        places: the axes that the iteration looks up, and what each of them is.
        lookups: the Lookups around the body, outermost first; they define what is in `places`.
        update: what the iteration adds there, over the other axes and the reduction's.
    """

    places: Mapping[str, Index]
    lookups: tuple[Lookup, ...]
    update: Expr

    @property
    def body(self) -> Expr:
        """The update with its Lookups around it."""
        return looked_up(self.lookups, self.update)


def looked_up(lookups: tuple[Lookup, ...], inside: Expr) -> Expr:
    """An expression with Lookups around it, the first one outermost."""
    for lookup in reversed(lookups):
        inside = Lookup(lookup.found, lookup.value, inside)
    return inside


def find_scatter(compute: Computation) -> Scatter | None:
    """What a reduction scatters; None where it does not.

    Below its Lookups there is one Guard, which leaves everything but the place that was looked up at the neutral
    element. A place lies in its axis because what was looked up lies in its range, which is that of the axis.
    """
    if compute.reducer is None:
        return None
    body, lookups = compute.body, list[Lookup]()
    while isinstance(body, Lookup):
        lookups.append(body)
        body = body.inside
    if not isinstance(body, Guard) or not isinstance(body.outside, Const):
        return None
    if body.outside != neutral(compute.reducer, body.outside.dtype):
        return None
    free = {a.name: a for a in compute.axes if a.name not in _asked(lookups)}
    found = {lookup.found for lookup in lookups}
    places: dict[str, Index] = {}
    others: list[Bound] = []
    for bound in body.bounds:
        placed = _placed(bound, free, found)
        if placed is None or placed[0] in places:
            others.append(bound)
        else:
            places[placed[0]] = Index.of(placed[1])
    if not places:
        return None
    update = substitute(Guard(tuple(others), body.inside, body.outside) if others else body.inside, places)
    return Scatter(places, tuple(lookups), update)


def _asked(lookups: list[Lookup]) -> set[str]:
    """Names on which it depends what is looked up."""
    values = [e for lookup in lookups for e in walk(lookup.value)]
    bounds = [b.index for e in values if isinstance(e, Guard) for b in e.bounds]
    indices = [i for e in values if isinstance(e, Load) for i in e.indices]
    return {name for index in (*bounds, *indices) for name in index.names()}


def _placed(bound: Bound, axes: Mapping[str, Axis], found: set[LookedUp]) -> tuple[str, LookedUp] | None:
    """The axis of which a bound says that it is what was looked up, and that; None where it says something else."""
    if bound.high - bound.low != 1 or len(bound.index.terms) != 2 or bound.low != bound.index.const:
        return None
    (one, step), (other, back) = bound.index.terms
    if step + back or abs(step) != 1:
        return None
    name, place = (one, other) if isinstance(one, str) else (other, one)
    if not isinstance(name, str) or name not in axes or not isinstance(place, LookedUp) or place not in found:
        return None
    return (name, place) if axes[name].extent == Index.of(place.extent) else None
