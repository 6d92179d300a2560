"""ComputeAt: a stage is computed where it is used, in registers."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import Extent, extent
from compiler.schedule.state import Attachment, Loop, ScheduledStage, State, qualified
from compiler.schedule.steps import ComputeAt
from compiler.workload.ir import stage_loads


def compute_at(state: State, step: ComputeAt) -> State:
    """Nest `stage` inside `loop` of `consumer`.

        for i in 0..n: t[i] = ...                 for i.o:
        for i.o: for i.i: y[i] = f(t[i])    →       for i in 0..f: t[i] = ... (element i.o*f + i)
                                                    for i.i: y[i] = f(t[i.i])

    Legal on a stage without other Steps so far whose result only the consumer reads, at one place. The stage's loops
    then run over the region that one iteration of `loop` needs, and its buffer, of that size, lives in registers.
    """
    stage, consumer = state.stage(step.stage), state.stage(step.consumer)
    _check(state, stage, step)
    place = consumer.position(step.loop)
    reads = {load.indices for load in stage_loads(consumer.stage) if load.buffer == stage.stage.target}
    if len(reads) != 1:
        msg = f"cannot compute {step.stage} at {step.consumer}: it reads {stage.stage.target} at {len(reads)} places"
        raise ScheduleError(msg)
    indices = [i.substitute(consumer.bindings) for i in next(iter(reads))]
    inner = {loop.name: loop.extent.limit for loop in consumer.loops[place + 1 :]}
    inner |= {part.name: part.extent for part in consumer.lets if part.of in inner}
    origin = tuple(Index.sum([(a, c) for a, c in i.terms if a not in inner], i.const) for i in indices)
    shape = tuple(1 + sum(c * (inner[a] - 1) for a, c in i.terms if a in inner) for i in indices)
    start = tuple(_qualified(index, step.consumer) for index in origin)
    loops = []
    for axis in stage.stage.axes:
        if axis.size == 1:
            loops.append(Loop(axis.name, Extent(1), reduces=False))
            continue
        at = stage.stage.target_indices.index(Index.of(axis.name))
        loops.append(Loop(axis.name, _region(shape[at], axis.size, start[at]), reduces=False))
    loops += [loop for loop in stage.loops if loop.reduces]
    new = replace(stage, loops=tuple(loops), attachment=Attachment(step.consumer, step.loop, start, shape))
    return state.with_stage(new)


def _qualified(index: Index, consumer: str) -> Index:
    return index.substitute({name: Index.of(qualified(consumer, name)) for name in index.names()})


def _region(size: int, whole: int, start: Index) -> Extent:
    """The region's extent along one axis: `size`, or less where the region sticks out of the whole."""
    return Extent(size) if whole % size == 0 else extent(size, Index.of(whole) - start)


def _check(state: State, stage: ScheduledStage, step: ComputeAt) -> None:
    plain = [a.name for a in (*stage.stage.axes, *stage.stage.reduce_axes)]
    if [loop.name for loop in stage.loops] != plain or stage.attachment is not None:
        msg = f"cannot compute {step.stage} at {step.consumer}: other steps have changed it; attach it first"
        raise ScheduleError(msg)
    readers = [s for s in state.stages if any(r.buffer == stage.stage.target for r in stage_loads(s.stage))]
    temporary = stage.stage.target in {t.name for t in state.workload.temporaries}
    if not temporary or [s.stage.name for s in readers] != [step.consumer]:
        msg = f"cannot compute {step.stage} at {step.consumer}: its result is read elsewhere too"
        raise ScheduleError(msg)
    plain_axes = {Index.of(a.name) for a in stage.stage.axes if a.size > 1}
    if not plain_axes <= set(stage.stage.target_indices):
        msg = f"cannot compute {step.stage} at {step.consumer}: it does not store at plain axes"
        raise ScheduleError(msg)
    if state.stage(step.consumer).stage.reducer is not None:
        msg = f"cannot compute {step.stage} at {step.consumer}: the consumer reduces; attach to a map"
        raise ScheduleError(msg)
