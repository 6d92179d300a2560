"""What surrounds the products of Strassen's algorithm: the sums of blocks before them, and after them.

Each is a phase of its own. A vector of every block is read, all sums are made of them in registers, and stored; the
constant matrices become literals, their zeros nothing.
"""

from __future__ import annotations

from math import prod, sqrt

from compiler.schedule.steps import Algorithm, ComputeAt, Reorder, Split, Step
from compiler.schedule.strassen import HALVES, find_product, growth, strassen
from compiler.space.default_order import FAR, MEMORY, NEAR, counted_on
from compiler.space.estimate import KEPT_UP, STREAMED, fetched
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Value
from compiler.space.structure import tile_axes
from compiler.space.winograd_phases import ROUNDING, bind
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

LEAST_ROWS, LEAST_SUM, LEAST_VECTORS = 24, 64, 2
"""Rows, products of a sum and vectors of columns that the blocks have at least: below, the sums around the products
outweigh them."""
LEAST_TILE = 6
"""Rows that are beside each other in a block at least: fewer make no good tile."""
NEAR_CACHES = 3
"""Second caches that what is summed fills at most where it is near."""


def can_cut(workload: Workload, target: Target) -> bool:
    """Whether the Workload is a product by a constant whose blocks are large enough, and whole vectors wide."""
    found = find_product(workload)
    if found is None:
        return False
    lanes = target.lanes(found.stage.dtype.size_bytes)
    beside, columns, summed = (a.size // HALVES for a in (found.row, found.column, found.summed))
    rows = beside * prod(a.size for a in found.batch)
    whole = found.column.size % (HALVES * lanes) == found.summed.size % HALVES == 0
    tiles = beside >= LEAST_TILE and rows >= LEAST_ROWS
    return whole and tiles and columns >= LEAST_VECTORS * lanes and summed >= LEAST_SUM


class StrassenPhases:
    """The rewritten Workload, and the Steps of its first and last phase."""

    clearly = 0.98
    """Cycles, as a share of the direct form's, below which it is taken for faster without measuring."""

    def __init__(self, workload: Workload, target: Target) -> None:
        """Rewrite the Workload."""
        found = find_product(workload)
        if found is None:
            msg = "the workload is no product by a constant"
            raise ValueError(msg)
        self._found, self._target = found, target
        self.workload = strassen(workload, ())
        self._by_name: dict[str, Stage] = {s.name: s for s in self.workload.stages}

    @property
    def error(self) -> float:
        """Rounding error relative to the largest output, which random data hardly ever exceed."""
        return ROUNDING * growth() * sqrt(self._found.summed.size)

    def cycles(self, target: Target, threads: int) -> float:
        """What it takes, nearly: the products', and those of moving what is summed, behind which the sums hide.

        What few sums are made of stays near enough to be read and written as from the second cache; what many are
        made of leaves the last one.
        """
        stage, store = self.product_stages
        products = stage.points / (target.lanes(stage.dtype.size_bytes) * target.multiply_adds)
        stored = {self._by_name["blocks"].target, store.target}
        between = sum(t.size_bytes for t in self.workload.temporaries if t.name in stored)
        rows = self._found.row.size * prod(a.size for a in self._found.batch)
        ends = [rows * a.size * stage.dtype.size_bytes for a in (self._found.summed, self._found.column)]
        constants = sum(o.size_bytes for o in self.workload.operands if o.constant)
        moved = (between + sum(ends)) * self._rate(between, max(ends), threads)
        return products + moved + fetched(constants, products, target, threads)

    def _rate(self, between: int, end: int, threads: int) -> float:
        """Cycles per byte of what is moved: `between` is summed, and `end` is the larger of what is read and stored."""
        target = self._target
        if target.memory_rate(threads) and between <= NEAR_CACHES * target.l2_bytes:
            return NEAR
        if between + end > counted_on(target):
            return MEMORY
        return STREAMED if between <= KEPT_UP * target.l2_bytes else FAR

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The batch of matrix products, which the register tile computes."""
        return self._by_name["product_sum"], self._by_name["product"]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The sums of blocks, and the tile of the products between them."""
        return [Algorithm("strassen", ()), *self._before(), *tile.steps(values), *self._after()]

    def _before(self) -> list[Step]:
        """Sums of the data's blocks: a vector of each at a time, along what the products sum."""
        lanes = tile_axes(self.workload, self._by_name["blocks"], self._target).lanes
        summed, row = self._found.summed.name, self._found.row.name
        batch = [a.name for a in self._found.batch]
        outer = [*batch, row, f"{summed}.o"]
        return [
            Split("blocks", summed, lanes),
            Reorder("blocks", (*outer, "e", f"{summed}.i")),
            ComputeAt("blocks_sum", "blocks", f"{summed}.o"),
            Reorder("blocks_sum", (*batch, row, "q0", "q1", "e", summed)),
            *bind("blocks_sum", unrolled=("q0", "q1", "e"), vector=summed),
            *bind("blocks", unrolled=("e",), vector=f"{summed}.i"),
            *share("blocks", outer[:-1]),
        ]

    def _after(self) -> list[Step]:
        """Sums of the products and the map after them: a vector of every block of the result at a time."""
        store = self.workload.stages[-1]
        lanes = tile_axes(self.workload, store, self._target, self._by_name["outputs"]).lanes
        row, column = self._found.row.name, self._found.column.name
        batch = [a.name for a in self._found.batch]
        outer, lane = [*batch, f"{row}.o", f"{column}.i.o"], f"{column}.i.i"
        inner = (f"{row}.i", f"{column}.o")
        return [
            Split(store.name, row, HALVES),
            Split(store.name, column, self._found.column.size // HALVES),
            Split(store.name, f"{column}.i", lanes),
            Reorder(store.name, (*outer, *inner, lane)),
            ComputeAt("outputs", store.name, outer[-1]),
            Reorder("outputs", (*batch, row, "e", "p0", "p1", column)),
            *bind("outputs", unrolled=("e", "p0", "p1"), vector=column),
            *bind(store.name, unrolled=inner, vector=lane),
            *share(store.name, outer[:-1]),
        ]
