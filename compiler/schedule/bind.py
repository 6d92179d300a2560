"""Bind: how a loop is carried out."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.loop.ir import LoopKind
from compiler.loop.settle import MOST_REMAINDERS, remainders
from compiler.schedule.bind_grid import check_grid
from compiler.schedule.reorder import check_order
from compiler.schedule.state import Loop, ScheduledStage, State
from compiler.schedule.steps import Bind

_SPATIAL = (LoopKind.PARALLEL, LoopKind.PIPELINED, LoopKind.BLOCK, LoopKind.THREAD)


def bind(state: State, step: Bind) -> State:
    """`for i` → `parallel i`, `vector i`, `unrolled i`, `pipelined i`, `block i` or `thread i`.

    Legal on a serial loop: parallel on the outermost, spatial, of a stage that is not attached; vector on the
    innermost (where it reduces, the lanes are combined into the one result after each vector), or on a spatial one
    around a spatial vector, with which it makes one vector; unrolled on any with at most 64 iterations; pipelined on
    spatial ones of stages that stand beside each other (compiler/loop/software_pipeline.py says where they do not go
    together); block and thread as `check_grid` says. Iterations that look up where they are stored stay in their order.
    Which kinds a Target carries out is the code generator's to say.
    """
    stage = state.stage(step.stage)
    loop = stage.loop(step.loop)
    if loop.kind is not LoopKind.SERIAL:
        msg = f"cannot bind {step.loop}: it is already {loop.kind.value}"
        raise ScheduleError(msg)
    if state.is_open(loop.extent) and step.kind is not LoopKind.PARALLEL:
        msg = f"cannot make {step.loop} {step.kind.value}: its extent is only known at run time; split it"
        raise ScheduleError(msg)
    _check(stage, step)
    check_grid(state, stage, step)
    guests = [s.stage.name for s in state.stages if _at(s) == (step.stage, step.loop)]
    if guests and step.kind is LoopKind.VECTOR:
        msg = f"cannot make {step.loop} vector: {guests[0]} is computed inside it"
        raise ScheduleError(msg)
    _check_remainders(state, stage, loop, step)
    bound = replace(stage, loops=stage.replace_loop(loop.name, replace(loop, kind=step.kind)))
    check_order(bound)
    return state.with_stage(bound)


def _at(guest: ScheduledStage) -> tuple[str, str] | None:
    return None if guest.attachment is None else (guest.attachment.consumer, guest.attachment.loop)


def _check_remainders(state: State, stage: ScheduledStage, loop: Loop, step: Bind) -> None:
    """Each length that the last tile of a symbolic extent may have becomes code of its own (compiler.loop.settle)."""
    symbols = {symbol.name for symbol in state.workload.symbols}
    bound = loop.extent.bound
    if bound is None or not bound.names() & symbols:
        return
    around_vector = any(
        inner.kind is LoopKind.VECTOR for inner in stage.loops[stage.position(loop.name) + 1 :]
    )
    if step.kind is not LoopKind.UNROLLED and not (step.kind is LoopKind.VECTOR and around_vector):
        return
    lengths = remainders(loop.extent.limit, bound)
    if len(lengths) > MOST_REMAINDERS:
        what = f"cannot make {step.loop} {step.kind.value}"
        msg = f"{what}: its last tile may have {len(lengths)} lengths; use smaller tiles"
        raise ScheduleError(msg)


def _check(stage: ScheduledStage, step: Bind) -> None:
    loop, place = stage.loop(step.loop), stage.position(step.loop)
    what = f"cannot make {step.loop} {step.kind.value}:"
    if loop.reduces and step.kind in _SPATIAL:
        msg = f"{what} it reduces; factor it out first"
        raise ScheduleError(msg)
    if step.kind is LoopKind.PARALLEL and (place != 0 or stage.attachment is not None):
        msg = f"{what} only the outermost loop of a stage that stands alone may be parallel"
        raise ScheduleError(msg)
    inside = stage.loops[place + 1 :]
    if step.kind is LoopKind.VECTOR and inside:
        if len(inside) > 1 or inside[0].kind is not LoopKind.VECTOR:
            msg = f"{what} only the innermost loop may be a vector, or the one around a vector"
            raise ScheduleError(msg)
        if loop.reduces or inside[0].reduces:
            msg = f"{what} lanes of two loops cannot be summed up"
            raise ScheduleError(msg)
    if stage.stage.adds and (loop.reduces or step.kind is LoopKind.PIPELINED):
        msg = f"{what} its iterations may come to one place"
        raise ScheduleError(msg)
    if step.kind is LoopKind.UNROLLED and loop.extent.limit > 64:
        msg = f"{what} {loop.extent.limit} copies of its body are too many; split it to 64 or fewer"
        raise ScheduleError(msg)
    if step.kind is LoopKind.VECTOR and loop.extent.limit & (loop.extent.limit - 1):
        msg = f"{what} its length {loop.extent.limit} is no power of two; split it"
        raise ScheduleError(msg)
