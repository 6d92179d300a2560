"""What the last vectors of a tile hold, where they are at most half full: what compiler.loop makes of them.

folds   several products of each sum: as many rows take that many times fewer of these vectors     (loop/fold.py)
pairs   two neighbouring rows, where nothing can be folded                                          (loop/pair.py)
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.loop.fold import FOLDS, LEAST_LANES, MOST_BYTES
from compiler.loop.pair import LEAST_LANES as LEAST_LANES_OF_A_ROW
from compiler.loop.pair import ROWS
from compiler.scalar import Apply, Expr, loads
from compiler.space.structure import TileAxes, step_along
from compiler.workload.ir import Stage, Workload


def last_folds(workload: Workload, anchor: Stage, axes: TileAxes) -> int:
    """Products of each sum in the last vectors; 1 where they are not folded."""
    lanes, size = axes.lanes, anchor.dtype.size_bytes
    rest = axes.vector.size % lanes
    if not rest or lanes < LEAST_LANES or not anchor.dtype.is_float or not anchor.reduce_axes:
        return 1
    along, lane = anchor.reduce_axes[-1], axes.vector.name
    for shared, other in _products(anchor):
        steps = [step_along(workload, load, along.name) for load in loads(shared)]
        if lane not in _names(shared) and set(steps) == {1} and lane in _names(other):
            fitting = (f for f in FOLDS if rest * f <= lanes and f * size <= MOST_BYTES and f <= along.size)
            return next(fitting, 1)
    return 1


def last_pairs(anchor: Stage, axes: TileAxes) -> bool:
    """Whether the last vectors of two rows are one."""
    if axes.row is None or not 0 < axes.vector.size % axes.lanes <= axes.lanes // ROWS:
        return False
    row, lane = axes.row.name, axes.vector.name
    return axes.lanes >= ROWS * LEAST_LANES_OF_A_ROW and any(
        _names(a) and _names(b) and lane not in _names(a) and row not in _names(b)
        for a, b in _products(anchor)
    )


def _products(anchor: Stage) -> Iterator[tuple[Expr, Expr]]:
    """The factors of a sum of products, in both orders."""
    match anchor.reducer, anchor.body:
        case "sum", Apply("mul", (first, second)):
            yield first, second
            yield second, first


def _names(factor: Expr) -> set[str]:
    return {str(n) for load in loads(factor) for index in load.indices for n in index.names()}
