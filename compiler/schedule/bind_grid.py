"""Where loops of a grid may stand: blocks outside, their threads directly inside them."""

from __future__ import annotations

from compiler.errors import ScheduleError
from compiler.loop.ir import MAX_GRID_DIMENSIONS, LoopKind
from compiler.schedule.state import ScheduledStage, State
from compiler.schedule.steps import Bind


def check_grid(state: State, stage: ScheduledStage, step: Bind) -> None:
    """Raise ScheduleError where the kind is block or thread and the loop cannot be that.

    Block: the outermost loops of a stage that is not attached. Thread: directly inside block loops and other thread
    loops, of a stage that is not attached, or is computed at a block loop. At most three of either kind.
    """
    if step.kind not in (LoopKind.BLOCK, LoopKind.THREAD):
        return
    around = {loop.kind for loop in stage.loops[: stage.position(step.loop)]}
    what = f"cannot make {step.loop} {step.kind.value}:"
    if not around <= {LoopKind.BLOCK, step.kind}:
        msg = f"{what} a loop of another kind stands around it; reorder the loops"
        raise ScheduleError(msg)
    if sum(loop.kind is step.kind for loop in stage.loops) == MAX_GRID_DIMENSIONS:
        msg = f"{what} a grid has {MAX_GRID_DIMENSIONS} dimensions; fuse loops before"
        raise ScheduleError(msg)
    at = stage.attachment
    if at is None:
        return
    if step.kind is LoopKind.BLOCK or state.stage(at.consumer).loop(at.loop).kind is not LoopKind.BLOCK:
        msg = f"{what} its stage is computed at {at.loop} of {at.consumer}; only threads of a block loop can share that"
        raise ScheduleError(msg)
