"""Features of candidates: what their Schedules make of the loops around the Workload's anchor, as numbers with names.

Sizes and counts enter as log2(x + 1), ratios against a cache as log2. The tile is the block of vector and unrolled
loops at the very inside; levels 1 to LEVELS are the loops around it, inside out, those of one iteration left out.

    work_*      the Workload: operations, points, bytes, intensity; the same for all candidates of a Task
    machine_*   the Target per thread
    tile_*      vector length, accumulators, loads per multiplication, register pressure, unrolled body
    level<n>_*  trips, which kind of loop, which buffers it moves, bytes that its body touches, against each cache
    parallel_*  iterations per thread and how evenly they are shared
    nest_*      waste of ragged tiles, packing, where the anchor is attached, products per lane and machine instruction

docs/features.md says what each means. Candidates whose Schedules differ in factors only are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from compiler.errors import ScheduleError
from compiler.instruction import INSTRUCTIONS
from compiler.schedule.primitives import apply_step, replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.state import State
from compiler.schedule.steps import Algorithm, Inline, Step
from compiler.target import Target
from compiler.workload.ir import Stage, Workload, stage_loads
from tuner.candidate import Candidate
from tuner.cost_model.concrete import concrete_nest
from tuner.cost_model.form import Form, anchor_after, form_of
from tuner.cost_model.nest import Access, Array, Nests, joined
from tuner.cost_model.parametric import Tracks, Unfollowed, parametric_nests
from tuner.cost_model.path import path_steps
from tuner.task import Task

LEVELS = 6
_CLASSES = ("input", "constant", "output")
_CACHES = ("l1", "l2", "l3")
_WORK = (
    "operations", "points", "outputs", "reductions", "input_bytes", "constant_bytes", "output_bytes", "intensity",
    "stages", "body_operations", "epilogue_operations", "reads",
)  # fmt: skip
_MACHINE = ("threads", "lanes", "registers", "l1", "l2", "l3")
_TILE = (
    "vector", "vector_waste", "rows", "vectors", "reduction", "accumulators", "loads_per_step",
    "loads_per_multiplication", "pressure", "spill", "body", "input_stride", "constant_stride", "output_stride",
)  # fmt: skip
_LEVEL = (
    "trips", "reduces", *(f"moves_{c}" for c in _CLASSES), *(f"{c}_bytes" for c in _CLASSES),
    *(f"over_{c}" for c in _CACHES), "reuse",
)  # fmt: skip
_PARALLEL = ("extent", "per_thread", "balance")
_NEST = ("waste", "packed", "attached_at", "region", "loops", "materialised", "products")

FEATURE_NAMES: tuple[str, ...] = (
    *(f"work_{n}" for n in _WORK),
    *(f"machine_{n}" for n in _MACHINE),
    *(f"tile_{n}" for n in _TILE),
    *(f"level{i}_{n}" for i in range(1, LEVELS + 1) for n in _LEVEL),
    *(f"parallel_{n}" for n in _PARALLEL),
    *(f"nest_{n}" for n in _NEST),
)
"""One name per column."""


Places = NDArray[np.intp]


@dataclass(frozen=True)
class _Shared:
    """What all candidates of a Workload with the same rewrite share. `start`: the state before their other Steps."""

    start: State
    tracks: Tracks
    anchor: Stage
    values: tuple[float, ...]


@dataclass
class _Members:
    """The candidates of one form: their places, the Steps of the first (`path_steps`), the factors of each."""

    shared: _Shared
    steps: tuple[Step, ...]
    aside: int
    places: list[int] = field(default_factory=list)
    factors: list[list[int]] = field(default_factory=list)


class NestFeatures:
    """A FeatureExtractor; keeps what the candidates of a Workload share."""

    def __init__(self) -> None:
        self._shared: dict[tuple[str, tuple[Step, ...]], _Shared] = {}

    def __call__(self, task: Task, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Shape (n_candidates, len(FEATURE_NAMES)); a row of NaN where the Steps of the anchor are illegal."""
        rows = np.full((len(candidates), len(FEATURE_NAMES)), np.nan)
        forms: dict[Form, _Members] = {}
        for place, candidate in enumerate(candidates):
            rewrites, others = _parts(candidate.schedule.steps)
            try:
                shared = self._shared_of(task.workload, rewrites)
            except ScheduleError:
                continue
            steps, aside = path_steps(anchor_after(shared.anchor.name, others), others, shared.tracks.readers)
            form, factors = form_of(steps)
            members = forms.setdefault((rewrites, aside, form), _Members(shared, steps, aside))
            members.places.append(place)
            members.factors.append(factors)
        alike: dict[tuple[object, ...], tuple[_Shared, list[int], list[Nests]]] = {}
        for members in forms.values():
            whole = [candidates[place].schedule.steps for place in members.places]
            for own, nests in _nests(members, whole):
                key = (id(members.shared), nests.form)
                found = alike.setdefault(key, (members.shared, [], []))
                found[1].extend(own)
                found[2].append(nests)
        for shared, places, parts in alike.values():
            rows[places] = _rows(task, shared, joined(parts))
        return rows

    def _shared_of(self, workload: Workload, rewrites: tuple[Step, ...]) -> _Shared:
        key = (workload.digest, rewrites)
        if key not in self._shared:
            start = replay(workload, Schedule(rewrites))
            anchor = start.workload.anchor
            self._shared[key] = _Shared(start, Tracks(start), anchor, _work(start.workload, anchor))
        return self._shared[key]


def _nests(members: _Members, steps: Sequence[tuple[Step, ...]]) -> list[tuple[list[int], Nests]]:
    """The members of a form with their Nests; one by one, less illegal ones, where its Steps cannot be followed."""
    shared, factors = members.shared, np.array(members.factors, dtype=np.float64)
    try:
        nests = parametric_nests(shared.tracks, shared.anchor.name, members.steps, factors, members.aside)
    except (ScheduleError, Unfollowed):
        alone = [([place], _concrete(shared, own)) for place, own in zip(members.places, steps, strict=True)]
        return [(place, nests) for place, nests in alone if nests is not None]
    return [(members.places, nests)]


def _concrete(shared: _Shared, steps: tuple[Step, ...]) -> Nests | None:
    """By applying the Steps; None where one is illegal."""
    _, others = _parts(steps)
    try:
        state = shared.start
        for step in others:
            state = apply_step(state, step)
    except ScheduleError:
        return None
    return concrete_nest(state, anchor_after(shared.anchor.name, others))


def _parts(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """The Steps that rewrite the Workload, and those that follow."""
    rewrites = tuple(takewhile(lambda step: isinstance(step, Algorithm | Inline), steps))
    return rewrites, steps[len(rewrites) :]


def _rows(task: Task, shared: _Shared, nests: Nests) -> Array:
    """Shape (n, len(FEATURE_NAMES))."""
    n = len(nests.limits)
    same = (*shared.values, *_machine(task.target, task.threads))
    start = _tile_start(nests)
    return np.hstack(
        [
            np.broadcast_to(np.array(same), (n, len(same))),
            _tile(nests, start, task.target, shared.anchor),
            _levels(nests, start, task.target, task.threads),
            _parallel(nests, task.threads),
            _nest(nests, shared.anchor),
        ]
    )


def _work(workload: Workload, anchor: Stage) -> tuple[float, ...]:
    inputs = sum(o.size_bytes for o in workload.operands if not o.constant)
    constants = sum(o.size_bytes for o in workload.operands if o.constant)
    outputs = sum(o.size_bytes for o in workload.outputs)
    moved = inputs + constants + outputs
    return (
        _log(workload.operations),
        _log(anchor.points),
        _log(math.prod(a.size for a in anchor.axes)),
        _log(math.prod(a.size for a in anchor.reduce_axes)),
        _log(inputs),
        _log(constants),
        _log(outputs),
        math.log2((workload.operations + 1) / (moved + 1)),
        float(len(workload.stages)),
        anchor.operations / anchor.points,
        _log(workload.operations - anchor.operations),
        float(len(stage_loads(anchor))),
    )


def _machine(target: Target, threads: int) -> tuple[float, ...]:
    return (
        float(threads),
        float(target.lanes(4)),
        float(target.vector_registers),
        *(_log(size) for size in _caches(target, threads)),
    )


def _tile(nests: Nests, start: Places, target: Target, anchor: Stage) -> Array:
    places = np.arange(nests.limits.shape[1])
    inside = places >= start[:, None]
    spatial = inside & ~nests.reduces & ~nests.vector
    vector = _product(nests.limits, inside & nests.vector)
    depth = _product(nests.limits, inside & nests.reduces)
    lanes = target.lanes(anchor.dtype.size_bytes)
    along = _product(nests.limits, spatial & nests.along_last()) if len(places) else np.ones(len(start))
    rows = _product(nests.limits, spatial) / along
    vectors = along * np.ceil(vector / lanes)
    accumulators = rows * vectors
    reads = [access for access in nests.accesses if access.kind != "output"]
    loads = np.array([_loads(nests, read, start, vector, lanes) for read in reads]).reshape(len(reads), -1)
    total = loads.sum(axis=0) if reads else np.zeros(len(start))
    largest = loads.max(axis=0) if reads else np.zeros(len(start))
    pressure = accumulators + largest / depth + 1
    return np.column_stack(
        [
            vector,
            np.ceil(vector / lanes) * lanes / vector,
            rows,
            vectors,
            depth,
            accumulators,
            np.log2(total + 1),
            total / (accumulators * depth),
            pressure / target.vector_registers,
            np.maximum(0.0, pressure - target.vector_registers),
            np.log2(accumulators * depth + 1),
            *(_last_stride(nests, kind) for kind in _CLASSES),
        ]
    )


def _loads(nests: Nests, read: Access, start: Places, vector: Array, lanes: int) -> Array:
    """Load instructions of one tile: whole vectors where the vector loop moves the read by one element."""
    elements = _at(nests.elements(read), start)
    if not nests.limits.shape[1]:
        return elements
    contiguous = (vector > 1) & (nests.strides(read)[:, -1] == 1.0)
    return np.where(contiguous, np.ceil(elements / lanes), elements)


def _last_stride(nests: Nests, kind: str) -> Array:
    """Largest step, of any access of that kind, between iterations of the innermost loop: 0, 1, or 2 for more."""
    found = np.zeros(len(nests.limits))
    if nests.limits.shape[1]:
        for access in nests.accesses:
            if access.kind == kind:
                found = np.maximum(found, nests.strides(access)[:, -1])
    return np.minimum(2.0, found)


def _levels(nests: Nests, start: Places, target: Target, threads: int) -> Array:
    n, loops = nests.limits.shape
    touched = {kind: np.zeros((n, loops + 1)) for kind in _CLASSES}
    moved = {kind: np.zeros((n, loops)) for kind in _CLASSES}
    for access in nests.accesses:
        touched[access.kind] = touched[access.kind] + nests.line_bytes(access)
        moved[access.kind] = np.maximum(moved[access.kind], nests.strides(access))
    total = sum(touched.values(), np.zeros((n, loops + 1)))
    trips = np.ones((n, loops + 1))
    trips[:, :-1] = np.cumprod(nests.limits[:, ::-1], axis=1)[:, ::-1]
    values = np.stack(
        [
            np.log2(nests.limits + 1),
            nests.reduces.astype(np.float64),
            *((moved[kind] > 0).astype(np.float64) for kind in _CLASSES),
            *(np.log2(touched[kind][:, :-1] + 1) for kind in _CLASSES),
            *(np.log2((total[:, :-1] + 1) / size) for size in _caches(target, threads)),
            np.log2((trips[:, :-1] + 1) / (total[:, :-1] + 1)),
        ],
        axis=2,
    )
    counted = (np.arange(loops) < start[:, None]) & (nests.limits > 1)
    level = np.cumsum(counted[:, ::-1], axis=1)[:, ::-1] - 1
    found = np.zeros((n, LEVELS, len(_LEVEL)))
    which, loop = np.nonzero(counted & (level < LEVELS))
    found[which, level[which, loop]] = values[which, loop]
    return found.reshape(n, -1)


def _parallel(nests: Nests, threads: int) -> Array:
    first = nests.parallel & (np.cumsum(nests.parallel, axis=1) == 1)
    extent = _product(nests.limits, first)
    share = np.ceil(extent / threads)
    return np.column_stack([np.log2(extent + 1), np.log2(extent / threads + 1), extent / (share * threads)])


def _nest(nests: Nests, anchor: Stage) -> Array:
    n = len(nests.limits)
    packed, products = (
        np.full(n, value) for value in (float(len(nests.packed)), _products(nests.instruction))
    )
    waste = np.log2(nests.limits.prod(axis=1) / anchor.points)
    return np.column_stack(
        [
            waste,
            packed,
            nests.outer_loops,
            np.log2(nests.region + 1),
            nests.loops,
            nests.materialised,
            products,
        ]
    )


def _products(instruction: str) -> float:
    """Products that one machine instruction adds to a lane: 1 without an instruction that adds several."""
    if not instruction:
        return 1.0
    entry = INSTRUCTIONS[instruction]
    return entry.group / len(entry.template)


def _tile_start(nests: Nests) -> Places:
    """Where the innermost run of vector, unrolled and one-iteration loops begins, shape (n,)."""
    n, loops = nests.limits.shape
    ends = ~(nests.vector | nests.unrolled) & (nests.limits > 1)
    after_last = loops - np.argmax(ends[:, ::-1], axis=1) if loops else np.zeros(n, dtype=np.intp)
    return np.where(ends.any(axis=1), after_last, 0)


def _product(values: Array, chosen: NDArray[np.bool_]) -> Array:
    """Product of the chosen values of each row, 1 where none is."""
    return np.asarray(np.where(chosen, values, 1.0).prod(axis=1))


def _at(values: Array, column: Places) -> Array:
    """One value of each row."""
    return np.asarray(np.broadcast_to(values, (len(column), values.shape[1]))[np.arange(len(column)), column])


def _caches(target: Target, threads: int) -> tuple[int, int, int]:
    """Bytes of cache per thread; the last level is shared."""
    return target.l1_bytes, target.l2_bytes, max(1, target.l3_bytes // threads)


def _log(value: float) -> float:
    return math.log2(value + 1)
