"""RFactor: a reduction becomes partial results along a new axis, and a reduction of those."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Expr, Guard, Load, below, substitute
from compiler.scalar_type import neutral
from compiler.schedule.state import Loop, ScheduledStage, State, plain_stage
from compiler.schedule.steps import RFactor
from compiler.symbol import Axis
from compiler.workload.ir import Operand, Stage


def rfactor(state: State, step: RFactor) -> State:
    """`loop`, one of several loops of a reduction, becomes an axis of a new stage `stage.loop`.

        for r.o: for r.i in 0..8: t[] = t[] + x[r.o*8 + r.i]
        →  for r.i in 0..8: for r.o: p[r.i] = p[r.i] + x[r.o*8 + r.i]        stage "t.r.i": the partial results
           for r.i in 0..8: t[] = t[] + p[r.i]                               stage "t"

    Where the loops run past the end of the reduction the neutral element is taken. Legal on a reduction none of whose
    loops is bound or attached, and of whose spatial loops none has changed: split the reduction's loops, then factor.
    Partial results of one element lie side by side in memory, so that they may fill a vector; where the new axis is
    `outermost`, those of neighbouring elements do.
    The order of combination changes: every reducer is associative and commutative, floats within the Task's error.
    Both stages are plain afterwards: the loops of the first have the names that they had here.
    """
    stage = state.stage(step.stage)
    old, reducing = stage.stage, [loop for loop in stage.loops if loop.reduces]
    _check(state, stage, step)
    name, buffer = f"{old.name}.{step.loop}", f"{old.target}.{step.loop}"
    new_axis = _axis(state, stage.loop(step.loop))
    axes = (*old.axes, new_axis)
    stored = (new_axis, *old.axes) if step.outermost else axes
    place = tuple(Index.of(a.name) for a in stored)
    partial = replace(
        old,
        name=name,
        axes=axes,
        reduce_axes=tuple(_axis(state, loop) for loop in reducing if loop.name != step.loop),
        body=_body(state, stage),
        target=buffer,
        target_indices=place,
    )
    final = replace(old, reduce_axes=(new_axis,), body=Load(buffer, place))
    temporary = Operand(buffer, tuple(a.extent for a in stored), old.dtype)
    at = state.stages.index(stage)
    new = (plain_stage(stage, state.workload.symbols) for stage in (partial, final))
    stages = (*state.stages[:at], *new, *state.stages[at + 1 :])
    workload = replace(
        state.workload,
        temporaries=(*state.workload.temporaries, temporary),
        stages=tuple(s.stage for s in stages),
    )
    return State(workload, stages)


def _axis(state: State, loop: Loop) -> Axis:
    """A loop as an axis; where it is shorter at some edge of another it is as long as elsewhere."""
    return Axis(loop.name, loop.extent.whole if state.is_open(loop.extent) else Index.of(loop.extent.limit))


def _body(state: State, stage: ScheduledStage) -> Expr:
    """The body in terms of the loops; the neutral element where they run past the end of an axis."""
    old: Stage = stage.stage
    ranges = {loop.name: loop.extent.limit for loop in stage.loops}
    plain = {loop.name for loop in stage.loops}
    bounds = tuple(
        below(stage.bindings[a.name], a.extent)
        for a in old.reduce_axes
        if a.name not in plain
        and (a.extent.constant is None or stage.bindings[a.name].bounds(ranges)[1] >= a.size)
    )
    body = substitute(old.body, stage.bindings)
    if not bounds:
        return body
    return Guard(bounds, body, neutral(old.reducer or "sum", old.dtype))


def _check(state: State, stage: ScheduledStage, step: RFactor) -> None:
    what = f"cannot factor {step.loop} out of {step.stage}:"
    state.check_whole(stage.stage, "factor")
    plain = plain_stage(stage.stage, state.workload.symbols)
    if not stage.loop(step.loop).reduces:
        msg = f"{what} it does not reduce"
        raise ScheduleError(msg)
    if sum(loop.reduces for loop in stage.loops) < 2:
        msg = f"{what} nothing would be left to reduce; split it first"
        raise ScheduleError(msg)
    if stage.attachment is not None or any(
        s.attachment is not None and s.attachment.consumer == step.stage for s in state.stages
    ):
        msg = f"{what} stages are attached already; factor before ComputeAt"
        raise ScheduleError(msg)
    spatial = [loop for loop in stage.loops if not loop.reduces]
    if spatial != [loop for loop in plain.loops if not loop.reduces] or stage.lets or stage.packed:
        msg = f"{what} other steps have changed its spatial loops; factor first"
        raise ScheduleError(msg)
    if any(loop.kind is not loop.kind.SERIAL for loop in stage.loops):
        msg = f"{what} a loop is bound; factor before binding"
        raise ScheduleError(msg)
