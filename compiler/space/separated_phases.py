"""Windows side by side: what they share is combined once per tile, in registers (compiler/schedule/separated.py).

for tiles of rows x vectors:
    shared: all places that the windows of the tile's rows cover, over the other sums
    the tile: each row from its places
    the map, stored
"""

from __future__ import annotations

from math import prod

from compiler.errors import ScheduleError
from compiler.loop.ir import LoopKind
from compiler.schedule.separated import STAGE, Windows, find_windows, separated
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Reorder, Split, Step
from compiler.space.crowding import crowds, panel_bytes
from compiler.space.default_tile import default_values
from compiler.space.down_tile import highest_down
from compiler.space.register_tile import HEIGHTS, UNROLLED_LIMIT, RegisterTile
from compiler.space.space import Value, number
from compiler.target import LINE_BYTES, Target
from compiler.workload.ir import Stage, Workload

WIDEST = 2
"""Vectors of a default tile."""
HIGHEST = 5
"""Rows of a default tile whose windows are below each other."""
ORDERS = ("block8", "block4", "outside")
"""A few rows of windows for one panel, so that what two of them read is read twice from the first cache, and what
follows in memory is read soon; unless a panel has half of each line, or a few sets of that cache. Where windows are
below each other, one panel follows the other: what they read and store is in long runs then."""
NEARLY = 1.25
"""Of tiles that need so many times the fewest combinations, the widest reads memory in the longest runs."""


class SharingTile(RegisterTile):
    """A tile whose rows are windows that overlap."""

    def __init__(
        self,
        workload: Workload,
        anchor: Stage,
        store: Stage,
        target: Target,
        threads: int,
        windows: Windows,
        row_name: str,
    ) -> None:
        """`windows`: along the rows."""
        super().__init__(workload, anchor, store, target, threads, row_name=row_name)
        self.windows = windows

    def registers(self, rows: int, vectors: int, beside: int = 1) -> int:
        """What the windows cover stays until all of the rows have it."""
        return (self.windows.covered(rows) + rows) * vectors * beside + 1


class SeparatedPhases:
    """The rewritten Workload, and the Steps of what is shared."""

    def __init__(self, direct: RegisterTile, windows: Windows) -> None:
        """Rewrite the Workload of the direct form, whose tile says whether windows are below each other."""
        workload = direct.workload
        place = [a.name for a in workload.stages[0].axes].index(windows.along.name)
        self.algorithm = Algorithm("separated", (place,))
        self.workload = separated(workload, self.algorithm.parameters)
        self.windows, self._direct, self._down = windows, direct, direct.axes.is_down

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """What combines the places of a window, and the map after it."""
        return self.workload.stages[1], self.workload.stages[2]

    @property
    def _terms(self) -> int:
        """What each shared place combines."""
        return prod(a.size for a in self.workload.stages[0].reduce_axes)

    def tile(self, target: Target, threads: int) -> SharingTile:
        """The tile of the windows."""
        row_name = self.windows.along.name if self._down else ""
        return SharingTile(self.workload, *self.product_stages, target, threads, self.windows, row_name)

    def combinations(self, tile: RegisterTile, rows: int) -> float:
        """How many make a row in tiles of so many, those at the edge included; the first of a sum is none."""
        size = tile.axes.row.size if tile.axes.row is not None else 1
        total = 0
        for high, count in ((rows, size // rows), (size % rows, 1)):
            once = self.windows.covered(high) * (self._terms - 1) + high * (self.windows.taps.size - 1)
            total += count * once if high else 0
        return total / size

    def best_tile(self, tile: RegisterTile) -> tuple[float, int, int]:
        """The combinations of the default tile, its rows and its vectors: few, and then wide."""
        size = tile.axes.row.size if tile.axes.row is not None else 1
        highest = highest_down(self._direct, HIGHEST, stored=False) if self._down else size
        fitting = [
            (self.combinations(tile, rows), rows, vectors)
            for vectors in range(1, min(WIDEST, tile.panels) + 1)
            for rows in HEIGHTS
            if rows <= min(size, highest) and tile.registers(rows, vectors) <= tile.target.vector_registers
        ]
        least, *_ = min(fitting, default=(float("inf"), 1, 1))
        nearly = 1.0 if self._down else NEARLY
        near = [found for found in fitting if found[0] <= nearly * least]
        return min(near, key=lambda found: (-found[2], found[0]), default=(float("inf"), 1, 1))

    def usual(self, tile: RegisterTile) -> dict[str, Value]:
        """Values that are good without measuring: windows above each other find in the first cache what they share."""
        values = default_values(tile)
        _, rows, vectors = self.best_tile(tile)
        values |= {"rows": rows, "vectors": vectors, "beside": 1}
        orders = tile.loops_by_order(values)
        first: tuple[str, ...] = ORDERS
        if self._down or self._reads_ahead(tile, vectors):
            first = ("inside", *ORDERS)
        return {**values, "order": next((name for name in first if name in orders), str(values["order"]))}

    def _reads_ahead(self, tile: RegisterTile, vectors: int) -> bool:
        """Whether a panel of so many vectors is better followed by the next one than by the places around it."""
        stage = self.workload.stages[0]
        half = panel_bytes(stage, tile.axes, vectors) < LINE_BYTES
        return half or crowds(self.workload, stage, tile.axes, vectors, tile.target)

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The tile, and what is shared right before it."""
        steps: list[Step] = [self.algorithm, *tile.steps(values)]
        for place, step in enumerate(steps):
            if isinstance(step, ComputeAt) and step.stage == tile.anchor.name:
                own = self._shared(tile, values)
                return [
                    *steps[: place + 1],
                    ComputeAt(STAGE, step.consumer, step.loop),
                    *own,
                    *steps[place + 1 :],
                ]
        msg = f"the tile of {tile.anchor.name} is attached nowhere"
        raise ScheduleError(msg)

    def _shared(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """All places of a tile side by side in registers; the taps around them, unrolled where they are few."""
        rows, vectors = number(values, "rows"), number(values, "vectors")
        vector, place = tile.axes.vector.name, f"{self.windows.along.name}.z"
        stage = self.workload.stages[0]
        blocked = [place] if tile.axes.beside is None else [place, tile.axes.beside.name]
        taps, inner = [a.name for a in stage.reduce_axes], [*blocked, f"{vector}.o"]
        outer = [a.name for a in stage.axes if a.name not in (*blocked, vector)]
        covered = self.windows.covered(rows) * tile.beside(values)
        if covered * vectors * self._terms <= UNROLLED_LIMIT:
            inner = [*taps, *inner]
        return [
            Split(STAGE, vector, tile.axes.lanes),
            Reorder(STAGE, (*outer, *(t for t in taps if t not in inner), *inner, f"{vector}.i")),
            *(Bind(STAGE, name, LoopKind.UNROLLED) for name in inner),
            Bind(STAGE, f"{vector}.i", LoopKind.VECTOR),
        ]


def separated_phases(tile: RegisterTile) -> SeparatedPhases | None:
    """The phases where the rows of the direct form's tile are windows that overlap; else None."""
    row = tile.axes.row
    windows = None if row is None else find_windows(tile.anchor, row.name)
    return None if windows is None or tile.axes.lanes < 2 else SeparatedPhases(tile, windows)
