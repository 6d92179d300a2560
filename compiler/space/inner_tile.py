"""Inner products: lanes go along the sum, where the columns of an output fill no vectors.

    for tiles of rows x columns:
        part: a vector per row and column, lane l with the sum of every products k = l, l + lanes, ...
        the tile: the lanes of each vector added up
        the map, stored

A product of 3 rows and 17 columns takes 51 vectors per `lanes` products this way, and none is half empty; with lanes
along the columns it takes two vectors per row and product. What both factors read lies side by side along the sum, or
is a constant that is packed so. The vectors are partial results as in RFactor (Suriana et al., Parallel associative
reductions in Halide, CGO 2017).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.scalar import Apply, Guard, Load, loads, walk
from compiler.schedule.steps import ComputeAt, Pack, Reorder, RFactor, Split, Step
from compiler.space.register_tile import HEIGHTS, RegisterTile, heights, innermost, unroll_sums
from compiler.space.space import Value, number
from compiler.space.structure import packable, step_along
from compiler.symbol import Axis
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

ADDED_UP = 12
"""Instructions that add the lanes of one vector."""
FEW_SUMS = 15
"""Sums of a tile up to which one step has too little to do."""
FAR_VECTOR = 2
"""Multiply-adds in the time of which a vector comes from the second cache: half a line a cycle, two pipes."""


def inner_axis(workload: Workload, stage: Stage, target: Target) -> Axis | None:
    """The innermost axis of a sum of products along which both factors can be read as vectors; None where none is."""
    match stage.reducer, stage.body:
        case "sum", Apply("mul", (Load() | Guard(), Load() | Guard())) if stage.dtype.is_float:
            pass
        case _:
            return None
    packed, lanes = packable(workload, stage), target.lanes(stage.dtype.size_bytes)
    tested = {n for e in walk(stage.body) if isinstance(e, Guard) for b in e.bounds for n in b.index.names()}
    for axis in reversed(stage.reduce_axes):
        long = axis.extent.constant is not None and axis.size >= lanes
        if not long or lanes < 2 or axis.name in tested:
            continue
        if all(_side_by_side(workload, load, axis.name, packed) for load in loads(stage.body)):
            return axis
    return None


def _side_by_side(workload: Workload, load: Load, name: str, packed: tuple[str, ...]) -> bool:
    if not all(index.is_affine() for index in load.indices):
        return False
    step = step_along(workload, load, name)
    return step == 1 or (load.buffer in packed and step > 0)


class InnerTile(RegisterTile):
    """A tile of rows x columns, each a vector of partial sums. `vectors` of its knobs are columns."""

    def __init__(
        self, workload: Workload, anchor: Stage, store: Stage, target: Target, threads: int, along: Axis
    ) -> None:
        """`along`: the axis of the sum that fills the lanes."""
        super().__init__(workload, anchor, store, target, threads)
        self.axes = replace(self.axes, lanes=1)
        self.folds, self.pairs, self.depths = 1, False, self.depths[-1:]
        self.along, self.width = along, target.lanes(anchor.dtype.size_bytes)

    @property
    def sums(self) -> list[tuple[str, int]]:
        """Whole vectors take the place of the axis."""
        vectors = (f"{self.along.name}.o", -(-self.along.size // self.width))
        return [vectors if a == self.along else (a.name, a.size) for a in self.anchor.reduce_axes]

    @property
    def widths(self) -> tuple[int, ...]:
        """As many as rows: columns are not as wide as vectors."""
        return heights(self.panels)

    @property
    def widest(self) -> int:
        """All of them."""
        return HEIGHTS[-1]

    @property
    def most_unrolled(self) -> float:
        """A tile has enough to do in one step, and code of its own for each place of a window at a border."""
        return FEW_SUMS

    def arrives(self, rows: int, vectors: int) -> float:
        """Columns are read once for the rows, which stay in the first cache where there is room beside them."""
        bytes_along = prod(size for _, size in self.sums) * self.target.vector_bytes
        if self.panels * bytes_along <= self.target.l1_bytes:
            return 0.0
        near = (rows + vectors) * bytes_along <= self.target.l1_bytes
        return FAR_VECTOR * float(vectors if near else rows + vectors)

    @property
    def added_up(self) -> int:
        """Instructions that add up the lanes, for the whole output."""
        return ADDED_UP * prod(a.size for a in self.anchor.axes)

    def steps(self, values: dict[str, Value]) -> list[Step]:
        """The Steps for legal values of the knobs."""
        name, along = self.anchor.name, self.along.name
        part, lane = f"{name}.{along}.i", f"{along}.i"
        first: list[Step] = [Split(name, along, self.width), RFactor(name, lane)]
        steps: list[Step] = []
        for step in super().steps(values):
            match step:
                case ComputeAt(stage, consumer, loop) if stage == name:
                    steps += [step, ComputeAt(part, consumer, loop), *self._added_up(name, lane)]
                case Pack(_, operand):
                    steps.append(Pack(part, operand))
                case _:
                    steps.append(step)
        return [*first, *steps]

    def tile_reduction(
        self, stage: str, sums: list[tuple[str, int]], others: list[str], values: dict[str, Value]
    ) -> list[Step]:
        """The partial sums of a tile."""
        part, lane = f"{stage}.{self.along.name}.i", f"{self.along.name}.i"
        serial, unrolled, split = unroll_sums(part, sums, number(values, "unroll"))
        unrolled += self._tile(number(values, "rows"), number(values, "vectors"))
        order = Reorder(part, (*others, *serial, *unrolled, lane))
        return [*split, order, *innermost(part, unrolled, lane)]

    def _tile(self, rows: int, columns: int) -> list[str]:
        """Loops over rows and columns, the shorter side inside: what is read for it stays in registers."""
        row = [self.axes.row.name] if self.axes.row is not None else []
        vector = self.axes.vector.name
        return [*row, vector] if rows >= columns else [vector, *row]

    def _added_up(self, stage: str, lane: str) -> list[Step]:
        """The lanes of each vector as one sum."""
        tile = [*([self.axes.row.name] if self.axes.row is not None else []), self.axes.vector.name]
        others = [a.name for a in self.axes.others]
        return [Reorder(stage, (*others, *tile, lane)), *innermost(stage, tile, lane)]
