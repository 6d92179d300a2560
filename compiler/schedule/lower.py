"""Lowering: a State becomes a LoopNest.

An attached stage is nested in front of the rest of its consumer's loop body. A reduction becomes two nests inside its
leading spatial loops: one that stores the neutral element, one that combines; what is attached to a loop of both is
computed in the second alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import Buffer, For, Let, LoopKind, LoopNest, Scope, Stmt, Store, block
from compiler.scalar import Apply, Dot, Expr, Load, Lookup, loads, rewrite, substitute
from compiler.scalar_ops import REDUCERS
from compiler.scalar_type import neutral
from compiler.schedule.both_parts import factors_of
from compiler.schedule.packing import PackedRead, plan_packing
from compiler.schedule.regions import absolute_axes
from compiler.schedule.reorder import check_order
from compiler.schedule.state import Attachment, Loop, ScheduledStage, State, qualified
from compiler.schedule.tensorize import dot_operands
from compiler.workload.ir import Operand, Stage, Workload


def lower(state: State, name: str) -> LoopNest:
    """The LoopNest of a State; raises ScheduleError where its parts do not fit together."""
    return _Lowering(state).nest(name)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the stages around a stage define: names in nesting order with their limits."""

    names: tuple[tuple[str, int], ...] = ()


class _Lowering:
    def __init__(self, state: State) -> None:
        self._state = state
        self._attached = {s.stage.target: s for s in state.stages if s.attachment is not None}
        self._packed: dict[str, PackedRead] = {}

    def nest(self, name: str) -> LoopNest:
        roots = [s for s in self._state.stages if s.attachment is None]
        body = block(*(self._stage(s, _Scope()) for s in roots))
        workload = self._state.workload
        return LoopNest(name, tuple(self._buffers(workload)), body, workload.symbols)

    def _buffers(self, workload: Workload) -> list[Buffer]:
        found = []
        for operand in workload.operands:
            packed = self._packed.get(operand.name)
            if packed is None and operand.name in workload.transforms:
                msg = f"constant {operand.name} is transformed by the algorithm; pack it"
                raise ScheduleError(msg)
            if packed is not None:
                found.append(
                    Buffer(
                        operand.name,
                        packed.packing.shape,
                        packed.packing.dtype or operand.dtype,
                        "global",
                        "constant",
                        packed.packing,
                    )
                )
            else:
                found.append(_buffer(operand, "constant" if operand.constant else "input"))
        found += [_buffer(operand, "output") for operand in workload.outputs]
        for temporary in workload.temporaries:
            stage = self._attached.get(temporary.name)
            if stage is None or stage.attachment is None or stage.attachment.is_open:
                found.append(Buffer(temporary.name, temporary.storage, temporary.dtype, "global", "scratch"))
            else:
                scope = self._scope(stage.attachment)
                found.append(Buffer(temporary.name, stage.attachment.shape, temporary.dtype, scope))
        return found

    def _scope(self, attachment: Attachment) -> Scope:
        """Where an attached stage keeps its region: the threads of a block share what the block computes."""
        loop = self._state.stage(attachment.consumer).loop(attachment.loop)
        return "shared" if loop.kind is LoopKind.BLOCK else "local"

    def _stage(self, stage: ScheduledStage, outside: _Scope) -> Stmt:
        check_order(stage)
        lead = _leading(stage)
        defined = _Scope(outside.names + tuple(_names(stage, stage.loops)))
        values = absolute_axes(stage)
        _check_scope(stage, outside)
        stores = [
            Store(
                result.target,
                tuple(_place(stage, i, values) for i in result.indices),
                self._reads(stage, substitute(result.body, values), defined),
            )
            for result in stage.stage.results
        ]
        if stage.stage.reducer is None:
            inner = self._wrap(stage, stage.loops[lead:], block(*stores), outside)
        else:
            stored, body = stores[0].indices, stores[0].value
            inner = self._reduction(stage, stage.loops[lead:], stored, body, outside)
        return self._wrap(stage, stage.loops[:lead], inner, outside)

    def _reduction(
        self,
        stage: ScheduledStage,
        loops: tuple[Loop, ...],
        stored: tuple[Index, ...],
        body: Expr,
        outside: _Scope,
    ) -> Stmt:
        reducer = REDUCERS[stage.stage.reducer or "sum"]
        target = stage.stage.target
        start = Store(target, stored, neutral(stage.stage.reducer or "sum", stage.stage.dtype))
        combine = Store(target, stored, self._combined(stage, Load(target, stored), body, reducer.op))
        if stage.dot is not None:
            loops = tuple(loop for loop in loops if loop.name != stage.dot[0])
        if stage.stage.adds:
            return self._wrap(stage, loops, _added(combine), outside)
        spatial = tuple(loop for loop in loops if not loop.reduces)
        init = self._wrap(stage, spatial, start, outside, guests=False)
        return block(init, self._wrap(stage, loops, combine, outside))

    def _combined(self, stage: ScheduledStage, total: Load, body: Expr, op: str) -> Expr:
        """The sum with one more product, or with a group of them where an instruction adds it."""
        if stage.dot is None:
            return Apply(op, (total, body))
        loop, instruction = stage.dot
        made = factors_of(self._state.workload, stage.stage, INSTRUCTIONS[instruction].left)
        if not stage.packed and made is None:
            msg = f"the constant that {instruction} multiplies by is not packed; pack it"
            raise ScheduleError(msg)
        packed = stage.packed[0] if made is None else made[1].buffer
        left, right = dot_operands(body, packed)[::-1]
        return Dot(instruction, total, left, right, qualified(stage.stage.name, loop))

    def _wrap(
        self,
        stage: ScheduledStage,
        loops: tuple[Loop, ...],
        inner: Stmt,
        outside: _Scope,
        *,
        guests: bool = True,
    ) -> Stmt:
        for loop in reversed(loops):
            place = stage.position(loop.name)
            if guests:
                scope = _Scope(outside.names + tuple(_names(stage, stage.loops[: place + 1])))
                inner = block(*self._guests(stage, loop, scope), inner)
            for part in reversed([p for p in stage.lets if p.of == loop.name]):
                value = _qualify(part.value, stage)
                inner = Let(qualified(stage.stage.name, part.name), value, part.extent, inner, part.bound)
            bounded = loop.extent.substitute(stage.qualifiers)
            inner = For(qualified(stage.stage.name, loop.name), bounded, loop.kind, inner)
        return inner

    def _guests(self, stage: ScheduledStage, loop: Loop, scope: _Scope) -> list[Stmt]:
        """The stages that are computed at this loop, each after those that it reads."""
        where = (stage.stage.name, loop.name)
        at = [s for s in self._attached.values() if s.attachment is not None]
        return [
            self._stage(s, scope)
            for s in at
            if s.attachment and (s.attachment.consumer, s.attachment.loop) == where
        ]

    def _reads(self, stage: ScheduledStage, body: Expr, scope: _Scope) -> Expr:
        """The body with loads of attached stages made relative and loads of packed constants redirected."""
        for name in (n for n in stage.packed if any(load.buffer == n for load in loads(body))):
            operand = self._state.workload.buffers[name]
            transform = self._state.workload.transforms.get(name)
            names, dtype = _packed_order(stage, scope.names, read_once=_reads_once(stage.stage, name))
            self._packed[name] = plan_packing(operand, body, names, transform, dtype)

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load):
                return None
            if e.buffer in stage.packed:
                return Load(e.buffer, self._packed[e.buffer].indices)
            guest = self._attached.get(e.buffer)
            if guest is None or guest.attachment is None or guest.attachment.is_open:
                return None
            origin = guest.attachment.origin
            return Load(e.buffer, tuple(i - o for i, o in zip(e.indices, origin, strict=True)))

        return rewrite(body, rule)


def _added(store: Store) -> Store:
    """Lookups around a term are around the sum: the place is looked up where the sum is stored."""
    match store.value:
        case Apply(op, (total, Lookup(found, value, inside))):
            inner = _added(replace(store, value=Apply(op, (total, inside))))
            return replace(store, value=Lookup(found, value, inner.value))
        case _:
            return store


def _buffer(operand: Operand, role: str) -> Buffer:
    return Buffer(operand.name, operand.storage, operand.dtype, "global", role)  # type: ignore[arg-type]


def _packed_order(
    stage: ScheduledStage, names: tuple[tuple[str, int], ...], *, read_once: bool
) -> tuple[tuple[tuple[str, int], ...], DType | None]:
    """The order of a packed constant, and its type: an instruction reads the elements of its group side by side."""
    if stage.dot is None:
        return (_in_streams(stage, names) if read_once else names), None
    loop, instruction = stage.dot
    group = qualified(stage.stage.name, loop)
    outer = tuple(n for n in names if n[0] != group)
    return (*outer, *(n for n in names if n[0] == group)), INSTRUCTIONS[instruction].right


def _reads_once(stage: Stage, operand: str) -> bool:
    """Whether a stage reads each element of an operand once: every axis that is longer than 1 is in the read."""
    read = {
        n for load in loads(stage.body) if load.buffer == operand for i in load.indices for n in i.names()
    }
    return {a.name for a in (*stage.axes, *stage.reduce_axes) if a.extent.constant != 1} <= read


def _in_streams(stage: ScheduledStage, names: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """The unrolled vectors of a tile in front of what is reduced: each is a stream of its own through memory.

    A matrix times a vector takes as long as the matrix takes to arrive, and several streams arrive faster than one:
    more of a processor's prefetchers follow them.
    """
    own = {qualified(stage.stage.name, loop.name): loop for loop in stage.loops}
    apart = {n for n, loop in own.items() if loop.kind is LoopKind.UNROLLED and not loop.reduces}
    first = next((i for i, (n, _) in enumerate(names) if n in own and own[n].reduces), len(names))
    late = [n for n in names[first:] if n[0] in apart]
    return (*names[:first], *late, *(n for n in names[first:] if n[0] not in apart))


def _leading(stage: ScheduledStage) -> int:
    """Number of loops in front of the first that reduces."""
    for place, loop in enumerate(stage.loops):
        if loop.reduces:
            return place
    return len(stage.loops)


def _qualify(index: Index, stage: ScheduledStage) -> Index:
    return index.substitute(stage.qualifiers)


def _names(stage: ScheduledStage, loops: tuple[Loop, ...]) -> list[tuple[str, int]]:
    """Names that these loops define, outermost first, parts of fused loops at the place of their loop."""
    found = []
    for loop in loops:
        parts = [(part.name, part.extent) for part in stage.lets if part.of == loop.name]
        named = parts or [(loop.name, loop.extent.limit)]
        found += [(qualified(stage.stage.name, name), size) for name, size in named]
    return found


def _check_scope(stage: ScheduledStage, outside: _Scope) -> None:
    """Raise ScheduleError where a later Step has moved a loop, which the stage's region starts at, inside it."""
    if stage.attachment is None:
        return
    defined = {name for name, _ in outside.names}
    for name in sorted({n for index in stage.attachment.origin for n in index.names()} - defined):
        msg = f"stage {stage.stage.name} is computed outside {name}, where its region starts; reorder before ComputeAt"
        raise ScheduleError(msg)


def _place(stage: ScheduledStage, index: Index, absolute: Mapping[str, Index]) -> Index:
    """A target index in qualified names, relative to the attachment's region where that has memory of its own."""
    attachment = stage.attachment
    if attachment is not None and attachment.is_open:
        return index.substitute(absolute)
    local = {axis: _qualify(value, stage) for axis, value in stage.bindings.items()}
    if attachment is not None and index.name is None and index.constant is None:
        msg = f"stage {stage.stage.name} stores at {index}, which cannot be made relative"
        raise ScheduleError(msg)
    return index.substitute(local)
