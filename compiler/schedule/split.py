"""Split: one loop becomes two."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import Extent, LoopKind, extent
from compiler.schedule.state import ScheduledStage, State, qualified
from compiler.schedule.steps import Split
from compiler.symbol import ceiling, divides


def split(state: State, step: Split) -> State:
    """`for i in 0..n` → `for i.o in 0..ceil(n/f): for i.i in 0..min(f, n - i.o*f)`.

    Legal on a serial loop with 1 <= factor. The factor need not divide n, nor be smaller: the last
    `i.i` is then shorter. An extent over symbols gives an outer loop whose trips are counted when the kernel runs.
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
    whole = Index.of(loop.extent.limit) if loop.extent.bound is None else loop.extent.bound
    limit = loop.extent.limit if whole.constant is None else min(loop.extent.limit, whole.constant)
    trips = -(-limit // factor)
    opened = state.is_open(loop.extent)
    known = whole.constant is not None
    ragged = limit % factor != 0 if known else not (opened and divides(factor, whole))
    inner_extent = extent(factor, whole - Index.of(outer) * factor) if ragged else Extent(factor)
    if any(part.of == loop.name for part in stage.lets):
        msg = f"cannot split {step.loop}: it is fused; split its parts before fusing"
        raise ScheduleError(msg)
    new = stage.replace_loop(
        loop.name,
        replace(loop, name=outer, extent=Extent(trips, ceiling(whole, factor) if opened else None)),
        replace(loop, name=inner, extent=inner_extent),
    )
    value = {loop.name: Index.of(outer) * factor + inner}
    loops = tuple(replace(other, extent=other.extent.substitute(value)) for other in new)
    lets = tuple(replace(part, value=part.value.substitute(value)) for part in stage.lets)
    changed = state.with_stage(replace(stage, loops=loops, bindings=stage.rebind(value), lets=lets))
    return replace(changed, stages=tuple(_followed(s, step, factor) for s in changed.stages))


def _followed(guest: ScheduledStage, step: Split, factor: int) -> ScheduledStage:
    """A stage that is computed at the loop is computed at its inner part; a region inside it moves with both."""
    at = guest.attachment
    if at is None:
        return guest
    name = qualified(step.stage, step.loop)
    value = {name: Index.of(f"{name}.o") * factor + f"{name}.i"}
    loop = f"{step.loop}.i" if (at.consumer, at.loop) == (step.stage, step.loop) else at.loop
    origin = tuple(index.substitute(value) for index in at.origin)
    loops = tuple(replace(own, extent=own.extent.substitute(value)) for own in guest.loops)
    return replace(guest, loops=loops, attachment=replace(at, loop=loop, origin=origin))
