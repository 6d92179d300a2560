"""What surrounds a register tile where an algorithm needs several phases."""

from __future__ import annotations

from typing import Protocol

from compiler.loop.ir import LoopKind
from compiler.schedule.apart import apart
from compiler.schedule.padded import padded
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Reorder, Split, Step
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Value, number
from compiler.space.vector_map import map_steps
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

ROW_TILES = 4
"""Tiles of rows that share a block."""


class Phases(Protocol):
    """The Workload that an algorithm makes, and the Steps of the phases before and after the register tile's."""

    workload: Workload

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The reduction that the register tile computes, and the map that stores it."""
        ...

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """Steps of all phases, the register tile's among them."""
        ...


class CopyPhases:
    """What the reduction reads is copied first, with a border of zeros."""

    def __init__(self, algorithm: Algorithm, workload: Workload, target: Target, threads: int) -> None:
        """`workload`: as the algorithm makes it, the copy its first stage."""
        self.algorithm, self.workload = algorithm, workload
        self._copy = map_steps(workload, workload.stages[0], target, threads)

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The reduction over the copy, and the map after it."""
        return self.workload.stages[1], self.workload.stages[2]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The copy, a vector map, then the tile."""
        return [self.algorithm, *self._copy, *tile.steps(values)]


def padded_phases(workload: Workload, target: Target, threads: int) -> CopyPhases:
    """A border of zeros around what is read (compiler/schedule/padded.py)."""
    return CopyPhases(Algorithm("padded", ()), padded(workload, ()), target, threads)


class ApartPhases:
    """The reduction is stored block by block, and then read by its map (compiler/schedule/apart.py).

    A block is small enough for the first cache: all rows of it, as wide as the tile, of each place that the map reads.
    """

    def __init__(self, workload: Workload, threads: int) -> None:
        """Rewrite the Workload."""
        self.algorithm = Algorithm("apart", (0,))
        self.workload = apart(workload, self.algorithm.parameters)
        self._threads = threads

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The reduction, and the stage that stores it."""
        return self.workload.stages[0], self.workload.stages[1]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The map in blocks, and the tile inside each."""
        store, last = tile.store.name, self.workload.stages[-1]
        vector, lanes = tile.axes.vector.name, tile.axes.lanes
        steps: list[Step] = [
            self.algorithm,
            Split(last.name, vector, number(values, "vectors") * lanes),
            Split(last.name, f"{vector}.i", lanes),
        ]
        outer, inner = [f"{vector}.o"], [f"{vector}.i.o", f"{vector}.i.i"]
        row = next((a for a in last.axes if a == tile.axes.row), None)
        if row is not None:
            block = min(ROW_TILES * number(values, "rows"), row.size)
            steps.append(Split(last.name, row.name, block))
            outer, inner = [*outer, f"{row.name}.o"], [f"{row.name}.i", *inner]
        outer[1:1] = [a.name for a in last.axes if a.name != vector and a != row]
        steps += [Reorder(last.name, (*outer, *inner)), ComputeAt(store, last.name, outer[-1])]
        steps += tile.steps(values)
        steps += share(last.name, outer if self._threads > 1 else outer[:1])
        unrolled = inner[-2]
        return [
            *steps,
            Bind(last.name, unrolled, LoopKind.UNROLLED),
            Bind(last.name, inner[-1], LoopKind.VECTOR),
        ]
