"""What surrounds products of two activations in parts: the parts of each factor, made once, in phases of their own."""

from __future__ import annotations

from compiler.dtype import DType
from compiler.instruction import INSTRUCTIONS, Instruction
from compiler.schedule.both_parts import LEFT, PLACE, RIGHT, find_factors, parts_of_both
from compiler.schedule.parts import COUNT, PAIR, PART
from compiler.schedule.steps import Algorithm, Step
from compiler.space.dot_phases import copy_steps
from compiler.space.matrix_tile import Factors, MatrixTile
from compiler.space.part_phases import error_of
from compiler.space.register_tile import RegisterTile
from compiler.space.space import Value
from compiler.space.structure import tile_axes
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

MADE, MADE_BETWEEN = 4.0, 3.0
"""Cycles for a part of a vector of an operand, and of what is in registers between two products; on a Granite Rapids
core."""


def matrices_of_parts(target: Target) -> Instruction | None:
    """The instruction that multiplies matrices of parts of floats, where the Target has one."""
    found = (e for e in INSTRUCTIONS.values() if e.takes_matrices and e.left is DType.BF16)
    return next((e for e in found if e.runs_on(target)), None)


def block_length(sums: int, entry: Instruction) -> int:
    """Products in a block of a sum: full matrices, or all of a sum that is shorter."""
    return min(entry.group * entry.depth, -(-sums // entry.group) * entry.group)


def both_part_phases(workload: Workload, target: Target) -> BothPartPhases | None:
    """None where the Target multiplies no matrices of short floats, or the Workload is no product of activations."""
    entry, (stage, store) = matrices_of_parts(target), workload.stages[:2]
    vector = tile_axes(workload, store, target, stage).vector
    if entry is None or find_factors(workload, stage, vector.name) is None:
        return None
    if {a.name for a in stage.axes} != {a.name for a in store.axes}:
        return None
    return BothPartPhases(workload, entry, vector.name, target)


class BothPartPhases:
    """The rewritten Workload, and the Steps of its first phases."""

    clearly = 0.9
    """Cycles, as a share of the direct form's, below which it is taken for faster: more than `PartPhases` has, since
    of products of two activations that form reaches less of its peak; it copies one, or finds its lines apart."""

    def __init__(self, workload: Workload, entry: Instruction, vector: str, target: Target) -> None:
        """`vector`: the axis of the lanes."""
        stage = workload.stages[0]
        number = [a.name for a in stage.axes].index(vector)
        length = block_length(stage.reduce_axes[0].size, entry)
        self._algorithm = Algorithm("parts_of_both", (0, number, entry.lanes, length, COUNT))
        self.workload = parts_of_both(workload, self._algorithm.parameters)
        self._entry, self._target = entry, target

    @property
    def error(self) -> float:
        """Relative to the largest output, which random data hardly ever exceed."""
        return error_of(self.workload)

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The sum of products, and the map that stores it."""
        *_, stage, store = self.workload.stages
        return stage, store

    def tile(self, target: Target, threads: int) -> MatrixTile:
        """Of the products."""
        near = sum(t.size_bytes for t in self.workload.temporaries[:2]) <= target.l2_bytes // 2
        factors = Factors(PAIR, near=near)
        return MatrixTile(self.workload, *self.product_stages, target, threads, (self._entry, PLACE), factors)

    def cycles(self, target: Target, threads: int) -> float:
        """What it takes, nearly."""
        stage, _ = self.product_stages
        made = sum(copy.points for copy in self._copies) / target.lanes(stage.dtype.size_bytes)
        return self.tile(target, 1).cycles + MADE * made

    @property
    def _copies(self) -> list[Stage]:
        return [s for s in self.workload.stages if s.name.startswith((LEFT, RIGHT))]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The parts of both factors, then the tile."""
        copies = [copy_steps(self.workload, self._target, (PART,), copied=s) for s in self._copies]
        return [self._algorithm, *(step for steps in copies for step in steps), *tile.steps(values)]
