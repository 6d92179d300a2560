"""Reorder: loops change places."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import Extent, LoopKind, extent
from compiler.schedule.state import Loop, ScheduledStage, State
from compiler.schedule.steps import Reorder
from compiler.symbol import ceiling


def reorder(state: State, step: Reorder) -> State:
    """`for a: for b: for c`, loops=(c, a) → `for c: for b: for a`; loops that are not named stay where they are.

    The inner part of a split loop may get around the outer one, before other stages are computed in the loops. Where
    the last part is shorter, it is the outer loop that then ends earlier, for the last places of a part:

    `for i.o in 0..ceil(n/f): for i.i in 0..min(f, n - i.o*f)` → `for i.i in 0..f: for i.o in 0..ceil((n - i.i)/f)`

    Legal where no loop ends up outside a loop that its extent depends on, a parallel loop stays outermost and no vector
    gets around another stage. Any order of a reduction is legal: sums may be taken in any order within the error that
    the Task allows.
    """
    stage = state.stage(step.stage)
    named = [stage.loop(name) for name in step.loops]
    if len(set(step.loops)) != len(step.loops):
        msg = f"cannot reorder {', '.join(step.loops)}: a loop is named twice"
        raise ScheduleError(msg)
    successors = iter(named)
    chosen = set(step.loops)
    loops = tuple(next(successors) if loop.name in chosen else loop for loop in stage.loops)
    alone = all(s.attachment is None or s.attachment.consumer != step.stage for s in state.stages)
    new = replace(stage, loops=_interchanged(loops) if alone else loops)
    check_order(new)
    _check_guests(state, new)
    return state.with_stage(new)


def _interchanged(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """The loops with the ends of inner parts that got around their outer ones at those."""
    found = list(loops)
    for place, inner in enumerate(loops):
        bound = inner.extent.bound
        if bound is None or not inner.name.endswith(".i"):
            continue
        outer = f"{inner.name.removesuffix('.i')}.o"
        at = next((p for p, loop in enumerate(loops) if p > place and loop.name == outer), None)
        if at is None or not bound.is_linear() or (factor := -bound.coefficient(outer)) != inner.extent.limit:
            continue
        found[place] = replace(inner, extent=Extent(factor))
        left = ceiling(bound + Index.of(outer) * factor - inner.name, factor)
        found[at] = replace(loops[at], extent=extent(loops[at].extent.limit, left))
    return tuple(found)


def _check_guests(state: State, stage: ScheduledStage) -> None:
    """Raise ScheduleError where another stage would be computed inside a vector, once per lane."""
    for guest in state.stages:
        if guest.attachment is None or guest.attachment.consumer != stage.stage.name:
            continue
        for loop in stage.loops[: stage.position(guest.attachment.loop)]:
            if loop.kind is LoopKind.VECTOR:
                msg = f"{guest.stage.name} would be computed inside the vector {loop.name}; keep the vector innermost"
                raise ScheduleError(msg)


def check_order(stage: ScheduledStage) -> None:
    """Raise ScheduleError where a loop stands outside one that its extent depends on, or around a parallel one.

    Also where two vector loops are not the innermost ones, or reduce: they make one vector, of which nothing is summed.
    """
    vectors = [place for place, loop in enumerate(stage.loops) if loop.kind is LoopKind.VECTOR]
    if len(vectors) > 1:
        last = len(stage.loops) - 1
        if vectors != [last - 1, last] or any(stage.loops[place].reduces for place in vectors):
            names = " and ".join(stage.loops[place].name for place in vectors)
            msg = f"vector loops {names} make no vector: they must be the innermost two, and not reduce; reorder first"
            raise ScheduleError(msg)
    own = {loop.name: place for place, loop in enumerate(stage.loops)}
    part_of = {part.name: part.of for part in stage.lets}
    for place, loop in enumerate(stage.loops):
        if loop.kind is LoopKind.PARALLEL and place:
            msg = f"loop {loop.name} is parallel and must stay outermost; reorder before binding"
            raise ScheduleError(msg)
        bound = loop.extent.bound
        for name in () if bound is None else bound.names():
            defined = own.get(part_of.get(name, name), -1)
            if defined >= place:
                msg = f"loop {loop.name} must stand inside {name}, which its extent depends on"
                raise ScheduleError(msg)
