"""A loop that a driver runs: the number of its iterations is found as it runs, or is large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.errors import NotStatic
from compiler.frontend.work import Work


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What a driver does.

    while iteration < trip_count and condition:
        condition, carried, scanned = body(iteration, condition, carried)
        append each of `scanned` to its collection

    Names are of values around the loop where not said otherwise.

    Attributes:
        trip_count: "" for no limit.
        condition: "" for true.
        carried: the values that enter the first iteration.
        collected: sequences of what earlier iterations gave.
        body: its nodes.
        inputs: of the body: iteration, condition, carried.
        results: of the body: condition, carried, scanned.
        outputs: carried, then each collection, whose elements become one tensor; "" for one that nobody reads.
        empty: shape and element type (in NumPy) of an element of each collection, where the model says so.
    """

    name: str
    first: int
    trip_count: str
    condition: str
    carried: Sequence[str]
    collected: Sequence[str]
    body: Work | None
    inputs: Sequence[str]
    results: Sequence[str]
    outputs: Sequence[str]
    empty: Sequence[tuple[tuple[int, ...], str] | None]


class NeedsLoop(NotStatic):
    """A node is a loop that cannot be unrolled before the model runs."""

    def __init__(self, plan: LoopPlan, operator: str, why: str) -> None:
        super().__init__(f"node {plan.name!r} ({operator}) {why}")
        self.plan = plan
