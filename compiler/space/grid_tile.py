"""Rule: the grid of a GPU. A thread per element of the output; a block is a tile of rows x columns of them.

Neighbouring threads take neighbouring elements, so that what they load and store together is contiguous. A reduction is
carried out by the thread that stores its result, in a register; any other stage before the last is a phase of its own.
"""

from __future__ import annotations

from compiler.loop.ir import LoopKind
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, ComputeAt, Fuse, Reorder, Split, Step
from compiler.space.space import Knob, SearchSpace, Value, number
from compiler.space.structure import TileAxes, tile_axes
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

COLUMNS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ROWS = (1, 2, 4, 8, 16, 32)
DEFAULT_COLUMNS = 32
"""The threads that run in step on every GPU so far."""
DEFAULT_THREADS = 256
MOST_BLOCKS = 64
"""Results of one reduction that a thread keeps in registers, where its map reads several."""


class GridTile:
    """The rule."""

    name = "grid_tile"

    def applies(self, workload: Workload) -> bool:
        """Every stage has an axis to share out."""
        return all(stage.axes for stage in workload.stages)

    def space(self, workload: Workload, target: Target, threads: int) -> SearchSpace:
        """Knobs: columns and rows of a block, in threads."""
        axes = tile_axes(workload, workload.stages[-1], target)
        knobs = (Knob("columns", COLUMNS), Knob("rows", ROWS))
        columns = min(DEFAULT_COLUMNS, _holding(COLUMNS, axes.vector.size))
        row_size = 1 if axes.row is None else axes.row.size
        rows = min(_holding(ROWS, row_size), DEFAULT_THREADS // columns, ROWS[-1])

        def legal(values: dict[str, Value]) -> bool:
            return number(values, "columns") * number(values, "rows") <= target.grid_threads

        def build(values: dict[str, Value]) -> Schedule:
            return Schedule(tuple(_steps(workload, target, values)))

        return SearchSpace(knobs, (COLUMNS.index(columns), ROWS.index(rows)), legal, build)


def _holding(choices: tuple[int, ...], size: int) -> int:
    """The first choice that is as large, else the largest."""
    return next((c for c in choices if c >= size), choices[-1])


def _steps(workload: Workload, target: Target, values: dict[str, Value]) -> list[Step]:
    *before, last = workload.stages
    joined = len(before) == 1 and before[0].reducer is not None and last.reducer is None
    steps: list[Step] = []
    for stage in (last,) if joined else workload.stages:
        steps += _tile(stage, tile_axes(workload, stage, target), values)
    if joined:
        axes = tile_axes(workload, last, target)
        steps.append(ComputeAt(before[0].name, last.name, f"{axes.vector.name}.i"))
        shared = {a.name for a in last.axes}
        blocks = [a for a in before[0].axes if a.name not in shared and 1 < a.size <= MOST_BLOCKS]
        steps += [Bind(before[0].name, a.name, LoopKind.UNROLLED) for a in blocks]
    return steps


def _tile(stage: Stage, axes: TileAxes, values: dict[str, Value]) -> list[Step]:
    """All loops over tiles become one loop over blocks; those inside a tile are the threads."""
    tiled = [(axes.vector, number(values, "columns"))]
    if axes.row is not None:
        tiled.insert(0, (axes.row, number(values, "rows")))
    steps: list[Step] = [Split(stage.name, axis.name, size) for axis, size in tiled]
    blocks = [*(a.name for a in axes.others), *(f"{a.name}.o" for a, _ in tiled)]
    inner = [f"{a.name}.i" for a, _ in tiled]
    steps.append(Reorder(stage.name, (*blocks, *inner)))
    name = blocks[0]
    for following in blocks[1:]:
        steps.append(Fuse(stage.name, name, following))
        name = f"{name}*{following}"
    steps.append(Bind(stage.name, name, LoopKind.BLOCK))
    return steps + [Bind(stage.name, loop, LoopKind.THREAD) for loop in inner]
