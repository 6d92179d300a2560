"""Features of candidates: what their Schedules make of the loops around the Workload's anchor, as numbers with names.

Sizes and counts enter as log2(x + 1), ratios against a cache as log2. The tile is the block of vector and unrolled
loops at the very inside; levels 1 to LEVELS are the loops around it, inside out, those of one iteration left out.

    work_*      the Workload: operations, points, bytes, intensity; the same for all candidates of a Task
    machine_*   the Target per thread
    tile_*      vector length, accumulators, loads per multiplication, register pressure, unrolled body
    level<n>_*  trips, which kind of loop, which buffers it moves, bytes that its body touches, against each cache
    parallel_*  iterations per thread and how evenly they are shared
    nest_*      waste of ragged tiles, packing, where the anchor is attached, products per lane and machine instruction
    cost_*      predicted cycles of all products (tuner/cost_model/cost.py) and where they go, over the least possible

docs/features.md says what each means. Candidates whose Schedules differ in factors only are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from compiler.target import Target
from compiler.workload.ir import Stage, Workload, stage_loads
from tuner.candidate import Candidate
from tuner.cost_model.cost import (
    CYCLES,
    Cycles,
    caches,
    least_cycles,
    other_cycles,
    product_cycles,
    product_work,
    products,
    rates_for,
)
from tuner.cost_model.heavy import Heavy, HeavyNests
from tuner.cost_model.nest import Array, Nests
from tuner.cost_model.tile import Places, Tile, product_of, tile_of
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
    "loads_per_multiplication", "lanes_loaded", "conflict", "pressure", "spill", "body", "input_stride",
    "constant_stride", "output_stride", "rows_tiles", "rows_last", "vectors_tiles", "vectors_last", "reduction_last",
)  # fmt: skip
_LEVEL = (
    "trips", "reduces", *(f"moves_{c}" for c in _CLASSES), *(f"{c}_bytes" for c in _CLASSES),
    *(f"over_{c}" for c in _CACHES), "reuse",
)  # fmt: skip
_PARALLEL = ("extent", "per_thread", "balance")
_NEST = ("waste", "packed", "attached_at", "region", "loops", "materialised", "products")
_COST = (*CYCLES, "compute", "memory", "all")

FEATURE_NAMES: tuple[str, ...] = (
    *(f"work_{n}" for n in _WORK),
    *(f"machine_{n}" for n in _MACHINE),
    *(f"tile_{n}" for n in _TILE),
    *(f"level{i}_{n}" for i in range(1, LEVELS + 1) for n in _LEVEL),
    *(f"parallel_{n}" for n in _PARALLEL),
    *(f"nest_{n}" for n in _NEST),
    *(f"cost_{n}" for n in _COST),
)
"""One name per column."""

_LEAST_SHARE = 0.01
"""Added to costs, which may be nothing."""


class NestFeatures:
    """A FeatureExtractor; keeps what the candidates of a Workload share."""

    def __init__(self) -> None:
        self._heavy = HeavyNests()

    def __call__(self, task: Task, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Shape (n_candidates, len(FEATURE_NAMES)); a row of NaN where the Steps of the anchor are illegal."""
        rows = np.full((len(candidates), len(FEATURE_NAMES)), np.nan)
        cycles, rates = Cycles.none(len(candidates)), rates_for(task.target)
        for heavy in self._heavy(task, candidates):
            tile = tile_of(heavy.nests, task.target, heavy.stage)
            work = product_work(heavy.nests, tile, task.target, task.threads, heavy.stage)
            cycles.add(heavy.places, product_cycles(work, rates))
            if heavy.is_anchor:
                operations = np.full(len(heavy.places), float(heavy.shared.other_operations))
                cycles.add(heavy.places, other_cycles(operations, task.target, rates))
                rows[heavy.places, : -len(_COST)] = _rows(task, heavy, tile)
        each = [getattr(cycles, name) for name in CYCLES]
        costs = np.column_stack([*each, cycles.compute, cycles.memory, cycles.total(rates)])
        costs = np.log2(costs / least_cycles(task.workload.anchor, task.target) + _LEAST_SHARE)
        rows[:, -len(_COST) :] = np.where(np.isnan(rows[:, :1]), np.nan, costs)
        return rows


def _rows(task: Task, anchor: Heavy, tile: Tile) -> Array:
    """All but the costs, of the anchor's nests."""
    n, nests = len(anchor.places), anchor.nests
    same = (*_work(anchor.shared.start.workload, anchor.stage), *_machine(task.target, task.threads))
    return np.hstack(
        [
            np.broadcast_to(np.array(same), (n, len(same))),
            _tile(nests, tile, task.target, anchor.stage),
            _levels(nests, tile.start, task.target, task.threads),
            _parallel(nests, task.threads),
            _nest(nests, anchor.stage),
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
        *(_log(size) for size in caches(target, threads)),
    )


def _tile(nests: Nests, tile: Tile, target: Target, anchor: Stage) -> Array:
    lanes = target.lanes(anchor.dtype.size_bytes)
    accumulators, registers = tile.accumulators, target.vector_registers
    return np.column_stack(
        [
            tile.vector,
            np.ceil(tile.vector / lanes) * lanes / tile.vector,
            tile.rows,
            tile.vectors,
            tile.reduction,
            accumulators,
            np.log2(tile.loads + 1),
            tile.loads / (accumulators * tile.reduction),
            tile.lanes_loaded / np.maximum(tile.loads, 1.0),
            tile.conflict,
            tile.alive / registers,
            np.maximum(0.0, tile.alive - registers),
            np.log2(accumulators * tile.reduction + 1),
            *(_last_stride(nests, kind) for kind in _CLASSES),
            *_ends(nests, tile),
        ]
    )


def _ends(nests: Nests, tile: Tile) -> tuple[Array, ...]:
    """Tiles across and along the vectors, and how much of a whole one the last is; of the reduction, the latter.

    All tiles but the last are whole: its share tells what loads and latencies it has for nothing.
    """
    if not nests.limits.shape[1]:
        return tuple(np.ones((5, len(nests.limits))))
    inner, sizes = nests.spans[np.arange(len(tile.start)), tile.start], nests.spans[:, 0]
    tiles = np.ceil(sizes / inner)
    last = sizes / inner - tiles + 1.0
    reduces = ((nests.steps > 0) & nests.reduces[:, :, None]).any(axis=1)
    along = (nests.steps[:, -1] > 0) & ~reduces
    rows = ~along & ~reduces & (inner > 1)
    return (
        np.log2(product_of(tiles, rows)),
        product_of(last, rows),
        np.log2(product_of(tiles, along)),
        product_of(last, along),
        product_of(last, np.asarray(reduces)),
    )


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
            *(np.log2((total[:, :-1] + 1) / size) for size in caches(target, threads)),
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
    extent = product_of(nests.limits, first)
    share = np.ceil(extent / threads)
    return np.column_stack([np.log2(extent + 1), np.log2(extent / threads + 1), extent / (share * threads)])


def _nest(nests: Nests, anchor: Stage) -> Array:
    n = len(nests.limits)
    waste = np.log2(nests.limits.prod(axis=1) / anchor.points)
    return np.column_stack(
        [
            waste,
            np.full(n, float(len(nests.packed))),
            nests.outer_loops,
            np.log2(nests.region + 1),
            nests.loops,
            nests.materialised,
            np.full(n, products(nests.instruction)),
        ]
    )


def _log(value: float) -> float:
    return math.log2(value + 1)
