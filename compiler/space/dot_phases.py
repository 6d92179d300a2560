"""Instructions that a sum of products may use, and the phase that brings its data into their form."""

from __future__ import annotations

from math import prod

from compiler.errors import ScheduleError
from compiler.instruction import INSTRUCTIONS, Instruction
from compiler.loop.ir import LoopKind
from compiler.scalar import loads
from compiler.schedule.contraction import computes, group_axis, is_direct
from compiler.schedule.copied_data import LINES, TYPES, copied_data
from compiler.schedule.packing import GROWTH_LIMIT, SLACK
from compiler.schedule.steps import Algorithm, Bind, Reorder, Split, Step
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Value
from compiler.space.structure import crossing_axis, tile_axes
from compiler.space.vector_map import map_steps
from compiler.symbol import Axis
from compiler.target import Target
from compiler.workload.ir import Stage, Workload


def instructions(
    workload: Workload, stage: Stage, target: Target, store: Stage | None = None
) -> tuple[Instruction, ...]:
    """Entries that the Target has and that compute what the stage says, the fastest first.

    `store`: the map that stores its sums; the last stage where it is None. An entry counts with the share of its
    products that are not padding, and of its rows and depth that there are.
    """
    found: list[tuple[float, Instruction]] = []
    for entry in INSTRUCTIONS.values():
        factors = computes(workload, stage, entry) if entry.runs_on(target) else None
        axis = None if factors is None else group_axis(stage, factors, entry.group)
        stored = store or workload.stages[-1]
        if axis is not None and _lanes_differ(stage, stored, workload, target, entry, axis):
            used = axis.size / entry.filled(axis.size)
            if entry.takes_matrices:
                used *= _of_matrices(workload, stage, stored, target, entry, axis)
            if used:
                found.append((entry.products_per_step * used, entry))
    fastest = sorted(found, key=lambda pair: -pair[0])
    return tuple(
        entry
        for place, (_, entry) in enumerate(fastest)
        if not any(_alike(e, entry) for _, e in fastest[:place])
    )


def _of_matrices(
    workload: Workload, stage: Stage, store: Stage, target: Target, entry: Instruction, axis: Axis
) -> float:
    """Share of full matrices that are filled; 0 where a map reads several blocks of sums, as of a recurrent cell."""
    row = tile_axes(workload, store, target, stage).row
    if row is None or {a.name for a in stage.axes} - {a.name for a in store.axes}:
        return 0.0
    depth = entry.depth_of(entry.filled(axis.size) // entry.group)
    return row.size / (-(-row.size // entry.rows) * entry.rows) * depth / entry.depth


def _matrices(workload: Workload, stage: Stage, store: Stage, target: Target, entry: Instruction) -> int:
    """Matrices of rows that the sums are in."""
    row = tile_axes(workload, store, target, stage).row
    rows = 1 if row is None else -(-row.size // entry.rows)
    return rows * prod(a.size for a in stage.axes[:-1] if row is None or a.name != row.name)


def _alike(one: Instruction, other: Instruction) -> bool:
    """Whether two add the same products of the same vectors: the faster one will do."""
    types = [(e.lanes, e.group, e.left, e.right, e.sum, e.right_limit, e.rows) for e in (one, other)]
    return types[0] == types[1]


def _lanes_differ(
    stage: Stage, store: Stage, workload: Workload, target: Target, entry: Instruction, axis: Axis
) -> bool:
    """Whether the lanes share the data and each have weights of their own, which may be packed for them and groups."""
    factors = computes(workload, stage, entry)
    if factors is None:
        return False
    vector = tile_axes(workload, store, target, stage).vector
    data = {n for load in loads(factors.data) for i in load.indices for n in i.names()}
    weights = {n for i in factors.weights.indices for n in i.names()}
    if vector.name not in weights or vector.name in data:
        return False
    sizes = {a.name: a.size for a in (*stage.axes, *stage.reduce_axes) if a.name in weights}
    sizes[vector.name] = -(-vector.size // entry.lanes) * entry.lanes
    sizes[axis.name] = entry.filled(axis.size)
    elements = workload.buffers[factors.weights.buffer].elements
    return prod(sizes.values()) <= GROWTH_LIMIT * elements + SLACK


CLEARLY_FEWER = 0.85
"""Share of the matrices below which those of all lines are taken: their sums are stored, and read by a map."""


class DotPhases:
    """The Workload as the instruction needs it, and the Steps around its register tile."""

    def __init__(self, workload: Workload, entry: Instruction, target: Target) -> None:
        """Copy the data first unless it lies in memory as the instruction reads it."""
        self.entry, self._target = entry, target
        self._copies = not self._direct(workload)
        parameters: tuple[int, ...] = (TYPES.index(entry.left), self._unit(workload))
        self.workload = copied_data(workload, parameters) if self._copies else workload
        if (
            self._copies
            and entry.takes_matrices
            and (lines := self._in_lines(workload, parameters)) is not None
        ):
            parameters, self.workload = (*parameters, LINES), lines
        self._algorithm = [Algorithm("copied_data", parameters)] if self._copies else []

    def _in_lines(self, workload: Workload, parameters: tuple[int, ...]) -> Workload | None:
        """With the windows of all lines in one matrix, where that leaves clearly fewer of its rows empty."""
        try:
            made = copied_data(workload, (*parameters, LINES))
        except ScheduleError:
            return None
        counts = [
            _matrices(w, w.stages[1], w.stages[2], self._target, self.entry) for w in (self.workload, made)
        ]
        return made if counts[1] < CLEARLY_FEWER * counts[0] else None

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The sum of products and the map that stores it."""
        first = 1 if self._copies else 0
        return self.workload.stages[first], self.workload.stages[first + 1]

    @property
    def group_axis(self) -> str:
        """The reduction axis that the instruction takes elements of side by side."""
        factors = computes(self.workload, self.product_stages[0], self.entry)
        found = None if factors is None else group_axis(self.product_stages[0], factors, self.entry.group)
        if found is None:
            msg = f"{self.entry.name} does not compute this workload"
            raise ValueError(msg)
        return found.name

    def share_data(self, vector: Axis) -> bool:
        """Whether the lanes along an axis share the data.

        Places of a copy may lie so near each other that few channels leave them the lanes.
        """
        factors = computes(self.workload, self.product_stages[0], self.entry)
        indices = [] if factors is None else [i for load in loads(factors.data) for i in load.indices]
        return all(vector.name not in i.names() for i in indices)

    def _unit(self, workload: Workload) -> int:
        """The products of a sum are filled up to a multiple of so many."""
        stage = workload.stages[0]
        factors = computes(workload, stage, self.entry)
        axis = None if factors is None else group_axis(stage, factors, self.entry.group)
        return self.entry.group if axis is None else self.entry.unit(axis.size)

    def _direct(self, workload: Workload) -> bool:
        stage, buffers = workload.stages[0], workload.buffers
        factors = computes(workload, stage, self.entry)
        axis = None if factors is None else group_axis(stage, factors, self.entry.group)
        if factors is None or axis is None or axis.size != self.entry.filled(axis.size):
            return False
        if not is_direct(factors.data, self.entry.left, lambda name: buffers[name].dtype):
            return False
        (load,) = loads(factors.data)
        return axis.name in load.indices[-1].names()

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """The copy, where there is one, the tile, and the map of sums that are stored before it."""
        steps = [*self._before(), *tile.steps(values)]
        last = self.workload.stages[-1]
        if last is not self.product_stages[1]:  # for all cores, which suits any number of threads
            steps += map_steps(self.workload, last, self._target, self._target.cores)
        return steps

    def _before(self) -> list[Step]:
        return [*self._algorithm, *copy_steps(self.workload, self._target)] if self._copies else []


def copy_steps(
    workload: Workload,
    target: Target,
    made: tuple[str, ...] = (),
    *,
    block: int = 0,
    copied: Stage | None = None,
    piece: int = 0,
) -> list[Step]:
    """The copy of `copied_data`, or another: rows shared out, the innermost dimension by whole vectors.

    `made`: axes of which every place is made of the same vector. `block`: how many rows are copied at a time, by the
    thread that reads them; 0 for all of them, shared out among threads. `piece`: elements of a line that begin
    with a vector and have a shorter last one; 0 where all of a line is cut into vectors.
    """
    stage = copied or workload.stages[0]
    axes = tile_axes(workload, stage, target)
    vector = axes.vector.name
    across = crossing_axis(workload, stage, axes)
    if block % axes.lanes:
        across = None  # its blocks would not be whole
    inside = {vector, *made}
    steps: list[Step] = []
    pieces: list[str] = []
    if piece:
        steps, pieces, vector = [Split(stage.name, vector, piece)], [f"{vector}.o"], f"{vector}.i"
    outer = [a.name if a.name != across else f"{a.name}.o" for a in stage.axes if a.name not in inside]
    inner = [*pieces, f"{vector}.o", *([f"{across}.i"] if across is not None else []), *made, f"{vector}.i"]
    steps.append(Split(stage.name, vector, axes.lanes))
    if across is not None:
        steps.append(Split(stage.name, across, axes.lanes))
    steps.append(Reorder(stage.name, (*outer, *inner)))
    if not block:
        steps += share(stage.name, outer or inner[:1])
    if across is not None:
        steps.append(Bind(stage.name, f"{across}.i", LoopKind.UNROLLED))
    unrolled = (f"{vector}.o", *made) if piece else made
    steps += [Bind(stage.name, name, LoopKind.UNROLLED) for name in unrolled]
    return [*steps, Bind(stage.name, f"{vector}.i", LoopKind.VECTOR)]


def unrolled_groups(anchor: Stage, entry: Instruction, along: str) -> int:
    """Two groups of products, each of which is an unrolled loop already, where none is left over."""
    last = anchor.reduce_axes[-1]
    groups = last.size // entry.group if last.name == along else last.size
    return 2 - groups % 2
