"""What an algorithm costs without measuring: enough to tell whether fewer multiplications pay for what surrounds them.

    cycles = sum over stages of points / (lanes in use * pipes)
           + bytes of what is stored between phases, written and read
           + bytes of the constants                                     each over the rate at which they come

Entries of a constant matrix that are 0 leave nothing to compute, and neither do places of a window with gaps that lie
outside of the data: whole tiles of them are passed over (compiler/loop/skip.py). Constants come from beyond the second
cache, in a network from far beyond: what fetches them ahead hides less than it seems to where one kernel runs again and
again.
Where the rate at which they come is known (`Target.memory_rate`), they arrive behind arithmetic, in part:

    constants * constants / (constants + arithmetic)

cycles are left of them, and what is stored between phases is read as from the second cache, up to a few times as much
as that holds. Of all threads together, which share what is computed and the way to memory, and of what differs between
algorithms only: operands and results are the same for all.
"""

from __future__ import annotations

from collections.abc import Set
from math import prod

from compiler.scalar import Apply, Bound, Guard, Pick, walk
from compiler.space.default_order import FAR, NEAR
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

STREAMED = FAR / 2
"""Cycles per byte of what is written and read from end to end, which hardware follows."""
KEPT_UP = 8
"""Second caches of what is stored between phases that are near where what is read ahead arrives behind arithmetic."""

_GAPS = 2
"""Places from one tap of a window to the next, from where on tiles may lie outside for a tap."""


def algorithm_cycles(workload: Workload, stored: Set[str], target: Target, threads: int) -> float:
    """Cycles of a Workload as an algorithm makes it; `stored`: stages whose results lie in memory between phases."""
    arithmetic = arithmetic_cycles(workload, target)
    targets = {s.target for s in workload.stages if s.name in stored}
    between = sum(t.size_bytes for t in workload.temporaries if t.name in targets)
    constants = sum(o.size_bytes for o in workload.operands if o.constant)
    room = KEPT_UP * target.l2_bytes if target.memory_rate(threads) else target.l2_bytes // 2
    rate = NEAR if between <= room else STREAMED
    return arithmetic + 2 * between * rate + fetched(constants, arithmetic, target, threads)


def arithmetic_cycles(workload: Workload, target: Target) -> float:
    """Cycles of what all stages compute."""
    return sum(s.points * _kept(s) * share_inside(s) / _at_once(s, target) for s in workload.stages)


def _at_once(stage: Stage, target: Target) -> float:
    """Points of a stage that one cycle computes.

    A transform, which multiplies by entries of matrices, has no more lanes in use than it has channels. Others share
    the last vector where it is half full at most (compiler/space/last_vectors.py); else some of its lanes are idle.
    """
    lanes, wide = target.lanes(stage.dtype.size_bytes), stage.axes[-1].size
    if any(isinstance(e, Pick) for e in walk(stage.body)):
        return min(wide, lanes) * target.multiply_adds
    idle = -wide % lanes
    return lanes * wide / (wide + (idle if idle < lanes // 2 else 0)) * target.multiply_adds


def _kept(stage: Stage) -> float:
    """Share of a stage's points that are left where its constant matrices have no 0."""
    matrices = [e.values for e in walk(stage.body) if isinstance(e, Pick)]
    return prod(sum(value != 0 for value in values) / len(values) for values in matrices)


def share_inside(stage: Stage) -> float:
    """Share of a sum's points at which a window with gaps is inside of the data."""
    if not isinstance(stage.body, Apply) or stage.body.op != "mul" or stage.reducer != "sum":
        return 1.0
    bounds = [b for e in stage.body.args if isinstance(e, Guard) for b in e.bounds]
    return prod(_held(bound, stage) for bound in bounds)


def _held(bound: Bound, stage: Stage) -> float:
    """Share of the places of a row and the taps of a window for which a test holds; 1 of taps that are neighbours."""
    index = bound.index
    row = next((a for a in stage.axes if a.name in index.names()), None)
    tap = next((a for a in stage.reduce_axes if a.name in index.names()), None)
    if row is None or tap is None or not index.is_affine() or index.names() != {row.name, tap.name}:
        return 1.0
    step, gap = index.coefficient(row.name), index.coefficient(tap.name)
    if gap < _GAPS or step < 1:
        return 1.0
    places, starts = range(row.size), range(index.const, index.const + gap * tap.size, gap)
    held = 0
    for start in starts:
        first, behind = (-((start - end) // step) for end in (bound.low, bound.high))
        held += len(places[max(0, first) : max(0, behind)])
    return held / (len(places) * len(starts))


def fetched(constants: int, arithmetic: float, target: Target, threads: int) -> float:
    """Cycles that constants take besides the arithmetic, of all threads together."""
    rate = target.memory_rate(threads)
    return left_of(constants / rate, arithmetic) if rate else constants * FAR


def left_of(fetching: float, busy: float) -> float:
    """Cycles that fetching takes besides what a core is busy with meanwhile."""
    return fetching * fetching / (fetching + busy)
