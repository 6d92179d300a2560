"""Depth: a long sum of products in blocks, so that the constants of a tile stay in the first cache.

    for blocks of columns: for blocks of rows (parallel):
        for k.o:                                              a block's sums in a local buffer
            for panels: for tiles of rows: registers of the tile, `depth` products each, added to the buffer
        the map, from the buffer

One panel of the constants is read again for every tile of rows, and the rows of a block for every panel: Goto and
van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008. Worth its additions where a whole panel, as deep
as the sum is long, is too large for the second cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from compiler.loop.ir import LoopKind
from compiler.scalar import loads
from compiler.schedule.steps import Bind, ComputeAt, Pack, Reorder, RFactor, Split, Step
from compiler.space.estimate import share_inside
from compiler.space.share import share
from compiler.space.space import Value, number
from compiler.symbol import Axis
from compiler.target import LINE_BYTES

if TYPE_CHECKING:
    from compiler.space.register_tile import RegisterTile

DEPTHS = (128, 192, 256, 384, 512, 768)
"""About so many products; what divides the sum and is nearest is offered."""
MIN_ROWS = 16
"""Fewer rows read a panel too seldom for a cache to matter."""
MANY_PLACES = 256
"""So many are read while the next panel arrives: a whole panel may be as large as caches allow."""
SHARES_PER_THREAD = 4


def depths(tile: RegisterTile) -> tuple[int, ...]:
    """Products per block that divide the sum, its whole length last; the length alone where nothing is to be gained.

    Of several sums, as those of a window, the longest is cut: a block has the products of all others.
    """
    sums = tile.anchor.reduce_axes
    whole = prod(a.size for a in sums)
    alone = tile.workload.stages == (tile.anchor, tile.store) and not tile.blocks and tile.dot is None
    if not (alone and sums and _panels_serve_all(tile)):
        return (whole,)
    window = whole // _cut(tile).size
    steps = range(window, min(DEPTHS[-1], whole - 1) + 1, window)
    divisors = [d for d in steps if d >= DEPTHS[0] and whole % d == 0]
    near = {min(divisors, key=lambda d: abs(d - wanted)) for wanted in DEPTHS if divisors}
    return (*sorted(near), whole)


def _cut(tile: RegisterTile) -> Axis:
    """The longest of the sums."""
    return max(tile.anchor.reduce_axes, key=lambda a: a.size)


def _panels_serve_all(tile: RegisterTile) -> bool:
    """Whether one panel of the constants serves enough rows, of all other axes, and a near cache holds their sums."""
    others = {a.name for a in tile.axes.others}
    if tile.axes.row is None or (tile.axes.row.size < MIN_ROWS and not others):
        return False
    if not others:
        return True
    moved = {
        name
        for load in loads(tile.anchor.body)
        if load.buffer in tile.packs
        for index in load.indices
        for name in index.names()
    }
    places = _places(tile)
    sums = places * tile.axes.lanes * tile.anchor.dtype.size_bytes
    return bool(moved) and not moved & others and places >= MIN_ROWS and sums <= tile.target.l2_bytes // 16


def _places(tile: RegisterTile) -> int:
    """What one panel of the constants serves."""
    return (1 if tile.axes.row is None else tile.axes.row.size) * prod(a.size for a in tile.axes.others)


def default_depth(tile: RegisterTile, vectors: int) -> int:
    """The whole sum where a panel of it fits in half the second cache, else what fills the first cache.

    Half of that where a panel serves few places: it is hardly read before the next has to be there as well. A product
    whose other factor lies in a line of its own has that line in the cache too: what the next rows find in it is lost
    where not all fit. Taps outside of the image read nothing.
    """
    *parts, whole = tile.depths
    line = _line_of_one(tile)
    bytes_of_one = (vectors * tile.axes.lanes * tile.anchor.dtype.size_bytes + line) * share_inside(
        tile.anchor
    )
    share = 4 if _places(tile) < MANY_PLACES else 2
    if not parts or whole * bytes_of_one <= tile.target.l2_bytes // share:
        return whole
    fitting = [d for d in parts if d * bytes_of_one <= tile.target.l1_bytes]
    if line and fitting:
        return fitting[-1]
    return min(parts, key=lambda d: abs(d * bytes_of_one - tile.target.l1_bytes))


def _line_of_one(tile: RegisterTile) -> int:
    """Bytes of a line where each product of a sum reads another one of the operand that is not constant, else 0."""
    names = [a.name for a in tile.anchor.reduce_axes if a.size > 1]
    for load in loads(tile.anchor.body):
        buffer = tile.workload.buffers[load.buffer]
        steps = [
            sum(
                abs(i.coefficient(name)) * stride
                for i, stride in zip(load.indices, buffer.strides, strict=True)
            )
            for name in names
        ]
        if load.buffer not in tile.packs and min(steps, default=0) * buffer.dtype.size_bytes >= LINE_BYTES:
            return LINE_BYTES
    return 0


@dataclass(frozen=True, slots=True)
class Block:
    """Rows and columns whose sums are kept in a local buffer."""

    rows: int
    columns: int


def block(
    tile: RegisterTile, rows: int, width: int, depth: int, shares_per_thread: int = SHARES_PER_THREAD
) -> Block:
    """Whole tiles of `rows` x `width`: the rows' elements fill half the second cache, the sums a quarter at most."""
    size, row = tile.anchor.dtype.size_bytes, tile.axes.row
    height, planes = 1 if row is None else row.size, prod(a.size for a in tile.axes.others)
    fit = height + rows if tile.axes.others else tile.target.l2_bytes // 2 // (depth * size)
    high = _even(height, fit, rows)
    wide = tile.target.l2_bytes // 4 // (high * planes * size)
    if tile.threads > 1:
        shares = -(-shares_per_thread * tile.threads // -(-height // high))
        wide = min(wide, tile.axes.vector.size // shares)
    return Block(high, _even(tile.axes.vector.size, wide, width))


def _even(size: int, limit: int, step: int) -> int:
    """The length of even parts of `size`, a multiple of `step` within the limit, or one step."""
    steps = -(-size // step)
    parts = -(-steps // max(limit // step, 1))
    return -(-steps // parts) * step


def blocked_steps(tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
    """The Steps of a tile whose sums are cut into blocks of `depth` products."""
    if tile.axes.row is None:
        msg = "a product in blocks needs rows"
        raise ValueError(msg)
    rows, vectors, depth = (number(values, name) for name in ("rows", "vectors", "depth"))
    lanes = tile.axes.lanes
    anchor, store = tile.anchor.name, tile.store.name
    row, vector, summed = tile.axes.row.name, tile.axes.vector.name, _cut(tile)
    others, part = [a.name for a in tile.axes.others], f"{summed.name}.o"
    parts, width = f"{anchor}.{part}", vectors * lanes
    around = block(tile, rows, width, depth)
    tiles, lane = [f"{vector}.o", f"{row}.o"], [f"{vector}.i.o", f"{vector}.i.i"]
    inside = depth * summed.size // prod(a.size for a in tile.anchor.reduce_axes)
    sums = [(f"{a.name}.i", inside) if a is summed else (a.name, a.size) for a in tile.anchor.reduce_axes]
    steps: list[Step] = [Split(anchor, summed.name, inside), RFactor(anchor, part)]
    steps += [Split(store, row, around.rows), Split(store, vector, around.columns)]
    steps += [Split(store, f"{vector}.i", lanes), Reorder(store, (*tiles, *others, f"{row}.i", *lane))]
    steps += [ComputeAt(anchor, store, tiles[-1])]
    steps += [Split(anchor, row, rows), Split(anchor, vector, width), Split(anchor, f"{vector}.i", lanes)]
    steps += [Reorder(anchor, (part, tiles[0], *others, tiles[1], f"{row}.i", *lane))]
    steps += [ComputeAt(parts, anchor, tiles[-1])]
    steps += tile.tile_reduction(parts, sums, [*others, part], values)
    steps += [Bind(anchor, name, LoopKind.UNROLLED) for name in (f"{row}.i", lane[0])]
    steps += [Bind(anchor, lane[1], LoopKind.VECTOR), Bind(store, lane[1], LoopKind.VECTOR)]
    steps += share(store, tiles[: number(values, "parallel")])
    return steps + [Pack(parts, name) for name in tile.packs]
