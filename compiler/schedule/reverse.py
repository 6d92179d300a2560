"""Reverse: a loop goes backwards."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import LoopKind
from compiler.schedule.state import State, qualified
from compiler.schedule.steps import Reverse


def reverse(state: State, step: Reverse) -> State:
    """`for i in 0..n: y[i] = x[i]` → `for i in 0..n: y[n-1 - i] = x[n-1 - i]`.

    Where one loop has gone through more than a cache holds and the next one goes through the same again, what was last
    is still near: it comes first so. Loop reversal, M. Wolfe, Optimizing Supercompilers for Supercomputers, 1989.

    Legal on a serial loop that always has as many iterations, on which neither another loop's extent nor the region of
    a stage depends. Sums may be taken in any order within the error that the Task allows; iterations that look up where
    they are stored stay in their order.
    """
    stage = state.stage(step.stage)
    loop = stage.loop(step.loop)
    if loop.kind is not LoopKind.SERIAL or loop.extent.bound is not None:
        msg = f"cannot reverse {step.loop}: it is not a serial loop that always has as many iterations"
        raise ScheduleError(msg)
    if stage.stage.adds:
        msg = f"cannot reverse {step.loop}: its iterations may come to one place"
        raise ScheduleError(msg)
    inside = qualified(step.stage, step.loop)
    bounds = [other.extent.bound for other in stage.loops]
    regions = [index for s in state.stages if s.attachment is not None for index in s.attachment.origin]
    if any(bound is not None and loop.name in bound.names() for bound in bounds) or any(
        inside in index.names() for index in regions
    ):
        msg = f"cannot reverse {step.loop}: what is inside of it depends on its number; reverse before ComputeAt"
        raise ScheduleError(msg)
    value = {loop.name: Index.of(loop.extent.limit - 1) - loop.name}
    lets = tuple(replace(part, value=part.value.substitute(value)) for part in stage.lets)
    return state.with_stage(replace(stage, bindings=stage.rebind(value), lets=lets))
