"""Accumulate: a vector in local memory that a loop adds to is in a register until the loop has ended.

    for s in 0..8: for lane: t[s, lane] = 0
                   for v in 0..4: for lane: t[s, lane] = t[s, lane] + x[s, 8 v + lane]
    →  for s in 0..8: for lane: r[lane] = 0
                      for v in 0..4: for lane: r[lane] = r[lane] + x[s, 8 v + lane]
                      for lane: t[s, lane] = r[lane]

It is done where each iteration of the outer loop has a vector of its own, which it fills first. Scalar replacement
(Callahan, Carr, Kennedy, PLDI 1990), of a vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.loop.ir import (
    Block,
    Buffer,
    Extent,
    For,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    buffers_of,
    sub_statements,
    walk_statements,
    with_parts,
)
from compiler.scalar import Expr, Load, loads, rewrite


def accumulate(nest: LoopNest) -> LoopNest:
    """Have every such vector in a register. The nest must be simplified."""
    if not any(buffer.scope == "local" for buffer in nest.buffers):
        return nest
    work = _Accumulating(nest)
    body = work.statement(nest.body)
    return nest if body is nest.body else replace(nest, buffers=tuple(work.buffers.values()), body=body)


@dataclass(frozen=True, slots=True)
class _Vector:
    """The only elements of a buffer that a statement touches: `lane` is the first loop over them."""

    lane: For
    indices: tuple[Index, ...]


class _Accumulating:
    def __init__(self, nest: LoopNest) -> None:
        self.buffers: dict[str, Buffer] = dict(nest.by_name)

    def statement(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and isinstance(stmt.body, Block):
            body = self._accumulated(stmt.var, stmt.body)
            stmt = stmt if body is stmt.body else replace(stmt, body=body)
        return with_parts(stmt, self.statement)

    def _accumulated(self, var: str, body: Block) -> Stmt:
        after: list[Stmt] = []
        changed: Stmt = body
        for name in sorted(_stored_by_loops(body)):
            if self.buffers[name].scope == "local" and (vector := _vector(var, body, name)) is not None:
                lanes = vector.lane.extent.limit
                register = f"{name}.sum{lanes}"
                self.buffers[register] = replace(self.buffers[name], name=register, shape=(lanes,))
                changed = _moved(changed, name, register)
                element = Load(register, (Index.of(vector.lane.var),))
                after.append(replace(vector.lane, body=Store(name, vector.indices, element)))
        return block(changed, *after) if after else body


def _stored_by_loops(body: Block) -> set[str]:
    """Buffers that loops inside of a block store to."""
    running = [s for s in body.statements if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    return {s.buffer for loop in running for s in walk_statements(loop) if isinstance(s, Store)}


def _vector(var: str, body: Block, name: str) -> _Vector | None:
    """The vector that is all a block touches of a buffer, where it fills it first; one for each value of `var`."""
    first = next(s for s in body.statements if name in buffers_of(s))
    match first:
        case For(lane, Extent(_, None), LoopKind.VECTOR, Store(buffer, indices, value)) if buffer == name:
            own = all(load.buffer != name for load in loads(value))
        case _:
            return None
    inner = {s.var for s in walk_statements(body) if isinstance(s, For | Let)} - {lane}
    names = {each for index in indices for each in index.names()}
    touched = set(_touched(body, name, None))
    same = touched == {(tuple(_at(i, lane) for i in indices), first.extent)}
    return _Vector(first, indices) if own and same and {var, lane} <= names and not names & inner else None


def _touched(stmt: Stmt, name: str, lane: For | None) -> Iterator[tuple[tuple[Index, ...], Extent | None]]:
    """Indices of each access to a buffer, by a lane without a name, and how many lanes there are."""
    if isinstance(stmt, Store):
        for load in (Load(stmt.buffer, stmt.indices), *loads(stmt.value)):
            if load.buffer == name:
                indices = tuple(_at(i, lane.var) for i in load.indices) if lane else load.indices
                yield indices, lane.extent if lane else None
        return
    inside = stmt if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR else lane
    for part in sub_statements(stmt):
        yield from _touched(part, name, inside)


def _at(index: Index, lane: str) -> Index:
    return index.substitute({lane: Index.of("lane")})


def _moved(stmt: Stmt, name: str, register: str, lane: str = "") -> Stmt:
    """The statement with a buffer's accesses in a register, at the lane of the loop around them."""
    if isinstance(stmt, Store):
        place = (Index.of(lane),)

        def rule(e: Expr) -> Expr | None:
            return Load(register, place) if isinstance(e, Load) and e.buffer == name else None

        value = rewrite(stmt.value, rule)
        return Store(register, place, value) if stmt.buffer == name else replace(stmt, value=value)
    inside = stmt.var if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR else lane
    return with_parts(stmt, lambda part: _moved(part, name, register, inside))
