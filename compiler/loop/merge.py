"""Merge: what one loop stores and the next one reads again, at the same place of it, is done in one loop.

    for v in 0..4: t[32 v + lane] = exp(x[32 v + lane] - m)
    s[lane] = 0
    for v in 0..4: s[lane] = s[lane] + t[32 v + lane]
    →  s[lane] = 0
       for v in 0..4: t[32 v + lane] = exp(x[32 v + lane] - m)
                      s[lane] = s[lane] + t[32 v + lane]

The second reads from registers, and its instructions fill what the first one leaves free. Only innermost loops are
merged, and only those that share vectors: others would compete for registers and caches, and one that reads a single
number, as the sum of a row, would wait for it in each iteration.

Two sums of the same vectors become one loop likewise: what ends the first is done after it.

    for v in 0..9: s[lane] = s[lane] + x[32 v + lane]
    mean = sum of s
    for v in 0..9: m[lane] = max(m[lane], x[32 v + lane])
    →  for v in 0..9: s[lane] = s[lane] + x[32 v + lane]
                      m[lane] = max(m[lane], x[32 v + lane])
       mean = sum of s
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.loop.ir import (
    Block,
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
from compiler.loop.simplify import substitute_statement
from compiler.loop.slices import Slice, slices
from compiler.scalar import Load, loads

_INNER = (LoopKind.VECTOR, LoopKind.UNROLLED)


@dataclass(frozen=True, slots=True)
class _Touched:
    """Names of the buffers that a statement reads, and of those that it writes."""

    read: frozenset[str]
    written: frozenset[str]


def merge(nest: LoopNest) -> LoopNest:
    """Merge every pair of loops that can be. The nest must be simplified."""
    body = _merge(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


def _merge(stmt: Stmt) -> Stmt:
    merged = with_parts(stmt, _merge)
    if not isinstance(merged, Block):
        return merged
    statements, place = list(merged.statements), 0
    while place < len(statements):
        if (found := _second(statements, place)) is not None:
            before, after = statements[place + 1 : found], statements[:0]
        elif (shared := _sharer(statements, place)) is not None:
            found, before, after = shared
        else:
            place += 1
            continue
        first, second = statements[place], statements[found]
        assert isinstance(first, For)
        assert isinstance(second, For)
        statements[place : found + 1] = [*before, _merge(_one(first, second)), *after]
    return merged if len(statements) == len(merged.statements) else block(*statements)


def _one(first: For, second: For) -> For:
    """One loop with the bodies of two."""
    body = substitute_statement(second.body, {second.var: Index.of(first.var)})
    return replace(first, body=block(first.body, body))


def _second(statements: list[Stmt], place: int) -> int | None:
    """The place of the loop that a loop is merged with; what stands between can be done before both."""
    first = statements[place]
    if not _is_serial(first):
        return None
    own = _touched(first)
    for later in range(place + 1, len(statements)):
        stmt = statements[later]
        other = _touched(stmt)
        if _is_serial(stmt) and own.written & other.read:
            return later if _may_merge(first, own, stmt, other) and _is_use(first, stmt) else None
        if (other.read | other.written) & own.written or other.written & own.read:
            return None
    return None


def _is_serial(stmt: Stmt) -> bool:
    """Whether it is a serial loop."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL


def _is_use(first: Stmt, second: Stmt) -> bool:
    """Whether there is nothing inside of both but vectors and what is unrolled, or loops that become one in turn."""
    apart = _innermost(first) + _innermost(second)
    if not apart:
        return True
    assert isinstance(first, For)
    assert isinstance(second, For)
    return _innermost(_merge(_one(first, second))) < apart


def _innermost(loop: Stmt) -> int:
    """Loops inside of another one that are neither vectors nor unrolled."""
    return sum(isinstance(s, For) and s is not loop and s.kind not in _INNER for s in walk_statements(loop))


def _touched(stmt: Stmt) -> _Touched:
    stores = [s for s in walk_statements(stmt) if isinstance(s, Store)]
    read = {load.buffer for s in stores for load in loads(s.value)}
    return _Touched(frozenset(read), frozenset(s.buffer for s in stores))


def _may_merge(first: Stmt, own: _Touched, second: Stmt, other: _Touched) -> bool:
    """Whether each iteration of the second reads what the same one of the first stored, and disturbs no other."""
    if not isinstance(first, For) or not isinstance(second, For):
        return False
    if first.extent != second.extent or other.written & (own.read | own.written):
        return False
    for name in own.written & other.read:
        found = {_slices(loop, name) for loop in (first, second)}
        if len(found) != 1 or None in found:
            return False
    return True


def _sharer(statements: list[Stmt], place: int) -> tuple[int, list[Stmt], list[Stmt]] | None:
    """The place of a sum of the same vectors, and what stands between: what is done before both, and after both."""
    first = statements[place]
    if not _is_serial(first) or not _vectors(first):
        return None
    before: list[Stmt] = []
    after: list[Stmt] = []
    waiting = _touched(first)
    for later in range(place + 1, len(statements)):
        stmt = statements[later]
        own = _touched(stmt)
        if not _disturbs(waiting, own):
            if _is_serial(stmt) and _shares(first, stmt) and _is_use(first, stmt):
                return later, before, after
            before.append(stmt)
        else:
            after.append(stmt)
            waiting = _Touched(waiting.read | own.read, waiting.written | own.written)
    return None


def _disturbs(one: _Touched, other: _Touched) -> bool:
    """Whether it matters which of them is done first."""
    return bool(one.written & (other.read | other.written) or other.written & one.read)


def _shares(first: Stmt, second: Stmt) -> bool:
    """Whether two sums, neither of which has a tile of its own, are of the same vectors."""
    if not isinstance(first, For) or not isinstance(second, For) or first.extent != second.extent:
        return False
    if any(isinstance(s, For) and s.kind is LoopKind.UNROLLED for s in walk_statements(block(first, second))):
        return False
    return not _vectors(first).isdisjoint(_vectors(second))


def _vectors(loop: Stmt) -> set[Load]:
    """What a sum of vectors reads in each iteration, in terms of the depth of its loops; nothing of other loops."""
    inner = [s for s in walk_statements(loop) if isinstance(s, For)]
    names = {s.var: Index.of(f"loop{depth}") for depth, s in enumerate(inner)}
    lanes = {s.var for s in inner if s.kind is LoopKind.VECTOR}
    found: set[Load] = set()
    for stmt in walk_statements(loop):
        if isinstance(stmt, Store):
            read = set(loads(stmt.value))
            if not any(load.buffer == stmt.buffer for load in read):
                return set()
            found |= {
                Load(load.buffer, tuple(index.substitute(names) for index in load.indices))
                for load in read
                if load.buffer != stmt.buffer and any(index.names() & lanes for index in load.indices)
            }
    return found


def _slices(loop: For, buffer: str) -> Slice | None:
    """What each iteration touches of a buffer; None where that is more than a slice of its own, or single elements."""
    found: set[Slice] = set()
    inner = {s.var: s.extent.limit for s in walk_statements(loop.body) if isinstance(s, For)}
    lanes = {s.var for s in walk_statements(loop.body) if isinstance(s, For) and s.kind is LoopKind.VECTOR}
    if any(isinstance(s, Let) for s in walk_statements(loop.body)):
        return None
    for stmt in walk_statements(loop.body):
        if not isinstance(stmt, Store):
            continue
        accesses = [Load(stmt.buffer, stmt.indices), *loads(stmt.value)]
        for access in accesses:
            if access.buffer == buffer:
                known = next(slices(access, loop.var, inner), None)
                if known is None or not any(index.names() & lanes for index in access.indices):
                    return None
                found.add(known)
    return found.pop() if len(found) == 1 else None
