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
        found = _second(statements, place)
        if found is None:
            place += 1
            continue
        first, between, second = statements[place], statements[place + 1 : found], statements[found]
        assert isinstance(first, For)
        assert isinstance(second, For)
        statements[place : found + 1] = [*between, _merge(_one(first, second))]
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
    """Whether it is a serial loop of a known length."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and stmt.extent.bound is None


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
