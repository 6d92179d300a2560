"""What an algorithm costs without measuring: enough to tell whether fewer multiplications pay for what surrounds them.

    cycles = sum over stages of points / (lanes * pipes)          half more where one factor is a number
           + bytes of what is stored between phases, written and read
           + bytes of the constants                                     each over the rate at which they come

Constants come from beyond the second cache, in a network from far beyond: what fetches them ahead hides less than it
seems to where one kernel runs again and again. CPUs that halve their vectors multiply for so long that they hide them:

    constants * constants / (constants + arithmetic)

cycles are left of them. Of one core, and of what differs between algorithms only: operands and results are the same for
all.
"""

from __future__ import annotations

from collections.abc import Set

from compiler.scalar import Pick, walk
from compiler.space.default_order import FAR, NEAR
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

STREAMED = FAR / 2
"""Cycles per byte of what is written and read from end to end, which hardware follows."""
HIDDEN = 1 / 12
"""Cycles per byte of constants that arrive behind arithmetic."""
TRANSFORMED = 1.5
"""Multiply-adds that take as long as one by a number: each loads what it multiplies, and uses it once."""


def algorithm_cycles(workload: Workload, stored: Set[str], target: Target) -> float:
    """Cycles of a Workload as an algorithm makes it; `stored`: stages whose results lie in memory between phases."""
    arithmetic = sum(
        s.points * _weight(s) / (target.lanes(s.dtype.size_bytes) * target.multiply_adds)
        for s in workload.stages
    )
    targets = {s.target for s in workload.stages if s.name in stored}
    between = sum(t.size_bytes for t in workload.temporaries if t.name in targets)
    constants = sum(o.size_bytes for o in workload.operands if o.constant)
    rate = NEAR if between <= target.l2_bytes // 2 else STREAMED
    return arithmetic + 2 * between * rate + _fetched(constants, arithmetic, target)


def _weight(stage: Stage) -> float:
    return TRANSFORMED if any(isinstance(e, Pick) for e in walk(stage.body)) else 1.0


def _fetched(constants: int, arithmetic: float, target: Target) -> float:
    """Cycles that constants take besides the arithmetic."""
    if not target.halves_vectors:
        return constants * FAR
    alone = constants * HIDDEN
    return alone * alone / (alone + arithmetic)
