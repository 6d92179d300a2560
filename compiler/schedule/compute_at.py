"""ComputeAt: a stage is computed where it is used, in memory of the thread's own."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import Extent, LoopKind
from compiler.schedule.regions import needed_region, region_extent
from compiler.schedule.state import Attachment, Loop, ScheduledStage, State
from compiler.schedule.steps import ComputeAt


def compute_at(state: State, step: ComputeAt) -> State:
    """Nest `stage` inside `loop` of `consumer`, before the rest of the loop's body.

        for i in 0..n: t[i] = ...                 for i.o:
        for i.o: for i.i: y[i] = f(t[i])    →       for i in 0..f: t[i] = ... (element i.o*f + i)
                                                    for i.i: y[i] = f(t[i.i])

    Legal on a stage that no Step but RFactor has changed, to which no other is attached, and whose result is read only
    inside that loop: by the consumer, or by stages that are attached there already (so attach readers first). Several
    reads share the smallest box that holds them all. The consumer may be attached itself, and may reduce: what is
    attached to a reduction is computed where it combines. The stage's loops then run over the region that one iteration
    of `loop` needs, and its buffer, of that size, is local to the thread (compiler/loop/promote.py keeps it in
    registers where it can).
    """
    stage, consumer = state.stage(step.stage), state.stage(step.consumer)
    _check(state, stage, consumer, step)
    target = stage.stage.target
    region = needed_region(state, target, step.consumer, step.loop)
    shape = state.workload.buffers[target].shape
    loops = []
    for axis in stage.stage.axes:
        if axis.extent.constant == 1:
            loops.append(Loop(axis.name, Extent(1), reduces=False))
            continue
        at = stage.stage.target_indices.index(Index.of(axis.name))
        extent = region_extent(state, region.shape[at], shape[at], region.origin[at])
        loops.append(Loop(axis.name, extent, reduces=False))
    loops += [loop for loop in stage.loops if loop.reduces]
    attachment = Attachment(step.consumer, step.loop, region.origin, region.shape)
    return state.with_stage(replace(stage, loops=tuple(loops), attachment=attachment))


def _check(state: State, stage: ScheduledStage, consumer: ScheduledStage, step: ComputeAt) -> None:
    what = f"cannot compute {step.stage} at {step.consumer}:"
    state.check_whole(stage.stage, "attach")
    plain = [a.name for a in (*stage.stage.axes, *stage.stage.reduce_axes)]
    bound = any(loop.kind is not LoopKind.SERIAL for loop in stage.loops)
    if [loop.name for loop in stage.loops] != plain or bound or stage.attachment is not None:
        msg = f"{what} other steps have changed it; attach it first"
        raise ScheduleError(msg)
    held = [
        s.stage.name for s in state.stages if s.attachment is not None and s.attachment.consumer == step.stage
    ]
    if held:
        msg = (
            f"{what} {held[0]} is computed at a loop of it, whose place would move; attach {step.stage} first"
        )
        raise ScheduleError(msg)
    if step.stage == step.consumer:
        msg = f"{what} a stage cannot be computed inside itself"
        raise ScheduleError(msg)
    if stage.stage.target not in {t.name for t in state.workload.temporaries}:
        msg = f"{what} its result is read elsewhere too, as an output of the workload"
        raise ScheduleError(msg)
    plain_axes = {Index.of(a.name) for a in stage.stage.axes if a.extent.constant != 1}
    if not plain_axes <= set(stage.stage.target_indices):
        msg = f"{what} it does not store at plain axes"
        raise ScheduleError(msg)
    for loop in consumer.loops[: consumer.position(step.loop) + 1]:
        if loop.kind is LoopKind.VECTOR:
            msg = f"{what} {loop.name} is a vector; attach to a loop around it"
            raise ScheduleError(msg)
