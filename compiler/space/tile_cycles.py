"""Cycles of register tiles: what the analytic default compares, in multiply-adds (compiler/space/default_tile.py)."""

from __future__ import annotations

from math import prod

from compiler.loop.pair import ROWS
from compiler.scalar import loads
from compiler.space.down_tile import cuts
from compiler.space.overlap import distinct
from compiler.space.register_tile import RegisterTile
from compiler.target import LINE_BYTES

LATENCY = 8
"""Multiply-adds in flight that hide their latency on two pipes."""

LOAD = 1.25
"""Multiply-adds that take as long as loading a vector where a tile reuses nothing: lines arrive in between."""

FAR_LOAD = 3
"""Products of bytes, each a multiplication and an addition, in the time of which a vector of constants comes from the
second cache."""


def panels_of(size: int, vectors: int) -> list[tuple[int, int, bool]]:
    """(vectors, number, whether the last vector is among them) of the panels."""
    last = (size - 1) % vectors + 1
    return [(vectors, (size - last) // vectors, False), (last, 1, True)]


def tiles_cycles(tile: RegisterTile, rows: int, vectors: int, *, streams: bool) -> float:
    """Of all tiles of so many rows and vectors, those at the edges as what they are, per step of the reduction."""
    row_size = tile.axes.row.size if tile.axes.row is not None else 1
    return sum(
        n * m * _tile_cycles(tile, r, v, last=last, streams=streams)
        for r, n in cuts(row_size, rows)
        for v, m, last in panels_of(tile.panels, vectors)
    )


def _tile_cycles(tile: RegisterTile, rows: int, vectors: int, *, last: bool, streams: bool) -> float:
    """Of a tile, per step of the reduction, in multiply-adds; what begins and ends a tile is a share of its sides."""
    wide = vectors * tile.copies
    if streams:
        return max(rows * wide, LATENCY, LOAD * tile.copies * _loaded(tile, rows, vectors)) + 0.5 * rows
    saved = saved_products(tile, rows) if last else 0.0
    arrives = FAR_LOAD * wide if _comes_from_far(tile, wide) else tile.arrives(rows, vectors)
    loaded = rows + wide * _lines(tile)
    return max(rows * wide - saved, LATENCY, loaded, arrives) + 0.5 * loaded


def _lines(tile: RegisterTile) -> float:
    """Lines that a vector of the lanes' operand lies in, on average: more than one where its rows begin anywhere."""
    vector, size_bytes = tile.axes.vector.name, tile.target.vector_bytes
    for load in loads(tile.anchor.body):
        buffer = tile.workload.buffers[load.buffer]
        if load.buffer in tile.packs or not any(vector in index.names() for index in load.indices):
            continue
        for index, stride in zip(load.indices, buffer.strides, strict=True):
            steps = (index.coefficient(str(name)) for name in index.names() if name != vector)
            if any(step * stride * buffer.dtype.size_bytes % size_bytes for step in steps):
                return 1 + size_bytes / LINE_BYTES
    return 1.0


def _comes_from_far(tile: RegisterTile, wide: int) -> bool:
    """Whether each tile reads the constants of its panel from the second cache, for products of two instructions."""
    if tile.dot is None or len(tile.dot[0].template) < 2:
        return False
    column = tile.axes.lanes * prod(size for _, size in tile.sums)
    sizes = [tile.workload.buffers[name].dtype.size_bytes for name in tile.packs]
    return any(wide * column * size_bytes > tile.target.l1_bytes for size_bytes in sizes)


def saved_products(tile: RegisterTile, rows: int) -> float:
    """Multiply-adds that the last vectors of a tile have less than others, per step of the reduction."""
    return tile.copies * (rows // ROWS if tile.pairs else rows * (1 - 1 / tile.folds))


def _loaded(tile: RegisterTile, rows: int, vectors: int) -> float:
    """Vectors that a tile without reuse loads per step; windows that overlap along its rows share them."""
    total = 0.0
    for load in loads(tile.anchor.body):
        names = {name for index in load.indices for name in index.names()}
        if tile.axes.vector.name in names:
            row = tile.axes.row
            shared = row is not None and row.name in names
            total += vectors * (distinct(tile.anchor, load, row.name, rows) if row and shared else 1)
    return total
