"""Hoist: elements of local memory that a loop reads again and again are read once, before it.

    for v in 0..24: y[32 v + lane] = (x[32 v + lane] - m[s % 2]) * q
    →  r = m[s % 2]
       for v in 0..24: y[32 v + lane] = (x[32 v + lane] - r) * q

Registers hold them: what a row left for its next stage is one element for all of its columns, and rows that unrolled
loops copy have one each. It is done to the innermost loops that run, for elements that they do not store. One at a
constant place is in a register anyway (compiler/loop/promote.py).

An element that is only subtracted from what the loop reads is negated before it: the instruction that adds takes one of
its operands from memory, whichever it is, while the one that subtracts takes what is subtracted.

    for v in 0..24: y[32 v + lane] = x[32 v + lane] - m[0]
    →  r = -m[0]
       for v in 0..24: y[32 v + lane] = x[32 v + lane] + r
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import prod

from compiler.index import Index
from compiler.loop.ir import (
    Buffer,
    Extent,
    For,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    walk_statements,
    with_parts,
)
from compiler.scalar import Apply, Expr, Guard, Load, children, loads, rewrite, walk

MOST_REGISTERS = 8
"""Copies of an element that are kept, one for each row of a block."""


def hoist(nest: LoopNest) -> LoopNest:
    """Hoist what every innermost loop reads. The nest must be simplified."""
    if not any(buffer.scope == "local" for buffer in nest.buffers):
        return nest
    work = _Hoisting(nest)
    body = work.statement(nest.body)
    return nest if body is nest.body else replace(nest, buffers=tuple(work.buffers.values()), body=body)


class _Hoisting:
    def __init__(self, nest: LoopNest) -> None:
        self.buffers: dict[str, Buffer] = dict(nest.by_name)

    def statement(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.kind is not LoopKind.SERIAL or stmt.extent.bound is not None:
            return with_parts(stmt, self.statement)
        inner = list(walk_statements(stmt.body))
        if any(isinstance(s, For) and s.kind is LoopKind.SERIAL for s in inner):
            return with_parts(stmt, self.statement)
        copied = _copied(inner)
        bound = {stmt.var, *(s.var for s in inner if isinstance(s, For | Let))} - copied.keys()
        stores = [s for s in inner if isinstance(s, Store)]
        stored = {s.buffer for s in stores}
        same = [
            load
            for store in stores
            for load in _unguarded(store.value)
            if self.buffers[load.buffer].scope == "local"
            and load.buffer not in stored
            and not any(index.names() & bound or index.looked_up() for index in load.indices)
            and prod(copied[name] for name in _names(load) if name in copied) <= MOST_REGISTERS
        ]
        subtracted = self._subtracted(stores, set(same))
        read = [load for load in same if any(index.constant is None for index in load.indices)]
        others = [load for load in same if load in subtracted]  # not in the order of a set, which has none
        found = {load: self._register(load, copied) for load in dict.fromkeys([*read, *others])}
        if not found:
            return stmt
        before = [
            self._filled(register, Apply("neg", (load,)) if load in subtracted else load, copied)
            for load, register in found.items()
        ]
        negated = {found[load] for load in subtracted}
        return block(*before, replace(stmt, body=_replaced(stmt.body, found, negated)))

    def _subtracted(self, stores: Sequence[Store], same: Set[Load]) -> Set[Load]:
        """Those of the floats that are only subtracted from what is in memory."""
        values = [store.value for store in stores]
        uses = Counter(load for value in values for load in loads(value) if load in same)
        taken = Counter(other for value in values for e in walk(value) for other in self._taken(e))
        return {m for m, n in taken.items() if n == uses[m] and self.buffers[m.buffer].dtype.is_float}

    def _taken(self, e: Expr) -> Iterator[Load]:
        """What is subtracted from an element of memory."""
        match e:
            case Apply("sub", (Load() as x, Load() as other)) if self.buffers[x.buffer].scope != "register":
                yield other

    def _register(self, load: Load, copied: Mapping[str, int]) -> Load:
        """A new buffer of one element for each copy."""
        name, number = f"{load.buffer}.r", 0
        while name in self.buffers:
            name, number = f"{load.buffer}.r{number}", number + 1
        own = [copy for copy in _names(load) if copy in copied]
        shape = tuple(copied[copy] for copy in own) or (1,)
        self.buffers[name] = Buffer(name, shape, self.buffers[load.buffer].dtype, "local")
        return Load(name, tuple(map(Index.of, own)) or (Index(),))

    def _filled(self, register: Load, value: Expr, copied: Mapping[str, int]) -> Stmt:
        """What the register begins with, in loops over its copies."""
        filled: Stmt = Store(register.buffer, register.indices, value)
        for name in reversed(_names(register)):
            filled = For(name, Extent(copied[name]), LoopKind.UNROLLED, filled)
        return filled


def _copied(inner: Sequence[Stmt]) -> dict[str, int]:
    """How often unrolled loops copy what is in them, by name, where that is one number."""
    loops = [s for s in inner if isinstance(s, For)]
    sizes = {s.var: s.extent.limit for s in loops if s.kind is LoopKind.UNROLLED and s.extent.bound is None}
    return {
        name: size for name, size in sizes.items() if all(_is_copied(s, size) for s in loops if s.var == name)
    }


def _is_copied(loop: For, size: int) -> bool:
    return loop.kind is LoopKind.UNROLLED and loop.extent == Extent(size)


def _names(load: Load) -> list[str]:
    """The names in its indices, each once."""
    return sorted({name for index in load.indices for name in index.names()})


def _unguarded(value: Expr) -> Iterator[Load]:
    """Loads that are done whatever the tests of guards say."""
    if isinstance(value, Load):
        yield value
    elif not isinstance(value, Guard):
        for child in children(value):
            yield from _unguarded(child)


def _replaced(stmt: Stmt, found: Mapping[Load, Load], negated: Set[Load]) -> Stmt:
    """The statement with other loads in place of those found, and added where they are negated."""

    def rule(e: Expr) -> Expr | None:
        match e:
            case Load():
                return found.get(e)
            case Apply("sub", (minuend, other)) if other in negated:
                return Apply("add", (minuend, other))
            case _:
                return None

    if isinstance(stmt, Store):
        return replace(stmt, value=rewrite(stmt.value, rule))
    return with_parts(stmt, lambda part: _replaced(part, found, negated))
