"""Inline: a map is computed where it is read, once per read, and not stored."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import ZERO, Index
from compiler.scalar import Expr, Load, rewrite, substitute
from compiler.schedule.regions import readers
from compiler.schedule.state import ScheduledStage, State, plain_stage
from compiler.schedule.steps import Inline


def inline(state: State, step: Inline) -> State:
    """`t[i] = f(x[i])`, `y[i] = g(t[i])` → `y[i] = g(f(x[i]))`; the stage and its buffer disappear.

    Legal on a map into a temporary, stored at plain axes, that no other Step has touched.
    """
    stage = state.stage(step.stage)
    _check(state, stage, step)
    old = stage.stage

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer != old.target:
            return None
        values = dict.fromkeys((a.name for a in old.axes), ZERO)  # axes of extent 1 need not be stored at
        values |= {i.name: at for i, at in zip(old.target_indices, e.indices, strict=True) if i.name}
        return substitute(old.body, values)

    stages = tuple(
        replace(s, stage=s.stage.rewritten(lambda body: rewrite(body, rule)))
        for s in state.stages
        if s is not stage
    )
    workload = replace(
        state.workload,
        temporaries=tuple(t for t in state.workload.temporaries if t.name != old.target),
        stages=tuple(s.stage for s in stages),
    )
    return State(workload, stages)


def _check(state: State, stage: ScheduledStage, step: Inline) -> None:
    what = f"cannot inline {step.stage}:"
    state.check_whole(stage.stage, "inline")
    if stage.stage.reducer is not None:
        msg = f"{what} it reduces; use ComputeAt"
        raise ScheduleError(msg)
    if not readers(state, stage.stage.target):
        msg = f"{what} its result is an output of the workload"
        raise ScheduleError(msg)
    guests = [s for s in state.stages if s.attachment is not None and s.attachment.consumer == step.stage]
    if stage != plain_stage(stage.stage, state.workload.symbols) or guests:
        msg = f"{what} other steps have changed it; inline it first"
        raise ScheduleError(msg)
    if not {Index.of(a.name) for a in stage.stage.axes if a.extent.constant != 1} <= set(
        stage.stage.target_indices
    ):
        msg = f"{what} it does not store at plain axes"
        raise ScheduleError(msg)
