"""Tiles of an instruction on matrices: its sums stay in registers of 16 rows and 16 columns across the whole reduction.

    for tiles of rows x columns:
        for groups, `depth` at once:
            of each 16 rows the data, of each 16 columns the weights: a register
            each pair of them: an instruction
        the sums to memory of the thread
        the map, row by row

The loops of the innermost body are the instruction's own: groups, rows, columns. Its edges are smaller matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from compiler.index import Index
from compiler.instruction import Instruction
from compiler.matrix_order import are_held, heights_of, matrix_order
from compiler.scalar import Load, loads
from compiler.schedule.steps import Reorder, Split, Step, Tensorize
from compiler.space.default_order import ACROSS, FAR
from compiler.space.matrix_default import FIRST, INSIDE, MADE, usual_values
from compiler.space.matrix_depth import blocked_matrix_steps, matrix_depths
from compiler.space.register_tile import RegisterTile, innermost
from compiler.space.space import Knob, Value, number
from compiler.target import LINE_BYTES, MATRIX_REGISTERS, Target
from compiler.workload.ir import Stage, Workload

HEIGHTS = (4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 20, 24, 28, 32, 48, 64)
"""Rows of a tile; all of them where they fit, and are no more than the last of these: its map is unrolled."""
LINE = 2.5
"""Cycles for a row of a matrix that comes from the second cache, measured on a Granite Rapids core: 2 where it is alone
in the core, 2.9 in kernels."""
NEAR_LINE = 1.0
"""The same of one that comes from the first cache."""
LEAST = 9.0
"""Cycles for a product of small matrices, measured there; of others as many as the larger operand has rows."""
CONFIGURED = 400.0
"""Cycles for other tiles in the last rows, and back: registers are configured twice. Measured there: 220 to 490."""
HANDED_OVER = 4.0
"""Cycles for a vector of sums that is stored, and read again by the map."""


@dataclass(frozen=True, slots=True)
class Factors:
    """What an algorithm has made of the factors of a product.

    Attributes:
        sharing: a reduction axis whose places have operands in common: all of them are in the body.
        row_bytes: of the data of a row, where it can be made for a block of rows; 0 where it is made before.
        near: whether all of the data stays in the second cache.
        summed: a reduction axis that may be cut into blocks.
    """

    sharing: str = ""
    row_bytes: int = 0
    near: bool = False
    summed: str = ""


class MatrixTile(RegisterTile):
    """A tile of rows x vectors, in so many matrices as hold them. `unroll` is the depth of the instruction."""

    def __init__(
        self,
        workload: Workload,
        anchor: Stage,
        store: Stage,
        target: Target,
        threads: int,
        dot: tuple[Instruction, str],
        factors: Factors | None = None,
        *,
        inside: bool = False,
    ) -> None:
        """`dot`: an instruction on matrices, and the reduction axis of its groups; `factors`: plain ones if None."""
        super().__init__(workload, anchor, store, target, threads, dot, inside=inside)
        self.entry, self.along = dot
        known = factors or Factors()
        self._sharing, self.row_bytes = [known.sharing] if known.sharing else [], known.row_bytes
        self._summed, self._data_is_near = known.summed, known.near
        in_blocks = known.summed and self.is_far and self._constants_are_far
        self.depths = matrix_depths(self, known.summed) if in_blocks else (self.products,)

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have, ascending."""
        rows = 1 if self.axes.row is None else self.axes.row.size
        whole = {rows} if rows <= HEIGHTS[-1] and self._are_held(rows, 1) else set()
        return tuple(sorted({h for h in HEIGHTS if h <= rows} | whole)) or (rows,)

    @property
    def unrolls(self) -> tuple[int, ...]:
        """The depth, one number: groups that one instruction adds."""
        return (self.entry.depth_of(self._groups),)

    def knobs(self) -> tuple[Knob, ...]:
        """Those of a register tile, and where the data is made."""
        return (*super().knobs(), *([Knob(MADE, (FIRST, INSIDE))] if self.row_bytes else []))

    def made_at(self, values: dict[str, Value]) -> str:
        """The loop of the map at which the data is made; empty where that is done before."""
        if not self.row_bytes or values.get(MADE) != INSIDE:
            return ""
        outer, _ = self._outer_loops(str(values["order"]))
        return outer[-2] if values["order"] == "inside" else outer[0]

    def legal(self, values: dict[str, Value]) -> bool:
        """Sums and operands fit in the registers."""
        rows, vectors = number(values, "rows"), number(values, "vectors")
        fits = self._are_held(rows, vectors) and vectors <= self.panels
        if self._depth(values) < self.depths[-1]:
            return fits and values["order"] == "outside" and not self.made_at(values)
        return fits and self._block_fits(values) and (not self.made_at(values) or self._has_room(values))

    def _has_room(self, values: dict[str, Value]) -> bool:
        """Whether the data of a block of rows stays in the second cache, and each share of the threads has its own."""
        order, loops = str(values["order"]), self.axes.loops
        if order == "outside" or order.startswith(ACROSS) or not loops or number(values, "parallel") > 1:
            return False
        places = number(values, "rows")
        if order.startswith("block"):
            block = int(order.removeprefix("block"))
            inner = prod(a.size for a in loops[1:])
            places = block * (places if loops[0] is self.axes.row else inner)
        return places * self.row_bytes <= self.target.l2_bytes // 4

    def usual(self) -> dict[str, Value]:
        """Values that are good without measuring."""
        return usual_values(self)

    def cheapest(self) -> tuple[int, int]:
        """Rows and vectors of the tile with the least instructions and loads, edges counted."""
        return min(self._tiles(), key=self._cost)

    def cycles_of(self, rows: int, vectors: int) -> float:
        """What the products of one tile take."""
        return self._pairs * self._steps * vectors * self._filled(rows)

    @property
    def rows_in_all(self) -> int:
        """Rows of the whole product."""
        return prod(a.size for a in self.axes.loops)

    @property
    def _bytes_of_one(self) -> int:
        """Of all operands of one side for one product."""
        return self._distinct * self.entry.left.size_bytes

    @property
    def constant_bytes(self) -> int:
        """Of the packed constants."""
        return self.products * self.panels * self.axes.lanes * self._bytes_of_one

    @property
    def _constants_are_far(self) -> bool:
        """Whether the constants are too large for the second cache."""
        return self.constant_bytes > self.target.l2_bytes // 2

    @property
    def waits_for_constants(self) -> bool:
        """Whether `cycles` has all of their way from beyond the second cache: one tile of rows reads them, once."""
        return self._constants_are_far and self.rows_in_all <= self.cheapest()[0]

    @property
    def blocks_first(self) -> int:
        """The rotation of the sums that has the places of a window innermost: they have data in common, which is near.

        The first where there are no windows.
        """
        names = [name for name, _ in self.sums]
        return names.index(self._summed) if self._summed and self._summed in names else 0

    @property
    def is_far(self) -> bool:
        """Whether all data leaves the second cache before it is read again."""
        return self.rows_in_all * self.row_bytes > self.target.l2_bytes // 2

    def in_body(self, loops: list[str]) -> list[str]:
        """Columns: the sums are in memory, so that rows need not be known when code is made."""
        return loops[-1:]

    @property
    def cycles(self) -> float:
        """What the default tiles take, nearly: products or loads, and the way of the sums through memory."""
        others = prod(a.size for a in self.store.axes if a not in (self.axes.row, self.axes.vector))
        products = min(self._cost(tile)[0] for tile in self._tiles()) * self._steps * others
        return products + HANDED_OVER * self.store.points / self.axes.lanes

    def steps(self, values: dict[str, Value]) -> list[Step]:
        """The Steps for legal values of the knobs."""
        if (depth := self._depth(values)) < self.depths[-1]:
            return blocked_matrix_steps(self, self._summed, depth, values)
        return super().steps(values)

    def tile_reduction(
        self, stage: str, sums: list[tuple[str, int]], others: list[str], values: dict[str, Value]
    ) -> list[Step]:
        """Loops over groups of `depth`, and inside them what the instruction does."""
        row = "" if self.axes.row is None else self.axes.row.name
        return self.tile_sums(stage, (row, self.axes.vector.name), {n: n for n, _ in sums}, others)

    def tile_sums(
        self, stage: str, tile: tuple[str, str], sums: dict[str, str], others: list[str]
    ) -> list[Step]:
        """The loops of a stage inside of `others`.

        `tile`: those over the rows of a tile, if there are any, and over its columns; `sums`: those over each axis that
        is reduced, outermost first.
        """
        (row, vector), along = tile, self.along
        depth, group = self.unrolls[0], f"{along}.i"
        steps: list[Step] = [Split(stage, vector, self.axes.lanes), Split(stage, along, self.entry.group)]
        deep = f"{along}.o"
        serial = {n: loop for n, loop in sums.items() if n not in self._sharing}
        if depth < self._groups:
            steps.append(Split(stage, deep, depth))
            serial[along] = f"{along}.o.o"
            deep = f"{along}.o.i"
        else:
            del serial[along]
        unrolled = [*self._sharing, deep, *filter(None, (row,)), f"{vector}.o"]
        lane = f"{vector}.i"
        steps.append(Reorder(stage, (*others, *serial.values(), *unrolled, group, lane)))
        steps += innermost(stage, unrolled, lane)
        return [*steps, Tensorize(stage, group, self.entry.name)]

    @property
    def products(self) -> int:
        """Of each sum, whose operands are there once."""
        return prod(size for name, size in self.sums if name not in self._sharing)

    @property
    def _groups(self) -> int:
        size = next(a.size for a in self.anchor.reduce_axes if a.name == self.along)
        return size // self.entry.group

    @cached_property
    def _steps(self) -> int:
        """Of the reduction: how often the operands of a tile are loaded."""
        others = prod(size for name, size in self.sums if name not in (self.along, *self._sharing))
        return self._groups // self.unrolls[0] * others

    @cached_property
    def _pairs(self) -> int:
        """Products of each operand of a tile with another, of which some are shared."""
        return prod(size for name, size in self.sums if name in self._sharing)

    def _filled(self, rows: int) -> float:
        """Cycles of an operand's products with the matrices below each other: one for each row of the larger side."""
        return sum(max(h, self.unrolls[0], LEAST) for h in heights_of(rows, self.entry.rows))

    def _are_held(self, rows: int, vectors: int) -> bool:
        """Whether the registers hold a tile of sums, and some operands."""
        size = 1 if self.axes.row is None else self.axes.row.size
        tiles = {rows, size % rows or rows}
        return all(are_held(heights_of(r, self.entry.rows), vectors) for r in tiles)

    def _tiles(self) -> list[tuple[int, int]]:
        """Those that the registers hold; of which panels stay in the second cache, if there are any."""
        widths = range(1, min(self.panels, MATRIX_REGISTERS) + 1)
        found = [(h, v) for h in self.heights for v in widths if self._are_held(h, v)]
        panel = self._steps * self._distinct * self.entry.depth * LINE_BYTES
        near = [(h, v) for h, v in found if v * panel <= self.target.l2_bytes // 2]
        return near or [(h, v) for h, v in found if v == 1]

    @property
    def _distinct(self) -> int:
        """Operands of each side in one step."""
        return 1 + max(left for left, _ in self._pattern)

    @cached_property
    def _pattern(self) -> tuple[tuple[int, int], ...]:
        """Which operand of each side a pair multiplies."""
        sizes = dict(self.sums)
        places = list(product(*(range(sizes[name]) for name in self._sharing)))
        names = [dict(zip(self._sharing, map(Index.of, place), strict=True)) for place in places]
        sides = [self._data, next(x for x in loads(self.anchor.body) if x is not self._data)]
        found = []
        for load in sides:
            known: dict[tuple[Index, ...], int] = {}
            read = (tuple(index.substitute(at) for index in load.indices) for at in names)
            found.append([known.setdefault(indices, len(known)) for indices in read])
        return tuple(zip(*found, strict=True))

    @property
    def _data(self) -> Load:
        """What rows have of their own."""
        return next(x for x in loads(self.anchor.body) if x.buffer not in self.packs)

    def _cost(self, tile: tuple[int, int]) -> tuple[float, bool, int]:
        """Cycles of one step of the reduction in all tiles.

        Constants that are far come once for all tiles below each other, on all lines where what these read is near:
        behind the products where there is one, and else before those of the others. Of equals those that cut the
        columns evenly, then larger ones come first.
        """
        rows, vectors = tile
        size, depth = 1 if self.axes.row is None else self.axes.row.size, self.unrolls[0]
        heights, widths = _tiles_along(size, rows), _tiles_along(self.panels, vectors)
        near, lines = self._near(rows), self.rows_in_all // size if self._data_is_near else 1
        cost = 0.0
        for wide, columns in widths:
            far = FAR * self._distinct * wide * depth * LINE_BYTES / lines if self._constants_are_far else 0.0
            each = sum(count * self._step(high, wide, near) for high, count in heights)
            cost += columns * (max(each, far) if rows >= size else each + far)
        edges = CONFIGURED / self._steps if size % rows else 0.0
        return cost + edges, self.panels % vectors > 0, -rows * vectors

    def _step(self, rows: int, wide: int, near: float) -> float:
        """Cycles of one tile: products, or the loads of operands; `near`: those of a row of the data.

        A panel of constants that the first cache holds is read there by all tiles but the first.
        """
        heights, depth = heights_of(rows, self.entry.rows), self.unrolls[0]
        order = matrix_order(heights, wide, depth, self._pattern)
        left, right = (0, 0) if order is None else order.loaded
        panel = self.products * wide * LINE_BYTES // self.entry.group * self._distinct
        again = panel <= self.target.l1_bytes // 2 and self.rows_in_all > rows
        return max(
            self._pairs * wide * self._filled(rows), near * left + (NEAR_LINE if again else LINE) * right
        )

    def _near(self, rows: int) -> float:
        """Cycles for a row of the data, part of which a window's places have in common.

        What the places of a window read of one block of the sum stays in the first cache.
        """
        sizes = dict(self.sums) | {a.name: 1 for a in self.anchor.axes}
        if self.axes.row is not None:
            sizes[self.axes.row.name] = rows
        sizes |= dict.fromkeys((*self._sharing, self.along, self._summed), 1)
        *spans, last = [1 + high - low for low, high in (i.bounds(sizes) for i in self._data.indices)]
        apart = prod(spans) * -(-last * self.entry.left.size_bytes // LINE_BYTES)
        read = prod(sizes.values())
        share = min(1.0, apart / read)
        return LINE * share + NEAR_LINE * (1.0 - share)


def _tiles_along(size: int, part: int) -> list[tuple[int, int]]:
    """The lengths of tiles along an axis, and how many there are: whole ones, and the rest."""
    return [(part, size // part), (size % part, 1)] if size % part else [(part, size // part)]
