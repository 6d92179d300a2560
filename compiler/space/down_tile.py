"""Tiles of windows that are below each other, and of windows beside them: each line is read for several rows at once.

    for blocks of rows:
        for blocks of places beside each other, panels:
            rows x beside x vectors sums, in registers

Windows of 3 x 3 in tiles of four below each other and three beside them read 30 places for 12 sums, where one after the
other reads 108; and from the second cache come six lines for four rows instead of twelve.
"""

from __future__ import annotations

from math import prod

from compiler.scalar import Load, loads
from compiler.space.chains import CHAIN, has_long_chain
from compiler.space.crowding import crowds
from compiler.space.overlap import APART, distinct, own_share
from compiler.space.register_tile import BESIDE, RegisterTile
from compiler.target import PAGE_BYTES

HIGHEST = 4
"""Rows of a tile: each of them reads lines of its own."""
LEAST_SUMS = 8
"""Of a default tile: they hide the latency of multiply-adds on two pipes."""
MOST_SUMS = {1: 12, 2: 16}
"""By vectors, where the constants of a window stay in registers beside them."""
LOAD, FETCH = 0.5, 2.0
"""Multiply-adds that take as long as a load from the first cache, and as a line from the second."""


def down_axis(tile: RegisterTile) -> str | None:
    """The axis along which overlapping windows are below each other, and what they share has left the first cache.

    None where there is none: what windows side by side share is still there, and so is a whole window in narrow images.
    """
    loops = tile.axes.loops
    if len(loops) < 2 or loops[-1] is not tile.axes.row or tile.axes.lanes < 2:
        return None
    name, tiled = loops[-2].name, {tile.axes.vector.name, loops[-1].name, loops[-2].name}
    for load in loads(tile.anchor.body):
        if tiled <= {n for index in load.indices for n in index.names()} and _leaves(tile, load, name):
            return name
    return None


def _leaves(tile: RegisterTile, load: Load, along: str) -> bool:
    """Whether windows along an axis overlap, and the lines of one of them are more than the first cache holds."""
    buffer = tile.workload.buffers[load.buffer]
    for index, stride in zip(load.indices, buffer.strides, strict=True):
        reach = _reach(tile, load, along)
        size_bytes = (reach + 1) * stride * buffer.dtype.size_bytes
        if 0 < index.coefficient(along) <= reach and size_bytes > tile.target.l1_bytes:
            return True
    return False


def _reach(tile: RegisterTile, load: Load, along: str) -> int:
    """Places between the first and the last element of a window along an axis."""
    reach = 0
    for index in load.indices:
        if index.coefficient(along) > 0:
            taps = ((abs(index.coefficient(a.name)), a.size) for a in tile.anchor.reduce_axes)
            reach = max(reach, sum(step * (size - 1) for step, size in taps))
    return reach


def _covered(tile: RegisterTile, load: Load, along: str, windows: int) -> int:
    """Places between the first element of the first of so many windows and the last of the last."""
    step = max((index.coefficient(along) for index in load.indices), default=0)
    return (windows - 1) * step + _reach(tile, load, along) + 1


def _read_down(tile: RegisterTile) -> list[Load]:
    """What each window of a down tile reads of its own."""
    row = tile.axes.row
    return [e for e in loads(tile.anchor.body) if row and any(row.name in i.names() for i in e.indices)]


def highest_down(tile: RegisterTile, *, stored: bool) -> int:
    """Rows of a default tile: no more lines than a set of the first cache holds, where they all fall into one.

    `stored`: those that are stored count as well, since other tiles will read some of the lines again.
    """
    row, read = tile.axes.row, _read_down(tile)
    ways = tile.target.l1_bytes // PAGE_BYTES
    if row is None or not any(_apart_bytes(tile, load, row.name) % PAGE_BYTES == 0 for load in read):
        return HIGHEST
    lines = {r: max(_covered(tile, load, row.name, r) for load in read) for r in range(1, HIGHEST + 1)}
    return max((r for r, count in lines.items() if count + r * stored <= ways), default=1)


def _apart_bytes(tile: RegisterTile, load: Load, along: str) -> int:
    """Distance in memory of what neighbours along an axis read."""
    buffer = tile.workload.buffers[load.buffer]
    steps = (i.coefficient(along) * s for i, s in zip(load.indices, buffer.strides, strict=True))
    return sum(steps) * buffer.dtype.size_bytes


def shares_beside(tile: RegisterTile) -> bool:
    """Whether the windows of a down tile share much with those beside them, and with those below."""
    axes = tile.axes
    return axes.beside is not None and all(
        own_share(tile.anchor, a.name, HIGHEST) <= APART for a in axes.blocked
    )


def down_order(tile: RegisterTile, rows: int) -> str:
    """The order of loops over tiles of so many rows that keeps in the first cache what windows beside each other share.

    Panels are innermost where the lines of a window's width stay, or a panel alone would crowd a few sets; else one
    panel is followed along the rows.
    """
    return "inside" if _stays(tile, rows) or _crowds(tile) else "block1"


def _stays(tile: RegisterTile, rows: int) -> bool:
    """Whether all panels of the places that so many rows of windows cover, one window wide, fit in the first cache."""
    row, beside = tile.axes.row, tile.axes.beside
    if row is None or beside is None:
        return True
    places = max(
        _covered(tile, e, row.name, rows) * (_reach(tile, e, beside.name) + 1) for e in _read_down(tile)
    )
    return places * tile.axes.vector.size * tile.store.dtype.size_bytes <= tile.target.l1_bytes


def down_default(tile: RegisterTile) -> tuple[int, int, int]:
    """Rows, windows beside each other and vectors that are good without measuring, where windows share much."""
    axes = tile.axes
    row, beside = axes.row, axes.beside
    if row is None or beside is None:
        return 1, 1, 1
    vectors = 2 if tile.panels > 1 and _driven_out(tile) else 1
    points = prod(size for _, size in tile.sums)
    registers, most = tile.target.vector_registers, MOST_SUMS[vectors]
    waits = has_long_chain(tile.store) and CHAIN * most > registers
    most = LEAST_SUMS if waits or most + points + 1 > registers else most
    highest = min(highest_down(tile, stored=True), row.size)
    heights, widths = range(1, highest + 1), (b for b in BESIDE if b <= beside.size)
    sizes = [(r, b) for b in widths for r in heights if r * b * vectors <= most]
    costs = {(r, b): _cycles(tile, (r, b, vectors), points) for r, b in sizes}
    rows, wide = min(sizes, key=lambda size: (costs[size], -size[0] * size[1]))
    return rows, wide, vectors


def _crowds(tile: RegisterTile) -> bool:
    """Whether a panel of one vector drives out of the first cache what windows share."""
    return crowds(tile.workload, tile.anchor, tile.plain_axes, 1, tile.target)


def _driven_out(tile: RegisterTile) -> bool:
    """Whether what windows beside each other share leaves the first cache under any order."""
    return _crowds(tile) and not _stays(tile, HIGHEST)


def _cycles(tile: RegisterTile, sizes: tuple[int, int, int], points: int) -> float:
    """Of all tiles of a panel, those at the edges included, in multiply-adds; `sizes`: rows, beside, vectors."""
    rows, beside, vectors = sizes
    high, wide = (1 if axis is None else axis.size for axis in (tile.axes.row, tile.axes.beside))
    return sum(
        n * m * _tile_cycles(tile, (r, b, vectors), points)
        for r, n in cuts(high, rows)
        for b, m in cuts(wide, beside)
    )


def cuts(size: int, tile: int) -> list[tuple[int, int]]:
    """(extent, number) of the full tiles and of the one at the edge."""
    whole, rest = (tile, size // tile), (size % tile, 1)
    return [(extent, count) for extent, count in (whole, rest) if extent and count]


def _tile_cycles(tile: RegisterTile, sizes: tuple[int, int, int], points: int) -> float:
    rows, beside, vectors = sizes
    loaded, lines = 0.0, 0
    for load in loads(tile.anchor.body):
        names = {name for index in load.indices for name in index.names()}
        if tile.axes.vector.name not in names:
            continue
        own = float(vectors)
        for axis, count in zip(tile.axes.blocked, (rows, beside), strict=True):
            own *= distinct(tile.anchor, load, axis.name, count) if axis.name in names else 1
        loaded += own
        if load in _read_down(tile):
            down, along = (a.name for a in tile.axes.blocked)
            wide = _covered(tile, load, along, beside) if _driven_out(tile) else beside
            lines += _covered(tile, load, down, rows) * wide * vectors
    return points * (max(rows * beside * vectors, LEAST_SUMS) + LOAD * loaded) + FETCH * lines
