"""Tiles of windows that are below each other, and of windows beside them: each line is read for several rows at once.

    for blocks of rows:
        for blocks of places beside each other, panels:
            rows x beside x vectors sums, in registers

Windows of 3 x 3 in tiles of four below each other and three beside them read 30 places for 12 sums, where one after the
other reads 108; and from the second cache come six lines for four rows instead of twelve.
"""

from __future__ import annotations

from math import gcd, prod

from compiler.scalar import Load, loads
from compiler.space.chains import CHAIN, has_long_chain
from compiler.space.overlap import APART, distinct, own_share
from compiler.space.register_tile import BESIDE, RegisterTile
from compiler.target import LINE_BYTES, PAGE_BYTES

HIGHEST = 4
"""Rows of a tile: each of them reads lines of its own."""
HIGHEST_PAIR = 7
"""Rows of a tile of two vectors, which has no windows beside each other."""
LEAST_SUMS = 8
"""Of a default tile: they hide the latency of multiply-adds on two pipes."""
MOST_SUMS = 16
"""Of a default tile of one vector, where there are registers enough."""
LOW = 2
"""Rows of a tile whose many taps come from the second cache, where lines are several vectors."""
FEW_SETS = 1 / 4
"""Share of the first cache's sets up to which those that fall into them crowd."""
MOST_TAPS = 16
"""Products of a sum up to which lines take longer to arrive than to be multiplied."""
MANY_TAPS = 32
"""Places of a window above which the taps of all panels take more of the first cache than what windows share."""
SHARED = 0.8
"""Share of what windows read that is their own, up to which it is worth having them in one tile."""
LOAD, FETCH, FETCH_OF_PAIR = 0.5, 2.0, 0.5
"""Multiply-adds that take as long as a load from the first cache, as a line from the second, and as one of two lines
that are neighbours: CPUs fetch those together, and write them so."""

Sizes = tuple[int, int, int]
"""Rows of a tile, windows beside each other in each, and vectors."""


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


def highest_down(tile: RegisterTile, most: int, *, stored: bool) -> int:
    """Rows of a default tile, `most` at most: no more lines than a set of the first cache holds, where all are in one.

    `stored`: those that are stored count as well, since other tiles will read some of the lines again.
    """
    row, read = tile.axes.row, _read_down(tile)
    ways = tile.target.l1_bytes // PAGE_BYTES
    if row is None or not any(_apart_bytes(tile, load, row.name) % PAGE_BYTES == 0 for load in read):
        return most
    lines = {r: max(_covered(tile, load, row.name, r) for load in read) for r in range(1, most + 1)}
    return max((r for r, count in lines.items() if count + r * stored <= ways), default=1)


def _apart_bytes(tile: RegisterTile, load: Load, along: str) -> int:
    """Distance in memory of what neighbours along an axis read."""
    buffer = tile.workload.buffers[load.buffer]
    steps = (i.coefficient(along) * s for i, s in zip(load.indices, buffer.strides, strict=True))
    return sum(steps) * buffer.dtype.size_bytes


def shares_beside(tile: RegisterTile) -> bool:
    """Whether the default has several windows beside each other, and below: where they share much.

    Those that share less do so where what they share would be gone from the first cache.
    """
    axes = tile.axes
    if axes.beside is None:
        return False
    own = max(own_share(tile.anchor, a.name, HIGHEST) for a in axes.blocked)
    return own <= APART or (own <= SHARED and not _stays(tile, (HIGHEST, 1, 1)))


def _held(tile: RegisterTile, load: Load) -> int:
    """Places of an image of which the first cache holds the lines of one vector, in the sets that these fall in."""
    buffer = tile.workload.buffers[load.buffer]
    steps = [
        stride * buffer.dtype.size_bytes
        for index, stride in zip(load.indices, buffer.strides, strict=True)
        if any(index.coefficient(a.name) for a in tile.axes.blocked)
    ]
    sets = PAGE_BYTES // max(LINE_BYTES, gcd(*steps, PAGE_BYTES))
    return sets * (tile.target.l1_bytes // PAGE_BYTES)


def _stays(tile: RegisterTile, sizes: Sizes) -> bool:
    """Whether all panels of what a tile reads and stores fit in the first cache."""
    rows, beside, _ = sizes
    places = rows * beside + max((_places(tile, e, rows, beside) for e in _read_down(tile)), default=0)
    constants = prod(size for _, size in tile.sums) if tile.packs else 0
    size_bytes = tile.axes.vector.size * tile.store.dtype.size_bytes
    return (places + constants) * size_bytes <= tile.target.l1_bytes


def _places(tile: RegisterTile, load: Load, rows: int, beside: int) -> int:
    """Places of an image that so many rows of windows cover, each with so many beside each other."""
    counts = dict(zip((a.name for a in tile.axes.blocked), (rows, beside), strict=False))
    image = _image(tile, load)
    return prod(min(size, _covered(tile, load, name, counts[name])) for name, size in image.items())


def _image(tile: RegisterTile, load: Load) -> dict[str, int]:
    """Places of the buffer that a load reads along each of the tile's blocked axes."""
    buffer = tile.workload.buffers[load.buffer]
    return {
        a.name: size
        for a in tile.axes.blocked
        for index, size in zip(load.indices, buffer.sizes, strict=True)
        if index.coefficient(a.name)
    }


def down_default(tile: RegisterTile) -> tuple[Sizes, str]:
    """A tile that is good without measuring where windows share much, and the order of the loops over tiles.

    Where a line is several vectors, a tile has the whole line if what it shares with the one beside it stays, or if
    there are so many taps that they are best kept for the whole image. Otherwise tiles are followed panel by panel.
    CPUs that take a line in halves fetch no two lines together: a tile of two vectors is for them only where what it
    shares with the one beside it stays.
    """
    if tile.axes.row is None or tile.axes.beside is None:
        return (1, 1, 1), "inside"
    points = prod(size for _, size in tile.sums)
    taps = prod(size for name, size in tile.sums if _moves_with(tile, name))
    of_line = LINE_BYTES // tile.target.vector_bytes
    if of_line <= 1:
        few = points <= MOST_TAPS and tile.panels > 1 and tile.axes.beside.size >= 2 * HIGHEST
        pairs = few and (not tile.target.halves_vectors or _stays(tile, (HIGHEST_PAIR, 1, 2)))
        return _fastest(tile, points, pairs=pairs), "inside"
    registers = tile.target.vector_registers
    vectors = max(1, min(of_line, tile.panels, registers // tile.copies // (2 * HIGHEST)))
    most = max((r for r in range(1, HIGHEST + 1) if tile.registers(r, vectors) <= registers), default=1)
    tall, long = (min(most, tile.axes.row.size), 1, vectors), (1, most, vectors)
    if points <= MOST_TAPS and _stays(tile, tall):
        return tall, "inside"
    if taps > MANY_TAPS and tile.axes.beside.size >= 2 * HIGHEST:
        return long, "outside"
    return _fastest(tile, points), "inside"


def _moves_with(tile: RegisterTile, name: str) -> bool:
    """Whether a sum goes over places of a window, and not over channels."""
    indices = [index for load in loads(tile.anchor.body) for index in load.indices]
    return any(
        name in index.names() and index.coefficient(a.name) for index in indices for a in tile.axes.blocked
    )


def _fastest(tile: RegisterTile, points: int, *, pairs: bool = False) -> Sizes:
    """The tile that takes the fewest cycles, of those of one vector and, with `pairs`, of two."""
    row, beside, registers = tile.axes.row, tile.axes.beside, tile.target.vector_registers
    assert row is not None
    assert beside is not None
    waits = has_long_chain(tile.store) and registers < CHAIN * MOST_SUMS
    most = max(1, (LEAST_SUMS if waits or registers < 2 * MOST_SUMS else MOST_SUMS) // tile.copies)
    highest, broadest = HIGHEST, beside.size
    if tile.target.vector_bytes >= LINE_BYTES:
        highest = highest_down(tile, HIGHEST, stored=True)
    elif points > MOST_TAPS:
        highest = LOW
    elif _driven_out(tile):
        broadest = HIGHEST
    widths = [b for b in BESIDE if b <= min(beside.size, broadest)]
    found = [(r, b, 1) for b in widths for r in range(1, min(highest, row.size) + 1) if r * b <= most]
    if pairs:
        high = min(highest_down(tile, HIGHEST_PAIR, stored=False), row.size)
        found += [(r, 1, 2) for r in range(1, high + 1) if 2 * r <= most]
    return min(found, key=lambda sizes: (_cycles(tile, sizes, points), -prod(sizes)), default=(1, 1, 1))


def _crowds(tile: RegisterTile) -> bool:
    """Whether a panel of one vector has more lines in an image than the few sets hold that they fall in."""
    few = tile.target.l1_bytes // LINE_BYTES * FEW_SETS
    held = [(prod(_image(tile, load).values()), _held(tile, load)) for load in _read_down(tile)]
    return any(places > lines and lines <= few for places, lines in held)


def _driven_out(tile: RegisterTile) -> bool:
    """Whether what windows beside each other share leaves the first cache under any order, in tiles of LEAST_SUMS."""
    return _crowds(tile) and not _stays(tile, (HIGHEST, LOW, 1))


def _cycles(tile: RegisterTile, sizes: Sizes, points: int) -> float:
    """Of all tiles, those at the edges included, in multiply-adds a vector; `sizes`: rows, beside, vectors."""
    rows, beside, vectors = sizes
    high, wide = (1 if axis is None else axis.size for axis in (tile.axes.row, tile.axes.beside))
    total = sum(
        n * m * _tile_cycles(tile, (r, b, vectors), points)
        for r, n in cuts(high, rows)
        for b, m in cuts(wide, beside)
    )
    return total / vectors


def cuts(size: int, tile: int) -> list[tuple[int, int]]:
    """(extent, number) of the full tiles and of the one at the edge."""
    whole, rest = (tile, size // tile), (size % tile, 1)
    return [(extent, count) for extent, count in (whole, rest) if extent and count]


def _tile_cycles(tile: RegisterTile, sizes: Sizes, points: int) -> float:
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
            leaves = vectors == 1 and _crowds(tile) and not _stays(tile, sizes)
            wide = _covered(tile, load, along, beside) if leaves else beside
            lines += _covered(tile, load, down, rows) * wide * vectors
    fetch = FETCH if vectors == 1 else FETCH_OF_PAIR
    return points * (max(rows * beside * vectors, LEAST_SUMS) + LOAD * loaded) + fetch * lines
