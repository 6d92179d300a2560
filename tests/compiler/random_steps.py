"""Random Schedules: samples of the SearchSpace, and any Steps that the primitives allow."""

from __future__ import annotations

import random
from collections.abc import Callable

from compiler.errors import ScheduleError
from compiler.loop.ir import LoopKind
from compiler.schedule.primitives import apply_step
from compiler.schedule.schedule import Schedule
from compiler.schedule.state import ScheduledStage, State, initial_state
from compiler.schedule.steps import Bind, ComputeAt, Fuse, Pack, Reorder, Reverse, Split, Step
from compiler.workload.ir import Workload

MOST_UNROLLED = 256
"""Copies of a body; more only make the test slow."""


def random_steps(workload: Workload, rng: random.Random, tries: int = 12) -> Schedule:
    """A Schedule of Steps that are drawn blindly; those that the primitives refuse are left out."""
    state, steps = initial_state(workload), []
    for _ in range(tries):
        step = rng.choice(_DRAWS)(state, rng)
        if step is None:
            continue
        try:
            state = apply_step(state, step)
        except ScheduleError:
            continue
        steps.append(step)
    return Schedule(tuple(steps))


def _stage(state: State, rng: random.Random) -> ScheduledStage:
    return rng.choice([s for s in state.stages if s.loops] or list(state.stages))


def _split(state: State, rng: random.Random) -> Step | None:
    stage = _stage(state, rng)
    if not stage.loops:
        return None
    return Split(stage.stage.name, rng.choice(stage.loops).name, rng.choice((1, 2, 3, 4, 5, 8, 16)))


def _fuse(state: State, rng: random.Random) -> Step | None:
    stage = _stage(state, rng)
    if len(stage.loops) < 2:
        return None
    at = rng.randrange(len(stage.loops) - 1)
    return Fuse(stage.stage.name, stage.loops[at].name, stage.loops[at + 1].name)


def _reorder(state: State, rng: random.Random) -> Step | None:
    stage = _stage(state, rng)
    count = rng.randint(0, len(stage.loops))
    return Reorder(stage.stage.name, tuple(loop.name for loop in rng.sample(stage.loops, count)))


def _bind(state: State, rng: random.Random) -> Step | None:
    stage = _stage(state, rng)
    if not stage.loops:
        return None
    kind = rng.choice((LoopKind.PARALLEL, LoopKind.VECTOR, LoopKind.UNROLLED))
    place = {LoopKind.PARALLEL: 0, LoopKind.VECTOR: -1}.get(kind, rng.randrange(len(stage.loops)))
    loop = stage.loops[place]
    copies = loop.extent.limit
    for other in stage.loops:
        copies *= other.extent.limit if other.kind is LoopKind.UNROLLED else 1
    if kind is LoopKind.UNROLLED and copies > MOST_UNROLLED:
        return None
    return Bind(stage.stage.name, loop.name, kind)


def _compute_at(state: State, rng: random.Random) -> Step | None:
    if len(state.stages) < 2:
        return None
    stage, consumer = rng.sample(state.stages, 2)
    if not consumer.loops:
        return None
    return ComputeAt(stage.stage.name, consumer.stage.name, rng.choice(consumer.loops).name)


def _pack(state: State, rng: random.Random) -> Step | None:
    constants = [o.name for o in state.workload.operands if o.constant]
    return Pack(rng.choice(state.stages).stage.name, rng.choice(constants)) if constants else None


def _reverse(state: State, rng: random.Random) -> Step | None:
    stage = _stage(state, rng)
    return Reverse(stage.stage.name, rng.choice(stage.loops).name) if stage.loops else None


_DRAWS: tuple[Callable[[State, random.Random], Step | None], ...] = (
    _split,
    _split,
    _split,
    _fuse,
    _reorder,
    _reorder,
    _bind,
    _bind,
    _bind,
    _compute_at,
    _compute_at,
    _pack,
    _reverse,
)
