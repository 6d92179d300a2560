"""Fuse: two nested loops become one."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import Extent, LoopKind
from compiler.schedule.state import Loop, Part, ScheduledStage, State
from compiler.schedule.steps import Fuse


def fuse(state: State, step: Fuse) -> State:
    """`for a in 0..n: for b in 0..m` → `for a*b in 0..n*m: let a = a*b // m, b = a*b % m`.

    Legal on two serial loops, one directly inside the other, both spatial or both of the reduction. Their extents may
    depend on symbols, but on no loop.
    """
    stage = state.stage(step.stage)
    outer, inner = stage.loop(step.outer), stage.loop(step.inner)
    _check(stage.position(step.inner) - stage.position(step.outer), outer, inner)
    for word, loop in (("outer", outer), ("inner", inner)):
        if loop.extent.bound is not None and not state.is_open(loop.extent):
            msg = f"cannot fuse {step.outer} and {step.inner}: the {word} extent depends on a loop"
            raise ScheduleError(msg)
    name, m = f"{outer.name}*{inner.name}", inner.extent.whole
    fused = Loop(name, _times(outer.extent, inner.extent), outer.reduces)
    loops = tuple(fused if loop is outer else loop for loop in stage.loops if loop is not inner)
    renamed = tuple(replace(p, of=name) if p.of in (outer.name, inner.name) else p for p in stage.lets)
    parts = (
        Part(outer.name, Index.of(name) // m, outer.extent.limit, name, outer.extent.bound),
        Part(inner.name, Index.of(name) % m, inner.extent.limit, name, inner.extent.bound),
    )
    fused_state = state.with_stage(replace(stage, loops=loops, lets=(*parts, *renamed)))
    return replace(fused_state, stages=tuple(_moved(s, step, name) for s in fused_state.stages))


def _times(outer: Extent, inner: Extent) -> Extent:
    constant = outer.bound is None and inner.bound is None
    return Extent(outer.limit * inner.limit, None if constant else outer.whole.times(inner.whole))


def _moved(guest: ScheduledStage, step: Fuse, name: str) -> ScheduledStage:
    """A stage that is computed inside the inner loop is computed inside the fused one."""
    at = guest.attachment
    if at is None or at.consumer != step.stage or at.loop not in (step.outer, step.inner):
        return guest
    if at.loop == step.outer:
        msg = f"cannot fuse {step.outer} and {step.inner}: {guest.stage.name} is computed between them"
        raise ScheduleError(msg)
    return replace(guest, attachment=replace(at, loop=name))


def _check(distance: int, outer: Loop, inner: Loop) -> None:
    what = f"cannot fuse {outer.name} and {inner.name}:"
    if distance != 1:
        msg = f"{what} the second must stand directly inside the first; reorder them"
        raise ScheduleError(msg)
    if outer.reduces != inner.reduces:
        msg = f"{what} one reduces and the other does not"
        raise ScheduleError(msg)
    if outer.kind is not LoopKind.SERIAL or inner.kind is not LoopKind.SERIAL:
        msg = f"{what} both must be serial; fuse before binding"
        raise ScheduleError(msg)
