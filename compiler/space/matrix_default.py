"""The tile of matrices that is good without measuring, and where its data comes from.

Data and constants of few rows and columns stay in the second cache. Where both sides are too large for it, something
comes from beyond it again and again: constants for each block of rows whose data stays near, or, where the sum is cut
into blocks, the data for each block of columns. The way that brings the fewest bytes is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from math import prod
from typing import TYPE_CHECKING

from compiler.space import matrix_depth
from compiler.space.default_order import Loop, cheapest_order, shared_loops, tile_traffic
from compiler.space.depth import block
from compiler.space.space import Value, number

if TYPE_CHECKING:
    from compiler.space.matrix_tile import MatrixTile

MADE, FIRST, INSIDE = "made", "first", "inside"
"""Knob that says where the data is brought into its form: before all else, or for each block of rows."""
EVEN = 0.9
"""Least share of the threads' time that blocks of rows fill."""
AT_ONCE = 2.0
"""Cycles for a byte of data that a block asks for all at once, as a share of those for one that is fetched ahead."""
NEARER = 0.25
"""Cycles for a byte of the second cache, as a share of those for one from beyond."""


def usual_values(tile: MatrixTile) -> dict[str, Value]:
    """The tile with the least instructions and loads, edges counted, in the order that brings the fewest bytes."""
    rows, vectors = tile.cheapest()
    depth = tile.unrolls[0]
    orders = tile.loops_by_order({"rows": rows, "beside": 1, "vectors": vectors})
    order = cheapest_order(orders, tile_traffic(tile, rows, tile.cycles_of(rows, vectors)))
    values: dict[str, Value] = {
        "rows": rows,
        "vectors": vectors,
        "order": order,
        "reduce": tile.blocks_first,
        "unroll": depth,
        "parallel": shared_loops(orders[order], tile.threads),
        "depth": tile.depths[-1],
        MADE: FIRST,
    }
    if not tile.is_far:
        return values
    changed = ({**values, **c} for c in (*_by_rows(tile, orders), *_by_depth(tile)))
    legal = [v for v in changed if tile.legal(v)]
    return min(legal, key=lambda v: _brought(tile, orders, v), default=values)


def _by_rows(tile: MatrixTile, orders: dict[str, list[Loop]]) -> Iterator[dict[str, Value]]:
    """Blocks of rows that leave work for all threads, the largest first; their data is made inside, or before all."""
    blocks = sorted((o for o in orders if o.startswith("block")), key=lambda o: -int(o.removeprefix("block")))
    for made in (INSIDE, FIRST):
        for order in (*blocks, "inside"):
            loops = orders.get(order, [])
            if loops and _even(loops[0][1], tile.threads):
                yield {"order": order, "parallel": 1, MADE: made}


def _even(blocks: int, threads: int) -> bool:
    """Whether every thread has about as many blocks; few are enough, as each of them brings the constants again."""
    return blocks >= EVEN * threads * -(-blocks // threads)


def _by_depth(tile: MatrixTile) -> Iterator[dict[str, Value]]:
    """Blocks of the sum, the longest first."""
    for depth in reversed(tile.depths[:-1]):
        yield {"order": "outside", MADE: FIRST, "depth": depth}


def _brought(tile: MatrixTile, orders: dict[str, list[Loop]], values: dict[str, Value]) -> float:
    """Bytes from beyond the second cache, in time to fetch them ahead; twice those of data that is written there."""
    near, data = tile.target.l2_bytes // 2, tile.rows_in_all * tile.row_bytes
    depth = number(values, "depth")
    if depth < tile.depths[-1]:
        width = number(values, "vectors") * tile.axes.lanes
        part = block(tile, number(values, "rows"), width, depth, matrix_depth.SHARES_PER_THREAD)
        columns, rows = -(-tile.axes.vector.size // part.columns), -(-tile.rows_in_all // part.rows)
        sums = 2 * tile.store.points * tile.anchor.dtype.size_bytes * (tile.depths[-1] // depth)
        return data * (1 + AT_ONCE * columns) + tile.constant_bytes * rows + sums * NEARER
    loops = orders[str(values["order"])]
    blocks = prod(count for _, count in takewhile(lambda loop: loop[0] != tile.axes.vector.name, loops))
    constants = tile.constant_bytes * (blocks if tile.constant_bytes > near else 1)
    if values[MADE] == INSIDE:
        return constants
    again = -(-tile.axes.vector.size // (number(values, "vectors") * tile.axes.lanes))
    return constants + data * (2 if data <= near * blocks else 1 + again)
