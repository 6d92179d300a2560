"""The Nests of one Schedule, read off the State that its Steps give: exact, and slow."""

from __future__ import annotations

import numpy as np

from compiler.index import Index
from compiler.loop.ir import LoopKind
from compiler.schedule.state import Loop, ScheduledStage, State
from compiler.symbol import product, static
from compiler.workload.ir import stage_loads
from tuner.cost_model.nest import Array, Flags, Nests, accesses

_Name = tuple[str, str]  # of a stage and of a loop in it


def concrete_nest(state: State, anchor: str) -> Nests:
    """The path to the innermost loop of the stage of that name."""
    stage = state.stage(anchor)
    limits: list[float] = []
    reduces: list[bool] = []
    kinds: list[LoopKind] = []
    places: dict[_Name, tuple[int, int]] = {}
    for owner, own_loops in _chain(state, stage):
        for loop in own_loops:
            parts = [(p.name, p.extent) for p in owner.lets if p.of == loop.name]
            for name, extent in parts or [(loop.name, loop.extent.limit)]:
                places[owner.stage.name, name] = len(limits), extent
            # What an instruction takes in is part of the tile, as an unrolled loop would be.
            taken = owner.dot is not None and owner.dot[0] == loop.name
            kinds.append(LoopKind.UNROLLED if taken else loop.kind)
            limits.append(loop.extent.limit)
            reduces.append(loop.reduces)
    axes = (*stage.stage.axes, *stage.stage.reduce_axes)
    steps = np.zeros((1, len(limits), len(axes)))
    reach = np.zeros_like(steps)
    for column, axis in enumerate(axes):
        for key, coefficient in _axis_terms(state, stage, axis.name):
            if key in places:
                row, limit = places[key]
                steps[0, row, column] += abs(coefficient)
                reach[0, row, column] += abs(coefficient) * (limit - 1)
    region = 0
    if stage.attachment is not None:
        region = static(product(Index.of(size) for size in stage.attachment.shape), stage.stage.target)
    return Nests(
        accesses=accesses(state.workload, stage.stage),
        limits=np.array([limits], dtype=np.float64).reshape(1, len(limits)),
        vector=_flags([kind is LoopKind.VECTOR for kind in kinds]),
        unrolled=_flags([kind is LoopKind.UNROLLED for kind in kinds]),
        parallel=_flags([kind is LoopKind.PARALLEL for kind in kinds]),
        reduces=_flags(reduces),
        steps=steps,
        spans=spans_of(reach, np.array([[a.size for a in axes]], dtype=np.float64)),
        packed=frozenset(stage.packed),
        loops=np.array([float(len(limits))]),
        outer_loops=np.array([float(len(limits) - len(stage.loops))]),
        region=np.array([region], dtype=np.float64),
        materialised=np.array([sum(s.attachment is None for s in state.stages) - 1.0]),
        instruction=stage.dot[1] if stage.dot is not None else "",
    )


def _flags(values: list[bool]) -> Flags:
    return np.array([values], dtype=np.bool_).reshape(1, len(values))


def spans_of(reach: Array, sizes: Array) -> Array:
    """Values of each axis inside loops[d:], shape (n, n_loops + 1, n_axes).

    `reach`: shape (n, n_loops, n_axes), by how much each loop moves it; `sizes`: shape (n or 1, n_axes).
    """
    inside = np.zeros((reach.shape[0], reach.shape[1] + 1, reach.shape[2]))
    inside[:, :-1] = np.cumsum(reach[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(np.minimum(1.0 + inside, sizes[:, None, :]))


def _chain(state: State, stage: ScheduledStage) -> list[tuple[ScheduledStage, tuple[Loop, ...]]]:
    """The stages around a stage with those of their loops that it lies in, outermost first, and the stage itself."""
    chain = [(stage, stage.loops)]
    attachment = stage.attachment
    while attachment is not None:
        consumer = state.stage(attachment.consumer)
        chain.insert(0, (consumer, consumer.loops[: consumer.position(attachment.loop) + 1]))
        attachment = consumer.attachment
    return chain


def _axis_terms(state: State, stage: ScheduledStage, axis: str) -> list[tuple[_Name, int]]:
    """An axis as a sum over loops: the stage's own, and those around it that move its region."""
    own = stage.bindings[axis]
    terms: list[tuple[_Name, int]] = [
        ((stage.stage.name, name), own.coefficient(name)) for name in sorted(own.names())
    ]
    if stage.attachment is None:
        return terms
    consumer = state.stage(stage.attachment.consumer)
    read = next((r for r in stage_loads(consumer.stage) if r.buffer == stage.stage.target), None)
    if read is None:
        return terms + _origin_terms(stage, axis)
    around = set(_defined(consumer, stage.attachment.loop))
    for stored, index in zip(stage.stage.target_indices, read.indices, strict=True):
        if stored.name == axis:
            for name in sorted(index.names()):
                moved = _axis_terms(state, consumer, name)
                terms += [
                    (n, c * index.coefficient(name))
                    for n, c in moved
                    if n in around or n[0] != consumer.stage.name
                ]
    return terms


def _origin_terms(stage: ScheduledStage, axis: str) -> list[tuple[_Name, int]]:
    """What moves the region of a stage that stands in a loop of another one than its reader."""
    terms: list[tuple[_Name, int]] = []
    if stage.attachment is not None:
        for stored, start in zip(stage.stage.target_indices, stage.attachment.origin, strict=True):
            if stored.name == axis:
                plain = [(atom, c) for atom, c in start.terms if isinstance(atom, str)]
                terms += [((str(a).split(":")[0], str(a).split(":", 1)[1]), c) for a, c in plain]
    return terms


def _defined(stage: ScheduledStage, innermost: str) -> list[_Name]:
    """Names of a stage's loops down to one of them, parts of fused loops included."""
    loops = [loop.name for loop in stage.loops[: stage.position(innermost) + 1]]
    names = loops + [part.name for part in stage.lets if part.of in loops]
    return [(stage.stage.name, name) for name in names]
