"""Applying Steps: the table of primitives, and the replay of a whole Schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compiler.schedule.algorithm import algorithm
from compiler.schedule.bind import bind
from compiler.schedule.compute_at import compute_at
from compiler.schedule.fuse import fuse
from compiler.schedule.inline import inline
from compiler.schedule.pack import pack
from compiler.schedule.reorder import reorder
from compiler.schedule.reverse import reverse
from compiler.schedule.rfactor import rfactor
from compiler.schedule.schedule import Schedule
from compiler.schedule.split import split
from compiler.schedule.state import State, initial_state
from compiler.schedule.steps import (
    Algorithm,
    Bind,
    ComputeAt,
    Fuse,
    Inline,
    Pack,
    Reorder,
    Reverse,
    RFactor,
    Split,
    Step,
    Tensorize,
)
from compiler.schedule.tensorize import tensorize
from compiler.workload.ir import Workload

_PRIMITIVES: dict[type, Callable[..., State]] = {
    Algorithm: algorithm,
    Split: split,
    Fuse: fuse,
    Reorder: reorder,
    Reverse: reverse,
    Bind: bind,
    ComputeAt: compute_at,
    Inline: inline,
    Pack: pack,
    RFactor: rfactor,
    Tensorize: tensorize,
}


def apply_step(state: State, step: Step) -> State:
    """The state after one Step; raises ScheduleError where it is not legal."""
    return _PRIMITIVES[type(step)](state, step)


def replay(workload: Workload, schedule: Schedule) -> State:
    """The state after all Steps; raises ScheduleError at the first that is not legal."""
    state = initial_state(workload)
    for step in schedule.steps:
        state = apply_step(state, step)
    return state


def states(workload: Workload, schedule: Schedule) -> Iterator[tuple[Step | None, State]]:
    """The initial state, then each Step with the state after it."""
    state = initial_state(workload)
    yield None, state
    for step in schedule.steps:
        state = apply_step(state, step)
        yield step, state
