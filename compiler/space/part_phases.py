"""What surrounds products of floats in two parts: both parts of the data, made once, in a phase of its own."""

from __future__ import annotations

from math import prod

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.instruction import INSTRUCTIONS, Instruction
from compiler.scalar import Apply, Cast, Const, Expr, loads
from compiler.schedule.columns import Columns
from compiler.schedule.contraction import computes, find_contraction, group_axis
from compiler.schedule.copied_data import LINES, STAGE
from compiler.schedule.parts import BLOCK, COLUMNS, COUNT, PAIR, PART, PATCHES, SUMMED, parts
from compiler.schedule.steps import Algorithm, ComputeAt, Step
from compiler.space.default_order import FAR
from compiler.space.dot_phases import copy_steps, instructions
from compiler.space.estimate import fetched
from compiler.space.matrix_tile import HANDED_OVER, Factors, MatrixTile
from compiler.space.register_tile import RegisterTile
from compiler.space.space import Value, number
from compiler.space.vector_map import map_steps
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

ERROR = 1e-5
"""Relative to the largest output, which random data hardly ever exceed."""
BOUNDED_ENLARGED = 10.0
"""How much larger it is beside the values of a bounded function of the sums: those are large beside it."""
BOUNDED = frozenset({"tanh", "sigmoid", "erf", "sin", "cos", "atan", "exp"})
"""Functions whose values do not grow with the sums as their errors do."""
FORMS = ((), (LINES,), *((form,) for form in SUMMED))
"""What follows the first parameter of the algorithm."""
UNSURE = 1.1
"""Factor for sums that are stored before their map: the estimate favours them by so much where both forms are alike."""
SHORT = 1.25
"""Factor for sums of columns: their few instructions hide less of what storing sums takes than the estimate says."""
MADE = 12.0
"""Cycles for both parts of a vector of the data, measured on a Granite Rapids core when they took more instructions;
small networks are slower where less is counted, and more products are in parts."""


def part_phases(workload: Workload, target: Target) -> PartPhases | None:
    """None where the Target multiplies no matrices of short floats, or the Workload is no sum of such products."""
    stage = workload.stages[0]
    found = find_contraction(workload, stage) if stage.dtype is DType.F32 else None
    if found is None:
        return None
    for entry in INSTRUCTIONS.values():
        if not (entry.takes_matrices and entry.left is DType.BF16 and entry.runs_on(target)):
            continue
        forms = (_form(workload, entry, form, target) for form in FORMS)
        tried = [phases for phases in forms if phases is not None]
        if tried:
            return min(tried, key=lambda phases: phases.cycles(target, 1))
    return None


def _form(workload: Workload, entry: Instruction, form: tuple[int, ...], target: Target) -> PartPhases | None:
    """None where the algorithm does not apply in that form, or the instruction to what it makes."""
    try:
        line = SUMMED[form[0]](workload) if form and form[0] in SUMMED else None
        summed = workload if line is None else line.workload
        found = find_contraction(summed, summed.stages[0])
        axis = None if found is None else group_axis(summed.stages[0], found, entry.group)
        if axis is None:
            return None
        parameters = (entry.group * entry.depth_of(entry.filled(axis.size) // entry.group), *form)
        piece = 0
        if isinstance(line, Columns):
            places = max(1, target.lanes(entry.left.size_bytes) // line.length)
            parameters, piece = (*parameters, places), places * line.length
        made = parts(workload, parameters)
    except ScheduleError:
        return None
    fits = entry in instructions(made, made.stages[1], target, made.stages[2])
    return PartPhases(made, entry, parameters, target, piece) if fits else None


class PartPhases:
    """The rewritten Workload, and the Steps of its first phase."""

    clearly = 0.85
    """Cycles, as a share of the direct form's, below which it is taken for faster without measuring: hardware threads
    of a core share its matrix unit, which then takes twice as long, and the direct form is more exact."""

    def __init__(
        self, workload: Workload, entry: Instruction, parameters: tuple[int, ...], target: Target, piece: int
    ) -> None:
        """`workload`: as the algorithm makes it with its `parameters`; `piece`: as of `copy_steps`."""
        self.workload, self._entry, self._target = workload, entry, target
        self._algorithm, self._piece = Algorithm("parts", parameters), piece

    @property
    def form(self) -> tuple[int, ...]:
        """One of FORMS."""
        return self._algorithm.parameters[1:2]

    @property
    def error(self) -> float:
        """Relative to the largest output, which random data hardly ever exceed."""
        return error_of(self.workload)

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The sum of products, and the map that stores it."""
        return self.workload.stages[1], self.workload.stages[2]

    def tile(self, target: Target, threads: int) -> MatrixTile:
        """Of the products."""
        stage, store = self.product_stages
        factors = computes(self.workload, stage, self._entry)
        axis = None if factors is None else group_axis(stage, factors, self._entry.group)
        if axis is None:
            msg = f"{self._entry.name} does not compute this workload"
            raise ValueError(msg)
        dot = self._entry, axis.name
        # Windows that overlap are left alone: tiles of more rows read fewer constants, and networks were slower.
        near = PATCHES in self.form and self.workload.temporaries[0].size_bytes <= target.l2_bytes // 2
        made = Factors(PAIR, self._row_bytes, near, BLOCK)
        return MatrixTile(self.workload, stage, store, target, threads, dot, made)

    @property
    def _row_bytes(self) -> int:
        """Of both parts of what a row reads; 0 where rows have data in common, or are on several lines."""
        if self.form:
            return 0
        copy, stage = self.workload.stages[0], self.product_stages[0]
        (read,) = (load for load in loads(stage.body) if load.buffer == copy.target)
        lead = [index.name for index in read.indices[: -len((PART, BLOCK, "place"))]]
        if set(lead) != {a.name for a in stage.axes if a.extent.constant != 1 and a is not stage.axes[-1]}:
            return 0
        return self.workload.temporaries[0].size_bytes // prod(a.size for a in stage.axes[:-1])

    def cycles(self, target: Target, threads: int) -> float:
        """What it takes, nearly."""
        stage, _ = self.product_stages
        tile = self.tile(target, 1)
        products = tile.cycles
        made = MADE * self.workload.stages[0].points / COUNT / target.lanes(stage.dtype.size_bytes)
        between = self.workload.temporaries[0].size_bytes
        far = tile.is_far if self._row_bytes else between > target.l2_bytes // 2
        again = between * FAR if far and not tile.made_at(tile.usual()) else 0.0
        constants = sum(o.size_bytes for o in self.workload.operands if o.constant)
        arrive = 0.0 if tile.waits_for_constants else fetched(constants, products, target, threads)
        whole = products + made + again + self._stored(target) + arrive
        return whole * (UNSURE if self._map is not None else SHORT if COLUMNS in self.form else 1.0)

    def _stored(self, target: Target) -> float:
        """Cycles of the map, where the sums are stored before it."""
        if self._map is None:
            return 0.0
        size = self.workload.buffers[self.product_stages[1].target].size_bytes
        far = 2 * FAR * size if size > target.l2_bytes // 2 else 0.0
        return HANDED_OVER * self._map.points / target.lanes(self._map.dtype.size_bytes) + far

    @property
    def _map(self) -> Stage | None:
        """What reads sums that are stored."""
        return self.workload.stages[3] if len(self.workload.stages) > 3 else None

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The parts of the data, then the tile; or the tile, and the parts of a block of its rows inside."""
        at = tile.made_at(values) if isinstance(tile, MatrixTile) else ""
        made = copy_steps(
            self.workload,
            self._target,
            (PART,),
            block=number(values, "rows") if at else 0,
            piece=self._piece,
        )
        if not at:
            return [self._algorithm, *made, *tile.steps(values), *self._after()]
        placed = ComputeAt(STAGE, tile.store.name, at)
        return [self._algorithm, *tile.steps(values), placed, *made, *self._after()]

    def _after(self) -> list[Step]:
        """The map of sums that are stored; for all cores, which suits any number of threads."""
        return (
            [] if self._map is None else map_steps(self.workload, self._map, self._target, self._target.cores)
        )


def error_of(workload: Workload) -> float:
    """Of sums of products of two parts and the map that stores them, relative to the largest output."""
    return ERROR * (BOUNDED_ENLARGED if any(is_bounded(r.body) for r in workload.stages[-1].results) else 1.0)


def is_bounded(expr: Expr) -> bool:
    """Whether values stay small however large the sums are: all that they are made of are constants and functions."""
    match expr:
        case Apply(op, _) if op in BOUNDED:
            return True
        case Apply(_, args):
            return all(map(is_bounded, args))
        case Cast(inner, _):
            return is_bounded(inner)
        case _:
            return isinstance(expr, Const)
