"""Winograd's algorithm some tiles at a time, so that what lies between its stages stays in the second cache.

for blocks of tiles that are neighbours in a row (parallel):
    tiles: the data of each, transformed
    product: register tiles over them
    the outputs of each tile, transformed, mapped and stored

All at once, the tiles of a large image and their products are several times as large as the image, are written to
memory and are read back from there. The constants are read once per block instead, while products keep the core busy.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.index import Index
from compiler.schedule.convolution import Convolution, find_convolution
from compiler.schedule.space_to_batch import find_dilation
from compiler.schedule.steps import ComputeAt, Split, Step
from compiler.space.default_order import NEAR
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Value
from compiler.space.winograd_phases import WinogradPhases, winograd_source
from compiler.symbol import Axis
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

LEAST_TILES = 6
"""Tiles of a block that its products share the constants among."""
WITHIN = 0.75
"""Share of the time that what is stored would take from the second cache: the transforms hide some of it."""
REREAD = 1 / 100
"""Cycles per byte of constants that are read again for another block, behind its arithmetic."""


def winograd_blocks(workload: Workload, m: int, target: Target) -> WinogradBlocks | None:
    """Blocks of tiles of m x m outputs; None where the second cache holds too few of them, or all.

    Of floats, without groups of channels or gaps in the window, and along all of its dimensions. Nothing is left over:
    each kind of short block would have code of its own.
    """
    source = winograd_source(workload, m)
    found = None if source is None else find_convolution(source[1])
    if found is None or not found.stage.dtype.is_float or found.deep or find_dilation(workload) is not None:
        return None
    moved = {name for index in found.taps.indices for name in index.names()}
    sizes = [row.size for row, _ in found.rows]
    if sizes[-1] % m or any(a.name in moved for a in found.batch):
        return None
    block = _block(found, m, target)
    several = prod(a.size for a in found.batch) * prod(size // m for size in sizes) > block
    return WinogradBlocks(workload, m, target, block) if several and block >= LEAST_TILES else None


def _block(found: Convolution, m: int, target: Target) -> int:
    """Tiles of a block: as many as three eighths of the second cache hold, transformed and multiplied."""
    last, taps = (axis.size for axis in found.rows[-1])
    entries = (found.stride * (m - 1) + taps) ** len(found.rows)
    bytes_per_tile = entries * (found.channel.size + found.maps.size) * found.stage.dtype.size_bytes
    most = target.l2_bytes * 3 // 8 // bytes_per_tile
    return max((b for b in range(1, min(most, last // m) + 1) if last // m % b == 0), default=0)


class WinogradBlocks(WinogradPhases):
    """The rewritten Workload, and the Steps around the register tile of a block."""

    def __init__(self, workload: Workload, m: int, target: Target, block: int) -> None:
        """Rewrite the Workload with tiles of m x m outputs, of which a block has so many."""
        super().__init__(workload, m, target, apart=True)
        self.block = block

    @property
    def stored(self) -> frozenset[str]:
        """Only what is copied before."""
        return super().stored - {"tiles", "product"}

    def cycles(self, target: Target, threads: int) -> float:
        """What it takes, nearly: less for what is stored, more for the constants."""
        kept = sum(self.workload.buffers[f"{name}_buffer"].size_bytes for name in ("tiles", "product"))
        constants = sum(o.size_bytes for o in self.workload.operands if o.constant)
        tiles = prod(a.size for a in (*self._found.batch, *self._tiles))
        again = (tiles / self.block - 1) * constants * REREAD
        return super().cycles(target, threads) + 2 * kept * NEAR * WITHIN + again

    def tile(self, target: Target, threads: int) -> RegisterTile:
        """The register tile of a block's products."""
        own = {stage.name: self._of_a_block(stage) for stage in self.product_stages}
        stages = tuple(own.get(s.name, s) for s in self.workload.stages)
        total, kept = own.values()
        return RegisterTile(replace(self.workload, stages=stages), total, kept, target, threads, inside=True)

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The blocks, what is stored of one, and inside it the products and the transforms of its data."""
        store, rows = self._store.name, [row.name for row, _ in self._found.rows]
        sizes = [*(1 for _ in rows[1:]), self.block]
        split: list[Step] = []
        for row, size in zip(rows, sizes, strict=True):
            split += [Split(store, row, self._m * size), Split(store, f"{row}.i", self._m)]
        blocks = [*(a.name for a in self._found.batch), *(f"{row}.o" for row in rows)]
        tiles = [f"{row}.i.o" for row in rows]
        stored = self._stored([*blocks, *tiles], [f"{row}.i.i" for row in rows])
        loop, shared = "*".join(blocks), share(store, blocks)
        inside = [ComputeAt("product", store, loop), *tile.steps(values), ComputeAt("tiles", store, loop)]
        return [*self.algorithms, *self._copy, *split, *stored, *shared, *inside, *self._transformed()]

    @property
    def _tiles(self) -> tuple[Axis, ...]:
        """The axes of tiles of the products."""
        own = set(self._each("t"))
        return tuple(a for a in self._by_name["product"].axes if a.name in own)

    def _of_a_block(self, stage: Stage) -> Stage:
        *others, last = self._tiles
        size = {last.name: self.block} | {a.name: 1 for a in (*self._found.batch, *others)}
        axes = (replace(a, extent=Index.of(size[a.name])) if a.name in size else a for a in stage.axes)
        return replace(stage, axes=tuple(axes))
