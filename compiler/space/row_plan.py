"""The Steps of the rule for rows: the loops of the last stage, then every other stage attached to them, in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

from compiler.loop.ir import LoopKind
from compiler.scalar import Apply, Load, walk
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Inline, Reorder, Reverse, RFactor, Split, Step
from compiler.space.row_choices import CHEAP, IN_REGISTERS, KEEP, REPEAT, SHORT_ROW, RowChoices
from compiler.space.row_structure import RowAxes, contiguous_axis, summed_axis
from compiler.space.share import share
from compiler.symbol import Axis, divides
from compiler.workload.ir import Stage, Workload, stage_loads

KEPT_BLOCKS = 4
"""Blocks of a sweep for which what one stage leaves for another is kept: two sums at most lie between the two."""

LIGHT = frozenset({"add", "sub", "mul", "max", "min", "neg", "abs"})
FEW_OPERATIONS = 2
"""Operations, and how many, of a map that is repeated sooner than stored and loaded again: it loads one vector."""

SHORTEST = 4
"""Lanes of blocks that are transposed in registers."""


class RowPlan:
    """Schedules of one Workload whose stages share rows.

    `widest`: lanes of the target; `near`: elements that its first cache holds; `algorithm`: what made the Workload.
    """

    def __init__(
        self, workload: Workload, axes: RowAxes, widest: int, near: int, algorithm: Algorithm | None = None
    ) -> None:
        """Look at the stages."""
        self.workload, self.axes, self.near, self.algorithm = workload, axes, near, algorithm
        self.last = workload.stages[-1]
        size = axes.vector.size if axes.vector is not None else 1
        self.lanes = 1
        while self.lanes < min(size, widest):
            self.lanes *= 2

    @cached_property
    def inlined(self) -> tuple[Stage, ...]:
        """Maps over columns that one stage reads: there is nothing to repeat."""
        return tuple(s for s in self._column_maps if self._readers(s) < 2)

    @cached_property
    def shared(self) -> tuple[Stage, ...]:
        """Maps over columns that several stages read."""
        return tuple(s for s in self._column_maps if self._readers(s) > 1)

    @cached_property
    def cheap(self) -> tuple[Stage, ...]:
        """Those of the shared maps that take no longer than loading what they made: the distance from a mean is one."""
        return tuple(s for s in self.shared if self._is_cheap(s))

    def _is_cheap(self, stage: Stage) -> bool:
        rows, found = self._names(self.axes.rows), list(walk(stage.body))
        operations = [e.op for e in found if isinstance(e, Apply)]
        along = {e for e in found if isinstance(e, Load) and any(i.names() - rows for i in e.indices)}
        return len(along) == 1 and len(operations) <= FEW_OPERATIONS and LIGHT.issuperset(operations)

    def repeated(self, choices: RowChoices) -> tuple[Stage, ...]:
        """The shared maps that are not stored."""
        return {KEEP: (), REPEAT: self.shared, CHEAP: self.cheap}[choices.maps]

    @property
    def outer_sizes(self) -> tuple[int, ...]:
        """Trip counts of the loops over rows for blocks of one row or vector."""
        sizes = [-(-a.size // self.lanes) if a == self._lane_row else a.size for a in self._ordered_rows]
        return tuple(sizes) or (1,)

    @property
    def row_vectors(self) -> int:
        """Vectors of a row; of the row axis whose neighbours fill the lanes, there."""
        vector = self.axes.vector
        if vector is None:
            return 1
        across = max(prod(a.size for a in s.reduce_axes if a != vector) for s in self.workload.stages)
        return -(-vector.size // self.lanes) * (1 if self.axes.along_rows else across)

    @property
    def row_elements(self) -> int:
        """Elements of a row of the output."""
        return prod(a.size for a in self.axes.columns)

    def divides(self, choices: RowChoices) -> bool:
        """Whether blocks that are streamed, whose loops are not unrolled, are all of one length."""
        row = self._lane_row
        return row is None or choices.block <= IN_REGISTERS or row.size % self._block_size(choices) == 0

    def sweeps(self, choices: RowChoices) -> bool:
        """Whether there are rows for a sweep, in blocks of one length."""
        rows, size = self._ordered_rows, self._block_size(choices)
        return bool(rows) and rows[-1].size >= size * choices.sweep and self.in_blocks(size)

    def in_turn(self, choices: RowChoices) -> bool:
        """Whether the rows of a block go through a stage one after the other, as memory has them, not side by side."""
        return choices.sweep > 1 and self.row_vectors >= SHORT_ROW

    @property
    def all_follow(self) -> bool:
        """Whether all stages of a sweep are in one pipeline: a sum along another axis stands between two."""
        return self.lanes > 1 and all(
            s.reducer is None or summed_axis(s, self.workload) in s.reduce_axes for s in self.workload.stages
        )

    def in_blocks(self, size: int) -> bool:
        """Whether there are whole blocks of so many rows only."""
        rows = self._ordered_rows
        return size == 1 or (bool(rows) and divides(size, rows[-1].extent))

    def local_elements(self, choices: RowChoices) -> int:
        """Elements of the maps that are kept: for the blocks under way, or for all where not every stage follows."""
        blocks = min(choices.sweep, KEPT_BLOCKS) if self.all_follow else choices.sweep
        rows = self._block_size(choices) * blocks
        return sum(
            rows * _padded(s, self._names(self.axes.rows), 8 * self.lanes)
            for s in self.shared
            if s not in self.repeated(choices)
        )

    def steps(self, choices: RowChoices) -> list[Step]:
        """The whole schedule."""
        gone = [*self.inlined, *self.repeated(choices)]
        steps: list[Step] = [self.algorithm] if self.algorithm is not None else []
        steps += [Inline(s.name) for s in gone]
        loop, own = self._last_steps(choices)
        steps += own
        for stage in reversed(self.workload.stages[:-1]):
            if stage not in gone:
                steps += self._attached(stage, choices, loop)
        return steps

    # --- the last stage

    def _last_steps(self, choices: RowChoices) -> tuple[str, list[Step]]:
        """The loop that all others are attached to, and the Steps."""
        name = self.last.name
        split, outer, sweep, inner = self._row_loops(choices)
        columns = [a.name for a in self.axes.columns]
        if not outer and columns:
            split.append(Split(name, columns[0], self.axes.columns[0].size))
            outer, columns = [f"{columns[0]}.o"], [f"{columns[0]}.i", *columns[1:]]
        elif not outer:
            outer = [a.name for a in self.last.axes]
        made, ordered, kinds = self._inner_loops(self.last, columns, inner, choices)
        units = [a.name for a in self.last.axes if a.size == 1 and a.name not in outer]
        steps = [*split, *made, Reorder(name, (*outer, *units, *sweep, *ordered))]
        shared = outer[: max(1, choices.parallel)]
        steps += [*share(name, shared), *kinds, *_pipelined(name, sweep)]
        return ("*".join(shared) if len(shared) == len(outer) else outer[-1]), steps

    def _row_loops(self, choices: RowChoices) -> tuple[list[Step], list[str], list[str], list[str]]:
        """Splits, loops over sweeps, the loop over the blocks of one, the loop inside a block."""
        names = [a.name for a in self._ordered_rows]
        blocked = self._lane_row or (self._ordered_rows[-1] if self._ordered_rows else None)
        size, name = self._block_size(choices), self.last.name
        if blocked is None or size * choices.sweep == 1:
            return [], names, [], []
        outer, inside = [*names[:-1], f"{names[-1]}.o"], f"{names[-1]}.i"
        if choices.sweep == 1:
            return [Split(name, blocked.name, size)], outer, [], [inside]
        split: list[Step] = [Split(name, blocked.name, size * choices.sweep), Split(name, inside, size)]
        return split, outer, [f"{inside}.o"], [f"{inside}.i"]

    # --- attached stages

    def _attached(self, stage: Stage, choices: RowChoices, loop: str) -> list[Step]:
        if stage.reducer is None:
            at: list[Step] = [ComputeAt(stage.name, self.last.name, loop)]
            columns = [a.name for a in stage.axes if a.name not in self._names(self.axes.rows) and a.size > 1]
            swept, sweep, block = self._swept(stage, choices)
            split, ordered, kinds = self._inner_loops(stage, columns, block, choices)
            order = self._order(stage, (*sweep, *ordered))
            return [*at, *swept, *split, order, *kinds, *_pipelined(stage.name, sweep)]
        if self.axes.along_rows:
            return self._accumulate_rows(stage, choices, loop)
        return self._accumulate_columns(stage, choices, loop)

    def _accumulate_columns(self, stage: Stage, choices: RowChoices, loop: str) -> list[Step]:
        """Partial results in the lanes of a long vector, combined at the end of each row."""
        vector = summed_axis(stage, self.workload)
        if vector not in stage.reduce_axes or self.lanes == 1:
            return [ComputeAt(stage.name, self.last.name, loop)]
        name, lane = stage.name, f"{vector.name}.i"
        rows, others = self._blocked(stage), [a.name for a in stage.reduce_axes if a != vector]
        partial = f"{name}.{lane}"
        swept, sweep, block = self._swept(stage, choices)
        unrolled, columns = [] if self.in_turn(choices) else rows, [*others, f"{vector.name}.o"]
        order = [*columns, *rows] if unrolled else [*rows, *columns]
        return [
            Split(name, vector.name, self.wide(vector.size, choices.accumulators)),
            RFactor(name, lane),
            ComputeAt(name, self.last.name, loop),
            *swept,
            *([self._order(stage, (*sweep, *block, lane))] if sweep else []),
            ComputeAt(partial, *((name, sweep[0]) if sweep else (self.last.name, loop))),
            self._order(stage, (*order, lane), partial),
            *binds(partial, unrolled, lane),
            *binds(name, block, lane),
            *_pipelined(name, sweep),
        ]

    def _swept(self, stage: Stage, choices: RowChoices) -> tuple[list[Step], list[str], list[str]]:
        """The split of an attached stage's rows into blocks, the loop over them, and the loop inside a block."""
        rows = self._blocked(stage)
        if choices.sweep == 1 or not rows:
            return [], [], rows
        (row,) = rows
        return [Split(stage.name, row, self._block_size(choices))], [f"{row}.o"], [f"{row}.i"]

    def _accumulate_rows(self, stage: Stage, choices: RowChoices, loop: str) -> list[Step]:
        """A vector of rows per partial result: in registers, or many in the cache so that memory is read in its order.

        In the second form the sum of a few elements is made in a register before it is added to what is in the cache.
        """
        name, row = stage.name, self._lane_row
        assert row is not None
        reduced = [a.name for a in stage.reduce_axes]
        count = min(choices.accumulators, stage.reduce_axes[-1].size)
        lanes = [f"{row.name}.o", f"{row.name}.i"]
        own: list[Step] = [
            ComputeAt(name, self.last.name, loop),
            Split(name, row.name, self._row_vector(choices)),
        ]
        streams = choices.block > IN_REGISTERS
        kinds = binds(name, [] if streams else lanes[:1], lanes[1])
        if count == 1:
            return [*own, self._order(stage, (*reduced, *lanes)), *kinds]
        outer, turn = f"{reduced[-1]}.o", f"{reduced[-1]}.i"
        factored = outer if streams else turn
        partial = f"{name}.{factored}"
        head: list[Step] = [Split(name, reduced[-1], count), RFactor(name, factored), *own]
        if not streams:
            return [
                *head,
                self._order(stage, (turn, *lanes)),
                *binds(name, [turn, lanes[0]], lanes[1]),
                ComputeAt(partial, self.last.name, loop),
                Split(partial, row.name, self._row_vector(choices)),
                self._order(stage, (*reduced[:-1], outer, turn, *lanes), partial),
                *binds(partial, [turn, lanes[0]], lanes[1]),
            ]
        return [
            *head,
            self._order(stage, (outer, *lanes)),
            ComputeAt(partial, name, lanes[0]),
            *kinds,
            self._order(stage, (*reduced[:-1], turn, row.name), partial),
            *binds(partial, [turn], row.name),
        ]

    def _inner_loops(
        self, stage: Stage, columns: list[str], block: list[str], choices: RowChoices
    ) -> tuple[list[Step], list[str], list[Step]]:
        """Splits, order and kinds of the loops of a map inside a block of rows; `columns`: outermost first."""
        name = stage.name
        if self._lane_row is not None:
            row = block[0] if block else self._lane_row.name
            if (across := self._across(stage, columns)) is not None:
                return self._turned(name, row, across, [c for c in columns if c != across])
            lanes = [f"{row}.o", f"{row}.i"]
            unrolled = [] if choices.block > IN_REGISTERS else lanes[:1]
            return (
                [Split(name, row, self._row_vector(choices))],
                [*columns, *lanes],
                binds(name, unrolled, lanes[1]),
            )
        along = contiguous_axis(stage, self.workload)
        place = next((c for c in columns if along is not None and c.split(".")[0] == along.name), None)
        if along is None or place is None or self.lanes == 1:
            if self.in_turn(choices) and block and not columns:
                return [], block, binds(name, [], block[0])
            return [], [*columns, *block], binds(name, block, None)
        others = [c for c in columns if c != place]
        split: list[Step] = [Split(name, place, self.wide(along.size, choices.unroll))]
        if self.in_turn(choices):
            return split, [*block, *others, f"{place}.o", f"{place}.i"], binds(name, [], f"{place}.i")
        back = self._backwards(others, f"{place}.o", choices) if stage is self.last else []
        return (
            split,
            [*others, f"{place}.o", *block, f"{place}.i"],
            [*binds(name, block, f"{place}.i"), *back],
        )

    def _backwards(self, others: Sequence[str], vectors: str, choices: RowChoices) -> list[Step]:
        """The last stage's outermost loop over columns from its end on, where rows and results are not near together.

        The stages before have gone through the rows: their end is what is still there, and would make room for results
        of their beginning. It is a loop that always has as many iterations.
        """
        if choices.sweep > 1 or 2 * self.row_elements * self._block_size(choices) <= self.near:
            return []
        sizes = {a.name: a.extent.constant for a in self.axes.columns}
        loops = [c for c in others if sizes[c.split(".")[0]] not in (None, 1)]
        along = sizes[vectors.split(".")[0]]
        if along is not None and along % self.wide(along, choices.unroll) == 0:
            loops.append(vectors)
        return [Reverse(self.last.name, name) for name in loops[:1]]

    def _across(self, stage: Stage, columns: Sequence[str]) -> str | None:
        """The loop over columns that lie side by side in the output, where rows fill the lanes of all else."""
        along = contiguous_axis(stage, self.workload) if stage is self.last else None
        if along is None or along.size < self.lanes or self.lanes < SHORTEST:
            return None
        return next((c for c in columns if c.split(".")[0] == along.name), None)

    def _turned(
        self, name: str, row: str, across: str, others: Sequence[str]
    ) -> tuple[list[Step], list[str], list[Step]]:
        """Square blocks: read along the rows, transposed in registers, stored along the columns."""
        split: list[Step] = [Split(name, across, self.lanes), Split(name, row, self.lanes)]
        order = [*others, f"{across}.o", f"{row}.o", f"{row}.i", f"{across}.i"]
        return split, order, binds(name, [f"{row}.i"], f"{across}.i")

    # --- what the stages have

    def _order(self, stage: Stage, loops: Sequence[str], name: str | None = None) -> Step:
        """Loops in this order, axes of extent 1 in front; `name`: of the stage that was factored out of `stage`.

        Inside the loops over rows, rows have the extent 1 but for those of the block, which stand last by themselves
        unless their neighbours fill the lanes.
        """
        lanes, rows = self._lane_row, self._names(self.axes.rows)
        behind = stage.axes[stage.axes.index(lanes) + 1 :] if lanes in stage.axes else ()
        units = [
            a.name
            for a in stage.axes
            if a.name not in loops and (a.size == 1 or (a in behind and a.name in rows))
        ]
        return Reorder(name or stage.name, (*units, *loops))

    def wide(self, size: int, vectors: int) -> int:
        """Lanes of a vector as long as several of the target's: their operations take turns while each waits."""
        while vectors > 1 and self.lanes * vectors >= 2 * size:
            vectors //= 2
        return self.lanes * vectors

    def _block_size(self, choices: RowChoices) -> int:
        """Rows of one block; one that is streamed is never larger than the axis."""
        row = self._lane_row
        if row is None:
            return choices.block
        size = choices.block * self.lanes
        return min(size, row.size) if choices.block > IN_REGISTERS else size

    def _row_vector(self, choices: RowChoices) -> int:
        return self.lanes * min(choices.block, choices.unroll)

    @property
    def _lane_row(self) -> Axis | None:
        """The row axis whose neighbours fill the lanes."""
        return self.axes.vector if self.axes.along_rows else None

    @property
    def _ordered_rows(self) -> list[Axis]:
        """Row axes, the one that fills the lanes last."""
        return sorted(self.axes.rows, key=lambda a: a == self._lane_row)

    @property
    def _column_maps(self) -> tuple[Stage, ...]:
        rows = self._names(self.axes.rows)
        maps = [s for s in self.workload.stages[:-1] if s.reducer is None]
        return tuple(s for s in maps if any(a.size > 1 and a.name not in rows for a in s.axes))

    def _readers(self, stage: Stage) -> int:
        return sum(any(r.buffer == stage.target for r in stage_loads(s)) for s in self.workload.stages)

    def _blocked(self, stage: Stage) -> list[str]:
        """The stage's loop over the rows of a block."""
        rows = self._ordered_rows
        return [a.name for a in stage.axes if rows and a == rows[-1]]

    @staticmethod
    def _names(axes: Sequence[Axis]) -> frozenset[str]:
        return frozenset(a.name for a in axes)


def _pipelined(stage: str, sweep: Sequence[str]) -> list[Step]:
    return [Bind(stage, name, LoopKind.PIPELINED) for name in sweep]


def binds(stage: str, unrolled: Sequence[str], vector: str | None) -> list[Step]:
    """Unrolled loops, and the one of the lanes."""
    steps: list[Step] = [Bind(stage, name, LoopKind.UNROLLED) for name in unrolled]
    return steps if vector is None else [*steps, Bind(stage, vector, LoopKind.VECTOR)]


def _padded(stage: Stage, rows: frozenset[str], slack: int) -> int:
    """Elements of a stage's result per row, whole vectors."""
    total = 1
    for a in stage.axes:
        total *= 1 if a.name in rows else a.size
    return total + slack
