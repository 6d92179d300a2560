"""What surrounds products with constants of three bytes: nothing. When they are worth their error."""

from __future__ import annotations

from math import prod

from compiler.errors import ScheduleError
from compiler.scalar import loads
from compiler.schedule.short_constants import short_constants
from compiler.schedule.steps import Algorithm, Step
from compiler.space.default_order import FAR
from compiler.space.estimate import arithmetic_cycles, left_of
from compiler.space.part_phases import BOUNDED_ENLARGED, is_bounded
from compiler.space.register_tile import RegisterTile
from compiler.space.space import Value
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

ERROR = 8e-6
"""Relative to the largest output, which random data hardly ever exceed."""
WIDENED = 2.0
"""Cycles to make a vector of singles of what is stored."""
SERVED = 8
"""Results that a vector of constants serves at once: it is widened again for others."""


def short_constant_phases(workload: Workload, tile: RegisterTile) -> ShortConstantPhases | None:
    """None where constants are near, have the lanes in common, or are no singles. `tile`: of the direct form."""
    try:
        made = short_constants(workload, ())
    except ScheduleError:
        return None
    (name,) = made.transforms
    (read,) = (load for load in loads(tile.anchor.body) if load.buffer == name)
    moves = {moved for index in read.indices for moved in index.names()}
    far = workload.buffers[name].size_bytes > tile.target.l2_bytes // 2
    if not (far and tile.axes.vector.name in moves and name in tile.packs and tile.axes.lanes > 1):
        return None
    served = prod(a.size for a in tile.anchor.axes if a.name not in moves)
    return ShortConstantPhases(made, name, served, tile.axes.lanes)


class ShortConstantPhases:
    """The rewritten Workload."""

    clearly = 0.9
    """Cycles, as a share of the direct form's, below which it is taken for faster without measuring."""

    def __init__(self, workload: Workload, name: str, served: int, lanes: int) -> None:
        """`name`: of the constant; `served`: results that each of its elements is multiplied for."""
        self.workload = workload
        constant = workload.buffers[name]
        self._bytes = constant.size_bytes
        self._widened = WIDENED * constant.elements * -(-served // SERVED) / lanes

    @property
    def error(self) -> float:
        """Relative to the largest output, which random data hardly ever exceed."""
        bounded = any(is_bounded(r.body) for r in self.workload.stages[-1].results)
        return ERROR * (BOUNDED_ENLARGED if bounded else 1.0)

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The sum of products, and the map that stores it."""
        return self.workload.stages[0], self.workload.stages[1]

    def cycles(self, target: Target, threads: int) -> float:
        """What it takes, nearly: what arrives while others are widened and multiplied is waited for in part."""
        busy = arithmetic_cycles(self.workload, target) + self._widened
        return busy + left_of(self._bytes / (target.memory_rate(threads) or 1 / FAR), busy)

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """Those of the tile."""
        return [Algorithm("short_constants", ()), *tile.steps(values)]
