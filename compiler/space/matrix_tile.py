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

from math import prod

from compiler.instruction import Instruction
from compiler.schedule.steps import Reorder, Split, Step, Tensorize
from compiler.space.default_order import Loop, cheapest_order, tile_traffic
from compiler.space.default_tile import SHARES_PER_THREAD
from compiler.space.register_tile import RegisterTile, innermost
from compiler.space.space import Knob, Value, number
from compiler.target import LINE_BYTES, MATRIX_REGISTERS, Target
from compiler.workload.ir import Stage, Workload

HEIGHTS = (4, 6, 7, 8, 10, 12, 13, 14, 15, 16, 20, 24, 28, 32, 48, 64)
"""Rows of a tile; all of them where they fit."""
MADE, FIRST, INSIDE = "made", "first", "inside"
"""Knob that says where the data is brought into its form: before all else, or for each block of rows."""
LINE = 2.5
"""Cycles for a row of a matrix that comes from the second cache, measured on a Granite Rapids core: 2 where it is alone
in the core, 2.9 in kernels."""
HANDED_OVER = 4.0
"""Cycles for a vector of sums that is stored, and read again by the map."""


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
        sharing: str = "",
        row_bytes: int = 0,
    ) -> None:
        """`dot`: an instruction on matrices, and the reduction axis of its groups.

        `sharing`: another reduction axis, whose places have operands in common: all of them are in the body.
        `row_bytes`: of the data of a row, where it can be made for a block of rows; 0 where it is made before.
        """
        super().__init__(workload, anchor, store, target, threads, dot)
        self.entry, self.along = dot
        self._sharing, self._row_bytes = [sharing] if sharing else [], row_bytes
        self.depths = self.depths[-1:]

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have, ascending."""
        rows = 1 if self.axes.row is None else self.axes.row.size
        whole = {rows} if self._matrices(rows, 1) <= MATRIX_REGISTERS else set()
        return tuple(sorted({h for h in HEIGHTS if h <= rows} | whole)) or (rows,)

    @property
    def unrolls(self) -> tuple[int, ...]:
        """The depth, one number: groups that one instruction adds."""
        return (self.entry.depth_of(self._groups),)

    def knobs(self) -> tuple[Knob, ...]:
        """Those of a register tile, and where the data is made."""
        return (*super().knobs(), *([Knob(MADE, (FIRST, INSIDE))] if self._row_bytes else []))

    def made_at(self, values: dict[str, Value]) -> str:
        """The loop of the map at which the data is made; empty where that is done before."""
        if not self._row_bytes or values.get(MADE) != INSIDE:
            return ""
        outer, _ = self._outer_loops(str(values["order"]))
        return outer[-2] if values["order"] == "inside" else outer[0]

    def legal(self, values: dict[str, Value]) -> bool:
        """Sums and operands fit in the registers."""
        rows, vectors = number(values, "rows"), number(values, "vectors")
        fits = self._matrices(rows, vectors) <= MATRIX_REGISTERS and vectors <= self.panels
        return fits and self._block_fits(values) and (not self.made_at(values) or self._has_room(values))

    def _has_room(self, values: dict[str, Value]) -> bool:
        """Whether the data of a block of rows stays in the second cache, and each share of the threads has its own."""
        order, loops = str(values["order"]), self.axes.loops
        if order == "outside" or not loops or number(values, "parallel") > 1:
            return False
        places = number(values, "rows")
        if order.startswith("block"):
            block = int(order.removeprefix("block"))
            inner = prod(a.size for a in loops[1:])
            places = block * (places if loops[0] is self.axes.row else inner)
        return places * self._row_bytes <= self.target.l2_bytes // 4

    def usual(self) -> dict[str, Value]:
        """Values that are good without measuring: the tile with the least instructions and loads, edges counted."""
        rows, vectors = min(self._tiles(), key=self._cost)
        depth = self.unrolls[0]
        orders = self.loops_by_order({"rows": rows, "beside": 1, "vectors": vectors})
        cycles = float(self._pairs * depth * self._steps * self._high(rows) * vectors)
        traffic = tile_traffic(self.workload, self.anchor, self.store, self.axes, self.target, rows, cycles)
        order = cheapest_order(orders, traffic)
        counts = [count for _, count in orders[order]]
        parallel, shares = 1, SHARES_PER_THREAD * self.threads
        tiles = counts[0]
        while parallel < len(counts) and tiles < shares:
            tiles *= counts[parallel]
            parallel += 1
        values: dict[str, Value] = {
            "rows": rows,
            "vectors": vectors,
            "order": order,
            "reduce": 0,
            "unroll": depth,
            "parallel": parallel,
            MADE: FIRST,
        }
        return {**values, **self._by_blocks(values, orders)} if self.is_far else values

    @property
    def is_far(self) -> bool:
        """Whether all data leaves the second cache before it is read again."""
        rows = prod(a.size for a in self.axes.loops)
        return rows * self._row_bytes > self.target.l2_bytes // 2

    def _by_blocks(self, values: dict[str, Value], orders: dict[str, list[Loop]]) -> dict[str, Value]:
        """Where the data is made for blocks of rows: the order with the largest that has room and work for all threads.

        Nothing where there is none.
        """
        blocks = sorted(
            (o for o in orders if o.startswith("block")), key=lambda o: -int(o.removeprefix("block"))
        )
        for order in (*blocks, "inside"):
            changed: dict[str, Value] = {"order": order, "parallel": 1, MADE: INSIDE}
            shares = orders[order][0][1] if order in orders else 0
            enough = shares >= (SHARES_PER_THREAD * self.threads if self.threads > 1 else 1)
            if enough and self.legal({**values, **changed}):
                return changed
        return {}

    def in_body(self, loops: list[str]) -> list[str]:
        """Columns: the sums are in memory, so that rows need not be known when code is made."""
        return loops[-1:]

    @property
    def cycles(self) -> float:
        """What the default tiles take, nearly: products or loads, and the way of the sums through memory."""
        others = prod(a.size for a in self.store.axes if a not in (self.axes.row, self.axes.vector))
        products = min(self._cost(tile)[0] for tile in self._tiles()) * self._steps * others
        return products + HANDED_OVER * self.store.points / self.axes.lanes

    def tile_reduction(
        self, stage: str, sums: list[tuple[str, int]], others: list[str], values: dict[str, Value]
    ) -> list[Step]:
        """Loops over groups of `depth`, and inside them what the instruction does."""
        row, vector, along = self.axes.row, self.axes.vector.name, self.along
        depth, group = self.unrolls[0], f"{along}.i"
        steps: list[Step] = [Split(stage, vector, self.axes.lanes), Split(stage, along, self.entry.group)]
        deep, serial = f"{along}.o", [n for n, _ in sums if n not in (along, *self._sharing)]
        if depth < self._groups:
            steps.append(Split(stage, deep, depth))
            place = [n for n, _ in sums if n not in self._sharing].index(along)
            serial.insert(place, f"{along}.o.o")
            deep = f"{along}.o.i"
        unrolled = [*self._sharing, deep, *(() if row is None else (row.name,)), f"{vector}.o"]
        lane = f"{vector}.i"
        steps.append(Reorder(stage, (*others, *serial, *unrolled, group, lane)))
        steps += innermost(stage, unrolled, lane)
        return [*steps, Tensorize(stage, group, self.entry.name)]

    @property
    def _groups(self) -> int:
        size = next(a.size for a in self.anchor.reduce_axes if a.name == self.along)
        return size // self.entry.group

    @property
    def _steps(self) -> int:
        """Of the reduction: how often the operands of a tile are loaded."""
        others = prod(size for name, size in self.sums if name not in (self.along, *self._sharing))
        return self._groups // self.unrolls[0] * others

    @property
    def _pairs(self) -> int:
        """Products of each operand of a tile with another, of which some are shared."""
        return prod(size for name, size in self.sums if name in self._sharing)

    @staticmethod
    def _parts(size: int, part: int) -> list[int]:
        """The tiles along an axis: whole ones, and the rest."""
        return [part] * (size // part) + [size % part] * (size % part > 0)

    def _high(self, rows: int) -> int:
        """Matrices below each other."""
        return -(-rows // self.entry.rows)

    def _matrices(self, rows: int, vectors: int) -> int:
        """Registers: of sums, of the data of all rows, and one for weights, which pass by."""
        high = self._high(rows)
        return high * vectors + high + 1

    def _tiles(self) -> list[tuple[int, int]]:
        """Those that the registers hold; of which panels stay in the second cache, if there are any."""
        widths = range(1, min(self.panels, MATRIX_REGISTERS) + 1)
        found = [(h, v) for h in self.heights for v in widths if self._matrices(h, v) <= MATRIX_REGISTERS]
        panel = self._steps * self._distinct * self.entry.depth * LINE_BYTES
        near = [(h, v) for h, v in found if v * panel <= self.target.l2_bytes // 2]
        return near or [(h, v) for h, v in found if v == 1]

    @property
    def _distinct(self) -> int:
        """Operands of each side that are loaded in one step: neighbouring pairs share one."""
        return (self._pairs + 2) // 2

    def _cost(self, tile: tuple[int, int]) -> tuple[float, int, int]:
        """Cycles of one step of the reduction in all tiles.

        Of equals those without edges come first, which need no other setting of the registers, then larger ones.
        """
        rows, vectors = tile
        size = 1 if self.axes.row is None else self.axes.row.size
        depth = self.unrolls[0]

        def step(high: int, wide: int) -> float:
            products = self._pairs * self._high(high) * wide * depth
            return max(products, LINE * self._distinct * (high + wide * depth))

        heights, widths = self._parts(size, rows), self._parts(self.panels, vectors)
        cost = sum(step(h, w) for h in heights for w in widths)
        edges = (size % rows > 0) + (self.panels % vectors > 0)
        return cost, edges, -rows * vectors
