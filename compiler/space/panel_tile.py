"""A register tile over panels: activations are copied into the order in which vectors read them (schedule/panels.py).

All of them first, or those of a block of columns right before its tiles read them, so that they stay in a near cache:

    for blocks of columns (parallel):
        the block's panels, as deep as the sum
        for tiles of rows: registers, the map, stored
"""

from __future__ import annotations

from math import prod

from compiler.loop.ir import LoopKind
from compiler.schedule.panels import panels
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Reorder, Step
from compiler.space.default_tile import default_values
from compiler.space.matrix_default import FIRST, INSIDE, MADE
from compiler.space.register_tile import RegisterTile
from compiler.space.space import Knob, Value, number
from compiler.space.vector_map import map_steps
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

BLOCKS_PER_THREAD = 4
"""Blocks of columns that threads share evenly enough."""


class PanelTile(RegisterTile):
    """A tile whose vectors are those of panels."""

    def knobs(self) -> tuple[Knob, ...]:
        """Those of a register tile, and where the panels are made."""
        return (*super().knobs(), Knob(MADE, (FIRST, INSIDE)))

    def legal(self, values: dict[str, Value]) -> bool:
        """Panels are made inside where one block of columns follows the other."""
        in_blocks = values["order"] == "outside" and number(values, "parallel", 1) == 1
        return super().legal(values) and (in_blocks or values[MADE] == FIRST)

    def usual(self) -> dict[str, Value]:
        """Values that are good without measuring: made inside where the second cache holds a block and its sums."""
        values = default_values(self)
        columns = number(values, "vectors") * self.axes.lanes
        copied = self.workload.stages[0]
        kept = prod(a.size for a in copied.axes if a.name in {axis.name for axis in self.anchor.axes})
        block = columns * kept * prod(a.size for a in self.anchor.reduce_axes) * copied.dtype.size_bytes
        enough = self.threads == 1 or columns * self.threads * BLOCKS_PER_THREAD <= self.axes.vector.size
        if block > self.target.l2_bytes // 2 or not enough:
            return {**values, MADE: FIRST}
        return {**values, "order": "outside", "parallel": 1, MADE: INSIDE}


class PanelPhases:
    """The rewritten Workload, and the Steps of the copy."""

    def __init__(self, workload: Workload, along: str, lanes: int, target: Target, threads: int) -> None:
        """Panels of `lanes` elements along an axis of the reduction."""
        place = [a.name for a in workload.stages[0].axes].index(along)
        self.algorithm = Algorithm("panels", (0, place, lanes))
        self.workload = panels(workload, self.algorithm.parameters)
        self._target, self._threads = target, threads

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The reduction over the panels, and the map after it."""
        return self.workload.stages[1], self.workload.stages[2]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The copy, before the tile or inside its loop over columns."""
        copied = self.workload.stages[0]
        if values.get(MADE) != INSIDE:
            return [
                self.algorithm,
                *map_steps(self.workload, copied, self._target, self._threads),
                *tile.steps(values),
            ]
        return [self.algorithm, *tile.steps(values), *self._inside(copied, tile)]

    def _inside(self, copied: Stage, tile: RegisterTile) -> list[Step]:
        """Places of all panels of a block that lie side by side are read together."""
        *others, lane = [a.name for a in copied.axes]
        number_of = f"{tile.axes.vector.name}.p"
        return [
            ComputeAt(copied.name, tile.store.name, f"{tile.axes.vector.name}.o"),
            Reorder(copied.name, (*(n for n in others if n != number_of), number_of, lane)),
            Bind(copied.name, number_of, LoopKind.UNROLLED),
            Bind(copied.name, lane, LoopKind.VECTOR),
        ]
