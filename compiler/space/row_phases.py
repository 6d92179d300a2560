"""Rows in phases: every stage on all threads, one after the other, for few long rows.

    for row, block (parallel): partial result        largest, of a softmax over one long row
    for row (parallel): largest of the partial results
    for row, column (parallel): power
    ...

What is between the phases is scratch memory.
"""

from __future__ import annotations

from compiler.loop.ir import LoopKind
from compiler.schedule.steps import Bind, ComputeAt, Inline, Reorder, RFactor, Split, Step
from compiler.space.row_choices import RowChoices
from compiler.space.row_plan import RowPlan, binds
from compiler.space.row_structure import contiguous_axis, summed_axis
from compiler.space.share import share
from compiler.symbol import Axis
from compiler.workload.ir import Stage

BLOCKS_PER_THREAD = 4


class RowPhases:
    """The Steps; `plan` knows the stages and the lanes."""

    def __init__(self, plan: RowPlan, threads: int) -> None:
        """`threads`: how many share a phase."""
        self._plan, self._threads = plan, threads

    def steps(self, choices: RowChoices) -> list[Step]:
        """The whole schedule."""
        gone = [*self._plan.inlined, *self._plan.repeated(choices)]
        steps: list[Step] = [Inline(s.name) for s in gone]
        for stage in self._plan.workload.stages:
            if stage in gone:
                continue
            if stage.reducer is None:
                steps += self._map(stage, choices)
            elif self._plan.axes.along_rows:
                steps += self._over_rows(stage, choices)
            else:
                steps += self._over_columns(stage, choices)
        return steps

    def _map(self, stage: Stage, choices: RowChoices) -> list[Step]:
        along = contiguous_axis(stage, self._plan.workload)
        names = [a.name for a in stage.axes]
        if along is None or self._plan.lanes == 1:
            return share(stage.name, names)
        outer = [f"{n}.o" if n == along.name else n for n in names]
        lane = f"{along.name}.i"
        return [
            Split(stage.name, along.name, self._plan.wide(along.size, choices.unroll)),
            Reorder(stage.name, (*outer, lane)),
            *share(stage.name, outer),
            Bind(stage.name, lane, LoopKind.VECTOR),
        ]

    def _over_columns(self, stage: Stage, choices: RowChoices) -> list[Step]:
        """Blocks of columns, each in the lanes of a long vector."""
        vector = summed_axis(stage, self._plan.workload)
        rows = [a.name for a in stage.axes]
        if vector not in stage.reduce_axes or self._plan.lanes == 1:
            return share(stage.name, rows)
        wide = self._plan.wide(vector.size, choices.accumulators)
        block, lane = f"{vector.name}.o", f"{vector.name}.i.i"
        partial = f"{stage.name}.{block}"
        lanes = f"{partial}.{lane}"
        others = [a.name for a in stage.reduce_axes if a != vector]
        return [
            Split(stage.name, vector.name, self._block(stage, vector, wide)),
            RFactor(stage.name, block),
            Split(partial, f"{vector.name}.i", wide),
            RFactor(partial, lane),
            *share(partial, [*rows, block]),
            ComputeAt(lanes, partial, "*".join([*rows, block])),
            Reorder(lanes, (*others, f"{vector.name}.i.o", lane)),
            Bind(lanes, lane, LoopKind.VECTOR),
            Bind(partial, lane, LoopKind.VECTOR),
            *share(stage.name, rows),
        ]

    def _over_rows(self, stage: Stage, choices: RowChoices) -> list[Step]:
        """Blocks of the last reduction axis; neighbouring rows fill the lanes of a tile of sums in registers."""
        row = self._plan.axes.vector
        assert row is not None
        last = stage.reduce_axes[-1]
        block, turn = f"{last.name}.o", f"{last.name}.i.i"
        partial = f"{stage.name}.{block}"
        sums = f"{partial}.{turn}"
        wide = self._plan.lanes * min(choices.block, choices.unroll)
        rows = [a.name for a in stage.axes if a != row]
        others = [a.name for a in stage.reduce_axes[:-1]]
        panel, vectors, lanes = f"{row.name}.o", f"{row.name}.i.o", f"{row.name}.i.i"
        return [
            Split(stage.name, last.name, self._block(stage, last, choices.accumulators)),
            RFactor(stage.name, block, outermost=True),
            Split(partial, f"{last.name}.i", choices.accumulators),
            RFactor(partial, turn, outermost=True),
            Split(partial, row.name, self._plan.lanes * choices.block),
            Split(partial, f"{row.name}.i", wide),
            Reorder(partial, (*rows, block, panel, turn, vectors, lanes)),
            *share(partial, [*rows, block]),
            *binds(partial, [turn, vectors], lanes),
            ComputeAt(sums, partial, panel),
            Split(sums, row.name, wide),
            Reorder(sums, (*others, f"{last.name}.i.o", turn, panel, f"{row.name}.i")),
            *binds(sums, [turn, panel], f"{row.name}.i"),
            Split(stage.name, row.name, wide),
            Reorder(stage.name, (*rows, panel, block, f"{row.name}.i")),
            *share(stage.name, [*rows, panel]),
            Bind(stage.name, f"{row.name}.i", LoopKind.VECTOR),
        ]

    def _block(self, stage: Stage, axis: Axis, unit: int) -> int:
        """Length of a block: a multiple of `unit`, so that every thread has several."""
        rows = 1
        for a in stage.axes:
            rows *= 1 if a == self._plan.axes.vector else a.size
        blocks = max(1, -(-BLOCKS_PER_THREAD * self._threads // rows))
        return -(-axis.size // (blocks * unit)) * unit
