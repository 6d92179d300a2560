"""What an algorithm costs without measuring: enough to tell whether fewer multiplications pay for what surrounds them.

    arithmetic = sum over stages of points / (lanes * pipes)
    constants  = bytes of the constants / the rate at which they come
    cycles     = arithmetic + constants * constants / (constants + arithmetic)
               + bytes of what is stored between phases, written and read / its rate

Constants come from beyond the second cache, in a network from far beyond. What fetches them ahead hides them behind
arithmetic that takes much longer, and not where they take as long. Of one core, and of what differs between algorithms
only: operands and results are the same for all.
"""

from __future__ import annotations

from collections.abc import Set

from compiler.space.default_order import FAR, NEAR
from compiler.target import Target
from compiler.workload.ir import Workload

STREAMED = FAR / 2
"""Cycles per byte of what is written and read from end to end, which hardware follows."""
CONSTANT = 1 / 8
"""Cycles per byte of constants, which are read in the order of memory."""


def algorithm_cycles(workload: Workload, stored: Set[str], target: Target) -> float:
    """Cycles of a Workload as an algorithm makes it; `stored`: stages whose results lie in memory between phases."""
    arithmetic = sum(
        s.points / (target.lanes(s.dtype.size_bytes) * target.multiply_adds) for s in workload.stages
    )
    targets = {s.target for s in workload.stages if s.name in stored}
    between = sum(t.size_bytes for t in workload.temporaries if t.name in targets)
    constants = sum(o.size_bytes for o in workload.operands if o.constant)
    rate = NEAR if between <= target.l2_bytes // 2 else STREAMED
    fetched = constants * CONSTANT
    hidden = fetched * arithmetic / (fetched + arithmetic) if fetched else 0.0
    return arithmetic + fetched - hidden + 2 * between * rate
