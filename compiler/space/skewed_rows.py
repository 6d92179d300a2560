"""Rows that begin anywhere in a line, as many at a time as make whole lines together (compiler/schedule/skewed.py)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from compiler.schedule.skewed import find_rows, skewed
from compiler.schedule.steps import Algorithm
from compiler.space.row_choices import RowChoices
from compiler.space.row_plan import RowPlan
from compiler.space.row_structure import row_axes
from compiler.target import LINE_BYTES, Target

LEAST_VECTORS, MOST_VECTORS = 2, 8
"""Of a row: in shorter ones those that are read besides weigh more, and longer ones are read in a loop."""
FEW_ROWS = 4
"""Rows of a block, the least: their sums are combined together."""


@dataclass(frozen=True, slots=True)
class SkewedRows:
    """How they are summed up: a block of rows, all vectors of each at once."""

    plan: RowPlan
    block: int
    accumulators: int

    def allows(self, choices: RowChoices) -> bool:
        """Whether lanes that count are known when code is made."""
        return (choices.block, choices.accumulators, choices.sweep) == (self.block, self.accumulators, 1)


def skewed_rows(plan: RowPlan, target: Target) -> SkewedRows | None:
    """None where something else than sums is left of rows, or vectors of theirs do not lie in two lines each."""
    axes, stages, lanes = plan.axes, plan.workload.stages, plan.lanes
    if axes.columns or not axes.rows or len(stages) != 2 or target.vector_bytes < LINE_BYTES:
        return None
    found = find_rows(plan.workload, stages[0], lanes)
    if found is None or found[1] is not axes.vector or found[1].size <= LEAST_VECTORS * lanes:
        return None
    # Blocks are of rows of the last axis: along the others they begin as the first does.
    pitch = found[2].pop(axes.rows[-1].name, 0)
    if not pitch or any(step % lanes for step in found[2].values()):
        return None
    step = Algorithm("skewed", (lanes,))
    made = skewed(plan.workload, step.parameters)
    shared, vectors = row_axes(made), made.stages[0].reduce_axes[-1].size // lanes
    if shared is None or vectors > MOST_VECTORS:
        return None
    again, block = RowPlan(made, shared, lanes, plan.near, step), max(FEW_ROWS, lanes // gcd(pitch, lanes))
    return SkewedRows(again, block, 1 << (vectors - 1).bit_length()) if again.in_blocks(block) else None
