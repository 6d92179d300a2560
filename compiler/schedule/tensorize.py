"""Tensorize: the innermost loops of a sum of products become one instruction."""

from __future__ import annotations

from dataclasses import replace

from compiler.errors import ScheduleError
from compiler.instruction import INSTRUCTIONS, Instruction
from compiler.loop.ir import Extent, LoopKind
from compiler.matrix_order import are_held, heights_of
from compiler.scalar import Apply, Cast, Expr, Load
from compiler.schedule.both_parts import factors_of
from compiler.schedule.contraction import computes, is_direct
from compiler.schedule.state import ScheduledStage, State
from compiler.schedule.steps import Tensorize
from compiler.target import MATRIX_REGISTERS


def tensorize(state: State, step: Tensorize) -> State:
    """`for k.i in 0..4: for n vector: t[n] = t[n] + x[k.i] * w[n, k.i]` → `for n vector: t[n] = vpdpbusd(t, x, w)`.

    Legal on a stage that sums products of a constant and of data of the instruction's own type that is the same for
    all lanes; `loop` reduces, has as many iterations as the instruction's group and stands directly outside the vector
    loop, which has as many lanes as the instruction. The constant must be packed as well. An instruction on matrices
    takes the unrolled loops over groups, rows and vectors around that loop as well.
    """
    stage = state.stage(step.stage)
    entry = INSTRUCTIONS.get(step.instruction)
    if entry is None:
        msg = f"unknown instruction {step.instruction!r}; use one of {', '.join(sorted(INSTRUCTIONS))}"
        raise ScheduleError(msg)
    _check_loops(stage, step, entry)
    _check_operands(state, stage, step, entry)
    return state.with_stage(replace(stage, dot=(step.loop, step.instruction)))


def dot_operands(body: Expr, data: str) -> tuple[Load, Load]:
    """The loads of the data and of the weights of a product, casts left out."""
    match body:
        case Apply("mul", (first, second)):
            plain = [e.value if isinstance(e, Cast) else e for e in (first, second)]
            left, right = plain if getattr(plain[0], "buffer", None) == data else plain[::-1]
            if isinstance(left, Load) and isinstance(right, Load):
                return left, right
        case _:
            pass
    msg = f"{body} is no product of two elements"
    raise ScheduleError(msg)


def _check_loops(stage: ScheduledStage, step: Tensorize, entry: Instruction) -> None:
    what = f"cannot use {entry.name} for {step.loop}:"
    loop, vector = stage.loop(step.loop), stage.loops[-1]
    if vector.kind is not LoopKind.VECTOR or vector.extent.limit != entry.lanes:
        msg = f"{what} the innermost loop must be a vector of {entry.lanes} lanes"
        raise ScheduleError(msg)
    if stage.position(loop.name) != len(stage.loops) - 2 or loop.kind is not LoopKind.SERIAL:
        msg = f"{what} it must stand directly outside the vector loop, unbound"
        raise ScheduleError(msg)
    if not loop.reduces or loop.extent != Extent(entry.group):
        msg = f"{what} it must reduce over {entry.group} elements, its extent is {loop.extent}"
        raise ScheduleError(msg)
    if entry.takes_matrices:
        _check_matrix(stage, what, entry)


def _check_matrix(stage: ScheduledStage, what: str, entry: Instruction) -> None:
    """Unrolled loops over groups, rows and vectors stand outside the group, for all of which registers are used."""
    around = stage.loops[-5:-2]
    unrolled = len(around) == len(("groups", "rows", "vectors"))
    if not unrolled or any(loop.kind is not LoopKind.UNROLLED for loop in around):
        msg = f"{what} unrolled loops over groups, rows and vectors must stand around it"
        raise ScheduleError(msg)
    groups, rows, vectors = around
    if not groups.reduces or groups.extent.limit > entry.depth or rows.reduces or vectors.reduces:
        msg = f"{what} of the loops around it only the outer one reduces, over at most {entry.depth} groups"
        raise ScheduleError(msg)
    heights, wide = heights_of(rows.extent.limit, entry.rows), vectors.extent.limit
    if not are_held(heights, wide):
        msg = f"{what} {len(heights)} x {wide} matrices and their operands are more than {MATRIX_REGISTERS} registers"
        raise ScheduleError(msg)


def _check_operands(state: State, stage: ScheduledStage, step: Tensorize, entry: Instruction) -> None:
    what = f"cannot use {entry.name} in {step.stage}:"
    if entry.takes_matrices and factors_of(state.workload, stage.stage, entry.left) is not None:
        return  # in the instruction's own order: code generation refuses any other
    found = computes(state.workload, stage.stage, entry)
    if found is None:
        msg = f"{what} its product is not one of {entry.left.value} and a constant {entry.right.value}"
        raise ScheduleError(msg)
    buffers = state.workload.buffers
    if not is_direct(found.data, entry.left, lambda name: buffers[name].dtype):
        msg = f"{what} its data is no {entry.left.value} in memory; copy it first"
        raise ScheduleError(msg)
    vector = stage.loops[-1].name
    lanes = {a for a, index in stage.bindings.items() if vector in index.names()}
    data = found.data.value if isinstance(found.data, Cast) else found.data
    if isinstance(data, Load) and any(lanes & i.names() for i in data.indices):
        msg = f"{what} its data differs between lanes"
        raise ScheduleError(msg)
