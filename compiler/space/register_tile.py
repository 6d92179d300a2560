"""The register tile: a reduction and the map that follows it, computed tile by tile in vector registers.

The output is cut into tiles of `rows` x `vectors` vectors, or of `rows` x `beside` x `vectors` where rows are windows
below each other (down_tile.py); where the last vector of a sum of products is at most half full, it holds several
products of each sum, or two rows (last_vectors.py). A tile's accumulators live in registers across the whole
reduction; the map is applied to them before they are stored, so that intermediate results never reach memory. Constant
operands are packed in the order in which the tiles read them. Convolution, matrix product, depthwise convolution,
pooling and any other reduction share it. Where the map reads several blocks of the reduction (the gates of a recurrent
cell), a tile holds the same place of each of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from compiler.instruction import Instruction
from compiler.loop.ir import LoopKind
from compiler.loop.pair import ROWS
from compiler.schedule.steps import Bind, ComputeAt, Fuse, Pack, Reorder, Split, Step, Tensorize
from compiler.space.default_order import ACROSS, Loop, tile_loops
from compiler.space.depth import blocked_steps, depths
from compiler.space.last_vectors import last_folds, last_pairs
from compiler.space.space import Knob, Value, number
from compiler.space.structure import TileAxes, outermost_axis, packable, tile_axes
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

HEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28)
VECTORS = (1, 2, 3, 4, 5, 6, 8)
"""Rows of a tile; all of them where they are no more than the last of these."""
BLOCKS = (1, 2, 4, 7, 8, 14, 16, 28)
BESIDE = (1, 2, 3, 4, 7)
"""Windows beside each other in a tile that has several below each other."""
UNROLLS = (1, 2, 3, 4, 8, 9, 16)
UNROLLED_LIMIT = 320
"""Multiply-adds in the innermost body: more of them overflow the instruction caches and take long to compile."""


def heights(rows: int) -> tuple[int, ...]:
    """How many of so many rows a tile may have, ascending."""
    return tuple(sorted({r for r in HEIGHTS if r <= rows} | ({rows} if rows <= HEIGHTS[-1] else set())))


class RegisterTile:
    """The tile of one reduction: `anchor` computes into a temporary that `store` reads, a map over its axes.

    `blocks`: axes that only the anchor has; every tile holds all of their `copies`.
    """

    def __init__(
        self,
        workload: Workload,
        anchor: Stage,
        store: Stage,
        target: Target,
        threads: int,
        dot: tuple[Instruction, str] | None = None,
        *,
        inside: bool = False,
        row_name: str = "",
    ) -> None:
        """Analyse the stages.

        `dot`: an instruction that adds groups of products, along a reduction axis. `inside`: `store` is computed at a
        loop of another stage, as wide as one tile; it has no order of tiles to choose, and no loop of its own to share
        out. `row_name`: the axis of the rows (`tile_axes`).
        """
        self.dot, self._inside = dot, inside
        self.workload, self.anchor, self.store = workload, anchor, store
        self.target, self.threads = target, threads
        self.plain_axes = tile_axes(workload, store, target, anchor, inside=inside)
        found = tile_axes(workload, store, target, anchor, row_name) if row_name else self.plain_axes
        self.axes: TileAxes = found if dot is None else replace(found, lanes=dot[0].lanes)
        self.packs = packable(workload, anchor)
        mapped = {a.name for a in store.axes}
        self.blocks = tuple(a for a in anchor.axes if a.name not in mapped)
        self.copies = math.prod(a.size for a in self.blocks)
        self.folds = 1 if dot is not None or self.copies > 1 else last_folds(workload, anchor, self.axes)
        self.pairs = dot is None and self.folds == 1 and last_pairs(anchor, self.axes)
        self.depths = depths(self)

    def knobs(self) -> tuple[Knob, ...]:
        """rows, vectors, order, reduce, unroll; beside, depth and parallel where there is a choice."""
        axes, reduces = self.axes, len(self.anchor.reduce_axes)
        found = [
            Knob("rows", self.heights),
            Knob("vectors", self.widths),
            Knob("order", self._orders()),
            Knob("reduce", tuple(range(max(1, reduces)))),
            Knob("unroll", self.unrolls),
        ]
        if axes.beside is not None:
            size = axes.beside.size
            found.append(Knob("beside", tuple(b for b in BESIDE if b <= size)))
        if len(self.depths) > 1:
            found.append(Knob("depth", self.depths))
        if self.threads > 1 and not self._inside:
            found.append(Knob("parallel", tuple(range(1, 2 + len(axes.others) + (axes.row is not None)))))
        return tuple(found)

    @property
    def heights(self) -> tuple[int, ...]:
        """How many rows a tile may have, ascending."""
        return heights(self.axes.row.size if self.axes.row is not None else 1)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many vectors a tile may have, ascending."""
        return tuple(v for v in VECTORS if v <= self.panels)

    @property
    def sums(self) -> list[tuple[str, int]]:
        """The loops of a tile that reduce, outermost first, and their sizes."""
        return [(a.name, a.size) for a in self.anchor.reduce_axes]

    @property
    def unrolls(self) -> tuple[int, ...]:
        """How many iterations of the reduction may stand in the body, ascending."""
        points = math.prod(size for _, size in self.sums)
        return tuple(sorted({u for u in UNROLLS if u < points} | {min(points, UNROLLS[-1])}))

    @property
    def between(self) -> int:
        """Registers for what an instruction's template makes on the way to the sum, constants of it included."""
        return 0 if self.dot is None else len(self.dot[0].template) - 1

    @property
    def widest(self) -> int:
        """Most vectors of a default tile."""
        return 5

    @property
    def most_unrolled(self) -> float:
        """Sums of a tile up to which a short loop over the steps is unrolled completely."""
        return math.inf

    def arrives(self, rows: int, vectors: int) -> float:
        """Multiply-adds while which the second cache brings what a step of a tile reads; 0 where it keeps up."""
        return 0.0

    @property
    def panels(self) -> int:
        """Vectors along the vector axis."""
        return -(-self.axes.vector.size // self.axes.lanes)

    def accumulators(self, rows: int, vectors: int) -> int:
        """Registers for the sums of the largest tile."""
        tile = rows * vectors * self.copies
        return tile - self.copies * (rows // ROWS) if self.pairs and vectors == self.panels else tile

    def _orders(self) -> tuple[Value, ...]:
        """Where the loop over vector blocks stands among the others: outermost, innermost, or inside blocks of them.

        Or inside blocks of the rows, where those lie furthest apart and are not outermost otherwise.
        """
        outermost, row = self.axes.loops, self.axes.row
        if not outermost or self._inside:
            return ("outside",)
        blocks = tuple(f"block{b}" for b in BLOCKS if b < outermost[0].size)
        if row is None or row is outermost[0] or row.name != outermost_axis(self.workload, self.store):
            return ("outside", "inside", *blocks)
        return ("outside", "inside", *blocks, *(f"{ACROSS}{b}" for b in BLOCKS if b < row.size))

    def loops_by_order(self, values: dict[str, Value]) -> dict[str, list[Loop]]:
        """The loops over tiles, outermost first, under each legal value of the knob `order` beside the given ones."""
        orders = {}
        rows, columns = number(values, "rows"), number(values, "vectors") * self.axes.lanes
        beside = self.beside(values)
        for name in map(str, self._orders()):
            kind = name.rstrip("0123456789")
            block = int(name.removeprefix(kind) or 0)
            if self._block_fits({**values, "order": name}):
                orders[name] = tile_loops(self.axes, rows, columns, kind, block, beside)
        return orders

    def legal(self, values: dict[str, Value]) -> bool:
        """Accumulators and operands fit in the registers; the body stays small."""
        rows, vectors, unroll = (number(values, name) for name in ("rows", "vectors", "unroll"))
        beside = self.beside(values)
        tile = rows * beside * vectors
        if self.registers(rows, vectors, beside) > self.target.vector_registers and tile > 1:
            return False
        if tile * self.copies * unroll > UNROLLED_LIMIT or vectors > self.panels:
            return False
        if self._depth(values) < self.depths[-1]:
            return values["order"] == "outside" and unroll <= self._depth(values)
        return self._block_fits(values)

    def beside(self, values: dict[str, Value]) -> int:
        """Windows beside each other; a value of the same name may belong to another algorithm."""
        return number(values, "beside") if self.axes.beside is not None else 1

    def registers(self, rows: int, vectors: int, beside: int = 1) -> int:
        """Registers that the multiply-adds of a tile need: the shorter side stays, the other passes by.

        A pair needs one for what its rows are joined to, and both of them where rows pass by.
        """
        wide, rows = vectors * self.copies, rows * beside
        passing = 1
        if self.pairs and vectors == self.panels:
            passing = ROWS + 1 if rows >= wide else 2
        return self.accumulators(rows, vectors) + min(rows, wide) + passing + self.between

    def _depth(self, values: dict[str, Value]) -> int:
        """Products per block of the sum; one of the same name may belong to another algorithm."""
        whole = self.depths[-1]
        return number(values, "depth", whole) if len(self.depths) > 1 else whole

    def _block_fits(self, values: dict[str, Value]) -> bool:
        order = str(values["order"])
        kind = order.rstrip("0123456789")
        of_rows = kind == ACROSS or (kind == "block" and self.axes.loops[0] is self.axes.row)
        if self.axes.row is None or not of_rows:
            return True
        rows = number(values, "rows")
        return int(order.removeprefix(kind)) < -(-self.axes.row.size // rows)

    def steps(self, values: dict[str, Value]) -> list[Step]:
        """The Steps for legal values of the knobs."""
        if self._depth(values) < self.depths[-1]:
            return blocked_steps(self, values)
        steps = self._tile_output(values)
        outer, blocking = self._outer_loops("outside" if self._inside else str(values["order"]))
        steps += blocking
        vector, rows = self.axes.vector.name, [f"{a.name}.i" for a in self.axes.blocked]
        unrolled, lane = [*rows, f"{vector}.i.o"], f"{vector}.i.i"
        steps.append(Reorder(self.store.name, (*outer, *unrolled, lane)))
        steps.append(ComputeAt(self.anchor.name, self.store.name, outer[-1]))
        rotation, sums = number(values, "reduce", 0), self.sums
        others = [a.name for a in self.axes.still]
        steps += self.tile_reduction(self.anchor.name, [*sums[rotation:], *sums[:rotation]], others, values)
        steps += self._share(outer, number(values, "parallel"))
        steps += innermost(self.store.name, self.in_body(unrolled), lane)
        return steps + [Pack(self.anchor.name, name) for name in self.packs]

    def in_body(self, loops: list[str]) -> list[str]:
        """Of the loops over a tile's vectors those that are unrolled where the map stores it."""
        return loops

    def _tile_output(self, values: dict[str, Value]) -> list[Step]:
        axes, vector, lanes = self.axes, self.axes.vector.name, self.axes.lanes
        steps: list[Step] = []
        if axes.row is not None:
            steps.append(Split(self.store.name, axes.row.name, number(values, "rows")))
        if axes.beside is not None:
            steps.append(Split(self.store.name, axes.beside.name, number(values, "beside")))
        steps.append(Split(self.store.name, vector, number(values, "vectors") * lanes))
        steps.append(Split(self.store.name, f"{vector}.i", lanes))
        return steps

    def _outer_loops(self, order: str) -> tuple[list[str], list[Step]]:
        """Loops over tiles, outermost first, and the split that blocks the outermost of them."""
        rest = [f"{a.name}.o" if a in self.axes.blocked else a.name for a in self.axes.loops]
        panel = f"{self.axes.vector.name}.o"
        if order == "outside" or not rest:
            return [panel, *rest], []
        if order == "inside":
            return [*rest, panel], []
        if order.startswith(ACROSS) and self.axes.row is not None:
            row = f"{self.axes.row.name}.o"
            others = [loop for loop in rest if loop != row]
            count = int(order.removeprefix(ACROSS))
            return [f"{row}.o", *others, panel, f"{row}.i"], [Split(self.store.name, row, count)]
        factor = int(order.removeprefix("block"))
        if factor == 1 and len(rest) > 1:
            return [rest[0], panel, *rest[1:]], []
        blocked = rest[0]
        return [f"{blocked}.o", panel, f"{blocked}.i", *rest[1:]], [Split(self.store.name, blocked, factor)]

    def tile_reduction(
        self, stage: str, sums: list[tuple[str, int]], others: list[str], values: dict[str, Value]
    ) -> list[Step]:
        """How a stage computes a tile: inside the body, what is loaded for its shorter side stays in registers.

        `sums`: its loops that reduce, outermost first, and their sizes; some of their iterations stand in the body.
        `others`: its loops around those, of one iteration each.
        """
        rows, vectors, unroll = (number(values, name) for name in ("rows", "vectors", "unroll"))
        vector = self.axes.vector.name
        steps: list[Step] = [Split(stage, vector, self.axes.lanes)]
        grouped: list[str] = []
        if self.dot is not None:
            entry, axis = self.dot
            steps.append(Split(stage, axis, entry.group))
            sums = [(f"{n}.o", size // entry.group) if n == axis else (n, size) for n, size in sums]
            grouped = [f"{axis}.i"]
        serial, unrolled, split = unroll_sums(stage, sums, unroll)
        steps += split
        blocked, lane = [a.name for a in self.axes.blocked], f"{vector}.i"
        tile = [*blocked, f"{vector}.o"] if rows >= vectors else [f"{vector}.o", *blocked]
        unrolled += [*(a.name for a in self.blocks), *tile]
        steps.append(Reorder(stage, (*others, *serial, *unrolled, *grouped, lane)))
        steps += innermost(stage, unrolled, lane)
        if self.dot is not None:
            steps.append(Tensorize(stage, grouped[0], self.dot[0].name))
        return steps

    def _share(self, outer: list[str], fused: int) -> list[Step]:
        steps: list[Step] = []
        name = outer[0]
        for following in () if self._inside else outer[1 : min(fused, len(outer))]:
            if following.endswith(".i") and following.removesuffix(".i") + ".o" == outer[0]:
                break  # a block's extent may depend on its outer loop
            steps.append(Fuse(self.store.name, name, following))
            name = f"{name}*{following}"
        if not self._inside:
            steps.append(Bind(self.store.name, name, LoopKind.PARALLEL))
        return steps


def unroll_sums(
    stage: str, sums: list[tuple[str, int]], unroll: int
) -> tuple[list[str], list[str], list[Step]]:
    """Loops that reduce of which so many iterations stand in the body: the serial ones, those in it, and a split."""
    serial, sizes = [name for name, _ in sums], dict(sums)
    unrolled: list[str] = []
    while serial and unroll > 1:
        name = serial.pop()
        if sizes[name] <= unroll:
            unrolled.insert(0, name)
            unroll //= sizes[name]
            continue
        return [*serial, f"{name}.o"], [f"{name}.i", *unrolled], [Split(stage, name, unroll)]
    return serial, unrolled, []


def innermost(stage: str, unrolled: list[str], lane: str) -> list[Step]:
    """A stage's innermost loops."""
    return [*(Bind(stage, name, LoopKind.UNROLLED) for name in unrolled), Bind(stage, lane, LoopKind.VECTOR)]
