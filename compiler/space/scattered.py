"""Rule: a reduction whose iterations look up where they count, gone through once (compiler/schedule/scattered.py).

fill (parallel)
for axes around the places, or a share of the last one (parallel):
    for each update: vectors of a row, or element by element where each has a place of its own
the map, stored (parallel)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from compiler.loop.ir import LoopKind
from compiler.scalar import lookup_names
from compiler.scatter import find_scatter
from compiler.schedule.scattered import ONCE, scattered
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Algorithm, Bind, Reorder, Split, Step
from compiler.space.share import share
from compiler.space.space import Knob, SearchSpace, Value, number
from compiler.space.structure import flat_coefficients, lanes_for
from compiler.space.vector_map import map_steps
from compiler.symbol import Axis
from compiler.target import LINE_BYTES, Target
from compiler.workload.ir import Stage, Workload

UNROLLS = (1, 2, 4, 8)
WORTH_SHARING = 1 << 17
"""Elements that are added per thread from which on each goes through all indices for its share of a row."""


class Scattered:
    """The rule."""

    name = "scattered"

    def applies(self, workload: Workload) -> bool:
        """A reduction whose iterations look up where they count, and one map that reads it."""
        if len(workload.stages) != 2:
            return False
        anchor, store = workload.stages
        return find_scatter(anchor) is not None and store.reducer is None and bool(store.axes)

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: shares (of a row, one per thread at most) and unroll (vectors of a row)."""
        made = scattered(workload, ())
        fill, update, *rest = made.stages
        loops = _loops(fill, update, made, target)
        around = [Algorithm("scattered"), *map_steps(made, fill, target, threads)]
        last = [step for store in rest for step in map_steps(made, store, target, threads)]
        knobs = (Knob("shares", loops.shares(threads)), Knob("unroll", loops.unrolls))
        usual = {"shares": loops.usual_shares(threads), "unroll": loops.unrolls[-1]}

        def build(values: dict[str, Value]) -> Schedule:
            shares, unroll = number(values, "shares"), number(values, "unroll")
            return Schedule((*around, *loops.steps(shares, unroll), *last))

        default = tuple(knob.choices.index(usual[knob.name]) for knob in knobs)
        return SearchSpace(knobs, default, lambda _: True, build)


@dataclass(frozen=True, slots=True)
class _Loops:
    """Those of the stage that adds: axes around the places, the reduction's, and the axes of what is added.

    `lanes`: of the last axis; 1 where what differs along it goes to different places.
    """

    stage: Stage
    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    lanes: int

    @property
    def unrolls(self) -> tuple[int, ...]:
        """Vectors of a row that are added together."""
        if self.lanes == 1:
            return (1,)
        return tuple(u for u in UNROLLS if u * self.lanes <= max(self.lanes, self.inner[-1].size))

    def shares(self, threads: int) -> tuple[int, ...]:
        """How many threads may share out a row: there are whole lines for each."""
        if not self.inner or prod(a.size for a in self.outer) >= threads:
            return (1,)
        most = self.inner[-1].size // self._line
        return tuple(range(1, max(1, min(threads, most)) + 1))

    def usual_shares(self, threads: int) -> int:
        """All of them where that is worth it: parts of lines of indices, one per element, are no runs to read."""
        shares = self.shares(threads)[-1] if self.lanes > 1 else 1
        return shares if self.stage.points >= WORTH_SHARING * shares else 1

    @property
    def _line(self) -> int:
        return max(self.lanes, LINE_BYTES // self.stage.dtype.size_bytes)

    def steps(self, shares: int, unroll: int) -> list[Step]:
        """A thread's share of the last axis is one run, vectors of it inside."""
        name, steps = self.stage.name, list[Step]()
        outer = [ONCE, *(a.name for a in self.outer)]
        reduced = [a.name for a in self.stage.reduce_axes]
        inner = [a.name for a in self.inner]
        if self.inner and shares > 1:
            size, last = self.inner[-1].size, inner.pop()
            run = -(-size // (shares * self._line)) * self._line
            steps.append(Split(name, last, run))
            while run % (unroll * self.lanes):
                unroll //= 2
            outer.append(f"{last}.o")
            inner.append(f"{last}.i")
        bound: list[Step] = []
        if self.lanes > 1:
            last = inner.pop()
            steps += [Split(name, last, unroll * self.lanes), Split(name, f"{last}.i", self.lanes)]
            inner += [f"{last}.o", f"{last}.i.o", f"{last}.i.i"]
            bound = [
                Bind(name, f"{last}.i.o", LoopKind.UNROLLED),
                Bind(name, f"{last}.i.i", LoopKind.VECTOR),
            ]
        return [*steps, Reorder(name, (*outer, *reduced, *inner)), *share(name, outer), *bound]


def _loops(fill: Stage, update: Stage, workload: Workload, target: Target) -> _Loops:
    """The axes in the order of the target in memory, those in front of the first place outside."""
    own = {a.name for a in update.axes}
    far = flat_coefficients(fill, workload.buffers[fill.target].strides)
    first = max(step for name, step in far.items() if name not in own)
    axes = sorted((a for a in fill.axes if a.name in own), key=lambda a: far[a.name], reverse=True)
    outer = tuple(a for a in axes if far[a.name] > first)
    inner = tuple(a for a in axes if far[a.name] <= first)
    names = frozenset[str]().union(*lookup_names(update.body).values())
    lanes = 1
    if inner and far[inner[-1].name] == 1 and inner[-1].name not in names:
        lanes = lanes_for(inner[-1].size, target.lanes(update.dtype.size_bytes))
    return _Loops(update, outer, inner, lanes)
