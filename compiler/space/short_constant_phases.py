"""What surrounds products with constants of three bytes: nothing. When they are worth their error."""

from __future__ import annotations

from compiler.errors import ScheduleError
from compiler.scalar import loads
from compiler.schedule.short_constants import short_constants
from compiler.schedule.steps import Algorithm, Step
from compiler.space.estimate import algorithm_cycles
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
"""Rows that a vector of constants serves at once: it is widened again for others."""


def short_constant_phases(workload: Workload, tile: RegisterTile) -> ShortConstantPhases | None:
    """None where constants are near, have the lanes in common, or are no singles. `tile`: of the direct form."""
    try:
        made = short_constants(workload, ())
    except ScheduleError:
        return None
    (name,) = made.transforms
    known = workload.buffers[name]
    (read,) = (load for load in loads(tile.anchor.body) if load.buffer == name)
    along = any(tile.axes.vector.name in index.names() for index in read.indices)
    far = known.size_bytes > tile.target.l2_bytes // 2
    if not (along and far and name in tile.packs and tile.axes.lanes > 1):
        return None
    return ShortConstantPhases(made, name, tile)


class ShortConstantPhases:
    """The rewritten Workload."""

    clearly = 0.9
    """Cycles, as a share of the direct form's, below which it is taken for faster without measuring."""

    def __init__(self, workload: Workload, name: str, direct: RegisterTile) -> None:
        """`name`: of the constant."""
        self.workload = workload
        row = direct.axes.row.size if direct.axes.row is not None else 1
        elements = workload.buffers[name].elements
        self._widened = WIDENED * elements * -(-row // SERVED) / direct.axes.lanes

    @property
    def error(self) -> float:
        """Relative to the largest output, which random data hardly ever exceed."""
        bounded = any(is_bounded(r.body) for r in self.workload.stages[-1].results)
        return ERROR * (BOUNDED_ENLARGED if bounded else 1.0)

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The sum of products, and the map that stores it."""
        return self.workload.stages[0], self.workload.stages[1]

    def cycles(self, target: Target) -> float:
        """What it takes, nearly; constants are widened while others arrive."""
        return max(algorithm_cycles(self.workload, frozenset(), target), self._widened)

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """Those of the tile."""
        return [Algorithm("short_constants", ()), *tile.steps(values)]
