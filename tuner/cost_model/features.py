"""Features of a candidate: what its Schedule makes of the loops around the Workload's anchor, as numbers with names.

Sizes and counts enter as log2(x + 1), ratios against a cache as log2. The tile is the block of vector and unrolled
loops at the very inside; levels 1 to LEVELS are the loops around it, inside out, those of one iteration left out.

    work_*      the Workload: operations, points, bytes, intensity; the same for all candidates of a Task
    machine_*   the Target per thread
    tile_*      vector length, accumulators, loads per multiplication, register pressure, unrolled body
    level<n>_*  trips, which kind of loop, which buffers it moves, bytes that its body touches, against each cache
    parallel_*  iterations per thread and how evenly they are shared
    nest_*      waste of ragged tiles, packing, where the anchor is attached, products per lane and machine instruction
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import LoopKind
from compiler.schedule.primitives import apply_step, replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.state import ScheduledStage, State
from compiler.schedule.steps import Algorithm, Step
from compiler.target import Target
from compiler.workload.ir import Stage, Workload, stage_loads
from tuner.candidate import Candidate
from tuner.cost_model.nest import Access, NestView, PathLoop, accesses, view
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


@dataclass(frozen=True)
class _Shared:
    """What all candidates of a Workload with the same rewrite share. `start`: the state before their other Steps."""

    start: State
    anchor: Stage
    accesses: tuple[Access, ...]
    values: tuple[float, ...]


class NestFeatures:
    """A FeatureExtractor; keeps what the candidates of a Workload share."""

    def __init__(self) -> None:
        self._shared: dict[tuple[str, tuple[Step, ...]], _Shared] = {}

    def __call__(self, task: Task, candidate: Candidate) -> NDArray[np.float64]:
        """Shape (len(FEATURE_NAMES),); raises ScheduleError where the Schedule is illegal."""
        steps = candidate.schedule.steps
        rewrites = tuple(takewhile(lambda step: isinstance(step, Algorithm), steps))
        shared = self._shared_of(task.workload, rewrites)
        state = shared.start
        for step in steps[len(rewrites) :]:
            state = apply_step(state, step)
        anchor = state.stage(shared.anchor.name)
        # Partial results give a stage an axis more than the Workload knows.
        same = anchor.stage is shared.anchor
        found = shared.accesses if same else accesses(state.workload, anchor.stage)
        nest = view(state, anchor)
        values = (
            *shared.values,
            *_machine(task.target, task.threads),
            *_tile(nest, found, task.target, anchor.stage),
            *_levels(nest, found, task.target, task.threads),
            *_parallel(nest, task.threads),
            *_nest(nest, state, anchor.stage),
        )
        return np.array(values, dtype=np.float64)

    def _shared_of(self, workload: Workload, rewrites: tuple[Step, ...]) -> _Shared:
        key = (workload.digest, rewrites)
        if key not in self._shared:
            start = replay(workload, Schedule(rewrites))
            anchor = start.workload.anchor
            found = accesses(start.workload, anchor)
            self._shared[key] = _Shared(start, anchor, found, _work(start.workload, anchor))
        return self._shared[key]


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


def _tile(nest: NestView, reads: Sequence[Access], target: Target, anchor: Stage) -> tuple[float, ...]:
    start = _tile_start(nest)
    inside = nest.loops[start:]
    vector = math.prod(loop.limit for loop in inside if loop.kind is LoopKind.VECTOR)
    depth = math.prod(loop.limit for loop in inside if loop.reduces)
    lanes = target.lanes(anchor.dtype.size_bytes)
    along = math.prod(
        loop.limit for i, loop in _spatial(nest, start) if nest.same_axis(i, len(nest.loops) - 1)
    )
    rows = math.prod(loop.limit for _, loop in _spatial(nest, start)) // along
    vectors = along * math.ceil(vector / lanes)
    accumulators = rows * vectors
    loads = [_loads(nest, read, start, vector, lanes) for read in reads if read.kind != "output"]
    pressure = accumulators + max(loads, default=0.0) / depth + 1
    return (
        float(vector),
        math.ceil(vector / lanes) * lanes / vector,
        float(rows),
        float(vectors),
        float(depth),
        float(accumulators),
        _log(sum(loads)),
        sum(loads) / (accumulators * depth),
        pressure / target.vector_registers,
        max(0.0, pressure - target.vector_registers),
        _log(accumulators * depth),
        *(_stride(nest, reads, kind) for kind in _CLASSES),
    )


def _spatial(nest: NestView, start: int) -> list[tuple[int, PathLoop]]:
    """The tile's loops, with their places, that neither reduce nor are the vector."""
    tile = enumerate(nest.loops[start:], start)
    return [(i, loop) for i, loop in tile if not loop.reduces and loop.kind is not LoopKind.VECTOR]


def _loads(nest: NestView, read: Access, start: int, vector: int, lanes: int) -> float:
    """Load instructions of one tile: whole vectors where the vector loop moves the read by one element."""
    elements = float(nest.elements(read)[start])
    contiguous = vector > 1 and nest.stride(read, len(nest.loops) - 1) == 1.0
    return math.ceil(elements / lanes) if contiguous else elements


def _stride(nest: NestView, reads: Sequence[Access], kind: str) -> float:
    """Largest step, of any access of that kind, between iterations of the innermost loop: 0, 1, or 2 for more."""
    if not nest.loops:
        return 0.0
    steps = [nest.stride(read, len(nest.loops) - 1) for read in reads if read.kind == kind]
    return min(2.0, max(steps, default=0.0))


def _levels(nest: NestView, reads: Sequence[Access], target: Target, threads: int) -> list[float]:
    levels = [i for i in reversed(range(_tile_start(nest))) if nest.loops[i].limit > 1][:LEVELS]
    touched = {kind: _touched(nest, [r for r in reads if r.kind == kind]) for kind in _CLASSES}
    total = np.sum(list(touched.values()), axis=0)
    caches = _caches(target, threads)
    trips = np.cumprod([1.0, *(loop.limit for loop in reversed(nest.loops))])[::-1]
    values: list[float] = []
    for i in levels:
        moved = [
            max((nest.stride(r, i) for r in reads if r.kind == kind), default=0.0) > 0 for kind in _CLASSES
        ]
        values += (
            _log(nest.loops[i].limit),
            float(nest.loops[i].reduces),
            *map(float, moved),
            *(_log(touched[kind][i]) for kind in _CLASSES),
            *(math.log2((total[i] + 1) / size) for size in caches),
            math.log2((trips[i] + 1) / (total[i] + 1)),
        )
    return values + [0.0] * (len(_LEVEL) * (LEVELS - len(levels)))


def _parallel(nest: NestView, threads: int) -> tuple[float, ...]:
    extent = next((loop.limit for loop in nest.loops if loop.kind is LoopKind.PARALLEL), 1)
    share = math.ceil(extent / threads)
    return _log(extent), _log(extent / threads), extent / (share * threads)


def _nest(nest: NestView, state: State, anchor: Stage) -> tuple[float, ...]:
    stage = state.stage(anchor.name)
    covered = math.prod(loop.limit for loop in nest.loops)
    region = math.prod(stage.attachment.shape) if stage.attachment is not None else 0
    materialised = sum(s.attachment is None for s in state.stages) - 1
    return (
        math.log2(covered / anchor.points),
        float(len(nest.packed)),
        float(nest.outer_loops),
        _log(region),
        float(len(nest.loops)),
        float(materialised),
        _products(state.stage(anchor.name)),
    )


def _products(stage: ScheduledStage) -> float:
    """Products that one machine instruction adds to a lane: 1 without an instruction that adds several."""
    if stage.dot is None:
        return 1.0
    entry = INSTRUCTIONS[stage.dot[1]]
    return entry.group / len(entry.template)


def _touched(nest: NestView, same_kind: Sequence[Access]) -> NDArray[np.float64]:
    """Bytes inside loops[d:] of all accesses of a kind, shape (n_loops + 1,)."""
    total = np.zeros(len(nest.loops) + 1)
    for access in same_kind:
        total = total + nest.line_bytes(access)
    return total


def _tile_start(nest: NestView) -> int:
    """Where the innermost run of vector, unrolled and one-iteration loops begins."""
    start = len(nest.loops)
    for loop in reversed(nest.loops):
        if loop.kind not in (LoopKind.VECTOR, LoopKind.UNROLLED) and loop.limit > 1:
            break
        start -= 1
    return start


def _caches(target: Target, threads: int) -> tuple[int, int, int]:
    """Bytes of cache per thread; the last level is shared."""
    return target.l1_bytes, target.l2_bytes, max(1, target.l3_bytes // threads)


def _log(value: float) -> float:
    return math.log2(value + 1)
