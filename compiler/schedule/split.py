"""Split: one loop becomes two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import is_

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import Extent, LoopKind, extent
from compiler.schedule.state import Loop, ScheduledStage, State, qualified
from compiler.schedule.steps import Split
from compiler.symbol import ceiling, divides


def split(state: State, step: Split) -> State:
    """`for i in 0..n` → `for i.o in 0..ceil(n/f): for i.i in 0..min(f, n - i.o*f)`.

    Legal on a serial loop with 1 <= factor. The factor need not divide n, nor be smaller: the last
    `i.i` is then shorter. An extent over symbols gives an outer loop whose trips are counted when the kernel runs. Only
    where a loop is shorter at some edge of another must the factor divide its usual length.
    """
    stage = state.stage(step.stage)
    loop = stage.loop(step.loop)
    if loop.kind is not LoopKind.SERIAL:
        msg = f"cannot split {step.loop}: it is {loop.kind.value}; split before binding"
        raise ScheduleError(msg)
    if step.factor < 1:
        msg = f"cannot split {step.loop} by {step.factor}; a factor is at least 1"
        raise ScheduleError(msg)
    factor = step.factor
    outer, inner = f"{loop.name}.o", f"{loop.name}.i"
    outer_extent, inner_extent = _parts(loop, outer, factor, opened=state.is_open(loop.extent))
    if any(part.of == loop.name for part in stage.lets):
        msg = f"cannot split {step.loop}: it is fused; split its parts before fusing"
        raise ScheduleError(msg)
    new = stage.replace_loop(
        loop.name,
        replace(loop, name=outer, extent=outer_extent),
        replace(loop, name=inner, extent=inner_extent),
    )
    value = {loop.name: Index.of(outer) * factor + inner}
    loops = tuple(_moved(other, value) for other in new)
    lets = tuple(replace(part, value=part.value.substitute(value)) for part in stage.lets)
    changed = state.with_stage(replace(stage, loops=loops, bindings=stage.rebind(value), lets=lets))
    return State(changed.workload, tuple(_followed(s, step, factor) for s in changed.stages))


def _parts(loop: Loop, outer: str, factor: int, *, opened: bool) -> tuple[Extent, Extent]:
    """Extents of both loops. Where the loop is shorter at some edge, so is the number of parts there."""
    size, bound = loop.extent.limit, loop.extent.bound
    if bound is not None and bound.constant is not None:
        size, bound = max(0, min(size, bound.const)), None
    trips, done = -(-size // factor), Index.of(outer) * factor
    if bound is None:
        return Extent(trips), Extent(factor) if size % factor == 0 else extent(factor, Index.of(size) - done)
    if not opened and size % factor:
        msg = (
            f"cannot split {loop.name} by {factor}: it has {loop.extent} iterations; use a divisor of {size}"
        )
        raise ScheduleError(msg)
    inner = Extent(factor) if divides(factor, bound) else extent(factor, bound - done)
    return extent(trips, ceiling(bound, factor)), inner


def _moved(loop: Loop, value: Mapping[str, Index]) -> Loop:
    moved = loop.extent.substitute(value)
    return loop if moved is loop.extent else replace(loop, extent=moved)


def _followed(guest: ScheduledStage, step: Split, factor: int) -> ScheduledStage:
    """A stage that is computed at the loop is computed at its inner part; a region inside it moves with both."""
    at = guest.attachment
    if at is None:
        return guest
    name = qualified(step.stage, step.loop)
    value = {name: Index.of(f"{name}.o") * factor + f"{name}.i"}
    loop = f"{step.loop}.i" if (at.consumer, at.loop) == (step.stage, step.loop) else at.loop
    origin = tuple(index.substitute(value) for index in at.origin)
    loops = tuple(_moved(own, value) for own in guest.loops)
    if loop is at.loop and all(map(is_, (*origin, *loops), (*at.origin, *guest.loops))):
        return guest
    return replace(guest, loops=loops, attachment=replace(at, loop=loop, origin=origin))
