"""The Steps of the rule for products: both register tiles, and everything between them a row at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from compiler.dtype import DType
from compiler.loop.ir import LoopKind
from compiler.schedule.apart import apart
from compiler.schedule.both_parts import LEFT, PLACE, parts_of_both
from compiler.schedule.panels import PACK, panels
from compiler.schedule.parts import COUNT, PAIR, PART
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Reorder, RFactor, Split, Step
from compiler.space.both_part_phases import MADE, MADE_BETWEEN, block_length, matrices_of_parts
from compiler.space.default_tile import default_values
from compiler.space.dot_phases import copy_steps
from compiler.space.estimate import algorithm_cycles
from compiler.space.matrix_tile import Factors, MatrixTile
from compiler.space.product_structure import needed_products
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Knob, Value, number
from compiler.space.structure import tile_axes
from compiler.space.vector_map import map_steps
from compiler.symbol import Axis
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

REACHED = 0.85
"""Share of the multiply-add units that products of vectors use, with what is stored between them."""
BLOCKS = (8, 12, 16, 24, 32, 48, 64, 96, 128)
ACCUMULATORS = (1, 2, 4)
YES, NO = "yes", "no"
"""Of a product's factors the one with the lanes is copied in panels, or none is."""
PARTS: Mapping[str, int] = {"parts": COUNT, "parts3": 3}
"""Or both are taken apart, into so many parts."""


class ProductPlan:
    """Schedules of one Workload with a given choice of what is packed, and of where results between stages are kept.

    `blocked`: blocks of rows in the cache; otherwise phases with scratch memory between them.
    """

    def __init__(
        self, workload: Workload, target: Target, threads: int, *, packed: tuple[str, str], blocked: bool
    ) -> None:
        """Rewrite the Workload, and find its tiles; `packed`: of each product, YES, NO or one of PARTS."""
        self.target, self.threads, self.blocked = target, threads, blocked
        self.parts = needed_products(workload)
        self.lanes = target.lanes(workload.outputs[0].dtype.size_bytes)
        self._entry = matrices_of_parts(target)
        self._algorithms: list[Algorithm] = []
        self._workload = workload
        second = self.parts.second
        batch = self._innermost(workload.stages[0], self.parts.column, self.parts.batch) if blocked else ()
        if batch or workload.stages[1].reducer is not None:
            self._rewrite("apart", apart, (0, *batch))
            second += 1
        if blocked:
            stage = self._workload.stages[second]
            self._rewrite("apart", apart, (second, *self._innermost(stage, self.parts.wide, stage.axes)))
        products = tuple(self._workload.stages[place].name for place in (0, second))
        for place, axis, form in ((second, self.parts.wide, packed[1]), (0, self.parts.column, packed[0])):
            names = [a.name for a in self._workload.stages[place].axes]
            at = (place, names.index(axis.name), self.lanes)
            if form == YES:
                self._rewrite("panels", panels, at)
            if form in PARTS and self._entry is not None:
                length = block_length(self._workload.stages[place].reduce_axes[0].size, self._entry)
                self._rewrite("parts_of_both", parts_of_both, (*at, length, PARTS[form]))
        self._packs = [s for s in self._workload.stages if s.name.startswith(PACK)]
        self._stages = [s for s in self._workload.stages if s not in self._packs]
        self._last = self._stages[-1]
        first, last = (self._tile(*pair) for pair in zip(products, packed, strict=True))
        self._tiles = (first, last)

    def _rewrite(
        self, name: str, rewrite: Callable[[Workload, tuple[int, ...]], Workload], parameters: tuple[int, ...]
    ) -> None:
        self._algorithms.append(Algorithm(name, parameters))
        self._workload = rewrite(self._workload, parameters)

    def _innermost(self, product: Stage, lanes: Axis, others: tuple[Axis, ...]) -> tuple[int, ...]:
        """The dimension of a product's result that its lanes run along, where one of the others is behind it."""
        names = [index.name for index in product.target_indices]
        place = names.index(lanes.name)
        behind = [a for a in others if a.size > 1 and a.name in names[place + 1 :]]
        return (place,) if behind else ()

    def _tile(self, name: str, form: str) -> RegisterTile:
        place = next(i for i, s in enumerate(self._stages) if s.name == name)
        anchor, store = self._stages[place : place + 2]
        if form in PARTS and self._entry is not None:
            dot, factors = (self._entry, PLACE), Factors(PAIR, near=True)
            return MatrixTile(
                self._workload, anchor, store, self.target, self.threads, dot, factors, inside=self.blocked
            )
        return RegisterTile(self._workload, anchor, store, self.target, self.threads, inside=self.blocked)

    def cycles(self, which: int) -> float:
        """What a product takes, nearly, and what its factors are copied into before."""
        tile = self._tiles[which]
        if not isinstance(tile, MatrixTile):
            alone = replace(self._workload, stages=(tile.anchor,))
            return algorithm_cycles(alone, frozenset(), self.target, self.threads) / REACHED
        made = {
            f"{LEFT}.{tile.anchor.name}": MADE_BETWEEN if which else MADE,
            f"{PACK}.{tile.anchor.name}": MADE,
        }
        copies = (s for s in self._workload.stages if s.name in made)
        return tile.cycles + sum(made[s.name] * s.points for s in copies) / self.lanes

    # --- knobs

    def knobs(self) -> tuple[Knob, ...]:
        """Block (rows at a time), accumulators, and those of each tile with its number behind the name."""
        size = self.parts.row.size
        blocks = {*(b for b in BLOCKS if b < size), *((size,) if size <= BLOCKS[-1] else ())}
        found = [Knob("block", tuple(sorted(blocks))), Knob("accumulators", ACCUMULATORS)]
        for which, tile in enumerate(self._tiles):
            found += [Knob(f"{k.name}.{which}", k.choices) for k in tile.knobs()]
        return tuple(found)

    def legal(self, values: dict[str, Value]) -> bool:
        """The tiles are legal; a block's rows are whole tiles, and what is kept of them fits the second cache."""
        own = {knob.name: knob.choices for knob in self.knobs()}
        if not all(values[name] in choices for name, choices in own.items()):
            return False
        if not all(tile.legal(_of(values, which)) for which, tile in enumerate(self._tiles)):
            return False
        return not self.blocked or self._block_fits(values)

    def _block_fits(self, values: dict[str, Value]) -> bool:
        block = number(values, "block")
        if block * self._bytes_per_row() > self.target.l2_bytes // 2:
            return False
        tiles = [self._rows_of(which, _of(values, which)) for which in (0, 1)]
        return block == self.parts.row.size or all(block % rows == 0 for rows in tiles)

    def _rows_of(self, which: int, values: dict[str, Value]) -> int:
        """Rows of the block that a tile covers, in its own rows or in the lanes of its vectors."""
        axes = self._tiles[which].axes
        lies_along = axes.vector.name == self.parts.row.name
        return number(values, "vectors") * axes.lanes if lies_along else number(values, "rows")

    def _bytes_per_row(self) -> int:
        """What the maps keep per row."""
        outer = {a.name for a in (self.parts.row, *self.parts.batch)}
        total = 0
        for stage in self._stages[:-1]:
            if stage.reducer is None:
                kept = prod(a.size for a in stage.axes if a.name not in outer)
                total += -(-kept // self.lanes) * self.lanes * stage.dtype.size_bytes
        return total

    def default(self) -> dict[str, Value]:
        """The default of each tile, and blocks of whole tiles, as near as possible to a quarter of the second cache."""
        usual = [
            tile.usual() if isinstance(tile, MatrixTile) else default_values(tile) for tile in self._tiles
        ]
        block = self._default_block([self._rows_of(which, values) for which, values in enumerate(usual)])
        found: dict[str, Value] = {"block": block, "accumulators": self._usual_accumulators()}
        for which, values in enumerate(usual):
            if self.blocked and self.parts.row.size != block:
                self._make_whole(which, values, block)
            found |= {f"{name}.{which}": value for name, value in values.items()}
        return found

    def _usual_accumulators(self) -> int:
        """Vectors as long as the blocks of a sum whose parts are made: one loop then makes both from registers."""
        made = [tile for tile in self._tiles[1:] if isinstance(tile, MatrixTile)]
        length = next(a.size for a in made[0].anchor.reduce_axes if a.name == PLACE) if made else 0
        return max((a for a in ACCUMULATORS if a * self.lanes <= length), default=ACCUMULATORS[-1])

    def _make_whole(self, which: int, values: dict[str, Value], block: int) -> None:
        """Make a tile smaller until it divides the block, if it can."""
        lies_along = self._tiles[which].axes.vector.name == self.parts.row.name
        name = "vectors" if lies_along else "rows"
        for size in range(number(values, name), 0, -1):
            values[name] = size
            if block % self._rows_of(which, values) == 0:
                return

    def _default_block(self, rows: list[int]) -> int:
        """Fewer rows in a tile cost more than a block that leaves the panels less room in the cache."""
        kept = self._bytes_per_row()
        choices = [c for c in self.knobs()[0].choices if isinstance(c, int)]
        fitting = [c for c in choices if c * kept <= self.target.l2_bytes // 2] or choices[:1]
        whole = [c for c in fitting if c == self.parts.row.size or all(c % r == 0 for r in rows)]
        return min(whole or fitting, key=lambda c: (abs(c * kept - self.target.l2_bytes // 4), c))

    # --- steps

    def steps(self, values: dict[str, Value]) -> list[Step]:
        """The whole Schedule."""
        steps: list[Step] = list(self._algorithms)
        for pack in self._packs:
            if pack.dtype is DType.BF16:
                steps += copy_steps(self._workload, self.target, (PART,), copied=pack)
            else:
                steps += map_steps(self._workload, pack, self.target, self.threads)
        rows = number(values, "block")
        loop, own = self._blocks(rows) if self.blocked else (None, [])
        steps += own
        tiles = {tile.store.name: (tile, which) for which, tile in enumerate(self._tiles)}
        anchors = {tile.anchor.name for tile in self._tiles}
        for stage in reversed(self._stages):
            if stage.name in tiles:
                tile, which = tiles[stage.name]
                steps += [*self._at(stage, loop), *tile.steps(_of(values, which))]
            elif stage.name.startswith(LEFT):
                made = copy_steps(self._workload, self.target, (PART,), block=rows, copied=stage)
                steps += [*self._at(stage, loop), *made]
            elif stage.name not in anchors and not (self.blocked and stage is self._last):
                steps += self._between(stage, loop, number(values, "accumulators"))
        return steps

    def _at(self, stage: Stage, loop: str | None) -> list[Step]:
        return [] if loop is None else [ComputeAt(stage.name, self._last.name, loop)]

    def _blocks(self, rows: int) -> tuple[str, list[Step]]:
        """The last stage in blocks of rows; the loop inside which everything else is computed."""
        name, row, wide = self._last.name, self.parts.row.name, self.parts.wide.name
        axes = tile_axes(self._workload, self._last, self.target)
        outer = [*(a.name for a in self.parts.batch), f"{row}.o"]
        inner = [f"{row}.i", f"{wide}.o", f"{wide}.i"]
        steps: list[Step] = [Split(name, row, rows), Split(name, wide, axes.lanes)]
        turned = axes.vector.name == row and axes.lanes > 1
        if turned:  # blocks that are transposed in registers
            steps.append(Split(name, f"{row}.i", axes.lanes))
            inner = [f"{wide}.o", f"{row}.i.o", f"{wide}.i", f"{row}.i.i"]
        steps.append(Reorder(name, (*outer, *inner)))
        loop, fused = _fused(name, outer)
        unrolled = [Bind(name, f"{wide}.i", LoopKind.UNROLLED)] if turned else []
        return loop, [*steps, *fused, *unrolled, Bind(name, inner[-1], LoopKind.VECTOR)]

    def _between(self, stage: Stage, loop: str | None, accumulators: int) -> list[Step]:
        """A map or a reduction between the products, a row at a time."""
        name, column = stage.name, self.parts.column.name
        outer = [a.name for a in stage.axes if a.name != column]
        if stage.reducer is not None:
            return self._reduced(stage, outer, loop, accumulators)
        steps, inner = self._at(stage, loop), []
        if column in {a.name for a in stage.axes}:
            # One long vector: the instructions of its parts take turns while each waits for the last.
            inner = [f"{column}.o", f"{column}.i"]
            steps += [
                Split(name, column, accumulators * self.lanes),
                Reorder(name, (*outer, *inner)),
                Bind(name, inner[1], LoopKind.VECTOR),
            ]
        return steps if loop is not None else [*steps, *_fused(name, outer)[1]]

    def _reduced(self, stage: Stage, outer: list[str], loop: str | None, accumulators: int) -> list[Step]:
        """Partial results in the lanes of several vectors, then in those of one, then combined; a row at a time."""
        name, column = stage.name, self.parts.column
        count = min(accumulators, -(-column.size // self.lanes))
        lane = f"{column.name}.i"
        lanes = [f"{lane}.o", f"{lane}.i"] if count > 1 else [lane]
        first, second = f"{name}.{lane}", f"{name}.{lane}.i"
        made = [first, second] if count > 1 else [first]
        steps: list[Step] = [Split(name, column.name, self.lanes * count), RFactor(name, lane)]
        if count > 1:
            steps += [Split(name, lane, self.lanes), RFactor(name, f"{lane}.i")]
        row = outer[-1]
        if loop is None:
            row, fused = _fused(name, outer)
            steps += fused
        steps += self._at(stage, loop)
        steps += [ComputeAt(part, name, row) for part in reversed(made)]
        if count > 1:
            steps += [Split(first, lane, self.lanes), *_vectors(second, outer, lanes)]
        steps += _vectors(first, [*outer, f"{column.name}.o"], lanes)
        return [*steps, Bind(name, lanes[-1], LoopKind.VECTOR)]


def _fused(stage: str, loops: list[str]) -> tuple[str, list[Step]]:
    """All outer loops as one, shared out over the threads."""
    return "*".join(loops), share(stage, loops)


def _vectors(stage: str, outer: list[str], lanes: list[str]) -> list[Step]:
    """A partial result in vectors, all of them in registers."""
    unrolled: list[Step] = [Bind(stage, name, LoopKind.UNROLLED) for name in lanes[:-1]]
    return [Reorder(stage, (*outer, *lanes)), *unrolled, Bind(stage, lanes[-1], LoopKind.VECTOR)]


def _of(values: dict[str, Value], which: int) -> dict[str, Value]:
    """The values of one tile's knobs."""
    ending = f".{which}"
    return {name.removesuffix(ending): value for name, value in values.items() if name.endswith(ending)}
