"""Depth of a tile of matrices: a long sum in blocks, so that the data of all rows is near while a block is added.

    for blocks of columns: for blocks of rows (parallel):
        for blocks of the sum:                                the sums in a local buffer
            for panels: for tiles of rows: the sums to registers of matrices, the products of the block, and back
        the map, from the buffer

What matrices add to comes from memory and goes back there, so that no other addition is needed (compiler/space/depth.py
has vectors do it). Worth that where the data of all rows and the constants are each too large for the second cache:
then one of them would come from beyond it for every tile of the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.loop.ir import LoopKind
from compiler.schedule.steps import Bind, ComputeAt, Pack, Reorder, Split, Step
from compiler.space.depth import block
from compiler.space.share import share
from compiler.space.space import Value, number

if TYPE_CHECKING:
    from compiler.space.matrix_tile import MatrixTile

DEPTHS = (128, 256, 384, 512, 768, 1024)
"""About so many products; what divides the sum and is nearest is offered."""

SHARES_PER_THREAD = 1
"""Blocks of columns: each of them asks for the data of all rows again, from another core's cache or beyond."""


def matrix_depths(tile: MatrixTile, summed: str) -> tuple[int, ...]:
    """Products of a block of the sum that is cut along the axis `summed`, the whole last."""
    count = next(a.size for a in tile.anchor.reduce_axes if a.name == summed)
    each = tile.products // count
    divisors = [d * each for d in range(1, count) if count % d == 0]
    near = {min(divisors, key=lambda d: abs(d - wanted)) for wanted in DEPTHS if divisors}
    return (*sorted(near), tile.products)


def blocked_matrix_steps(tile: MatrixTile, summed: str, depth: int, values: dict[str, Value]) -> list[Step]:
    """The Steps of a tile whose sums are cut into blocks of `depth` products along the axis `summed`."""
    if tile.axes.row is None:
        msg = "a product in blocks needs rows"
        raise ValueError(msg)
    rows, width = number(values, "rows"), number(values, "vectors") * tile.axes.lanes
    anchor, store, lanes = tile.anchor.name, tile.store.name, tile.axes.lanes
    row, vector = tile.axes.row.name, tile.axes.vector.name
    counts = dict(tile.sums)
    inside = depth * counts[summed] // tile.products
    loops = {name: f"{name}.i" if name == summed else name for name in counts}
    others = [a.name for a in tile.axes.others]
    around = block(tile, rows, width, depth, SHARES_PER_THREAD)
    tiles, lane = [f"{vector}.o", f"{row}.o"], [f"{vector}.i.o", f"{vector}.i.i"]
    steps: list[Step] = [Split(store, row, around.rows), Split(store, vector, around.columns)]
    steps += [Split(store, f"{vector}.i", lanes), Reorder(store, (*tiles, *others, f"{row}.i", *lane))]
    steps += [ComputeAt(anchor, store, tiles[-1])]
    steps += [Split(anchor, summed, inside), Split(anchor, row, rows), Split(anchor, vector, width)]
    outer = [f"{summed}.o", tiles[0], *others, tiles[1]]
    steps += tile.tile_sums(anchor, (f"{row}.i", f"{vector}.i"), loops, outer)
    steps += [Bind(store, lane[1], LoopKind.VECTOR)]
    steps += share(store, tiles[: number(values, "parallel")])
    return steps + [Pack(anchor, name) for name in tile.packs]
