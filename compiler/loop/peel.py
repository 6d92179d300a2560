"""Peel: main and edge tiles get code of their own.

Where the extent of a vector or unrolled loop, or the test of a guard, is different in the last iteration of a loop v,

    for v in 0..n: body    →    for v in 0..n: if v < n - 1: body (full tiles) else: body with v = n - 1 (short ones)

so that both have constant extents: full tiles run without masks, edge tiles with constant ones, never in scalar code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from compiler.index import Index
from compiler.loop.ir import (
    Block,
    Extent,
    For,
    If,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    walk_statements,
)
from compiler.loop.simplify import decide, simplify_extent, simplify_statement, substitute_statement
from compiler.scalar import Bound, Guard, walk

_COPIED = (LoopKind.VECTOR, LoopKind.UNROLLED)


def peel(nest: LoopNest) -> LoopNest:
    """Peel every loop that needs it. The nest must be simplified."""
    body = _peel(nest.body, {})
    return nest if body is nest.body else replace(nest, body=simplify_statement(body, {}))


def _peel(stmt: Stmt, ranges: Mapping[str, int]) -> Stmt:
    match stmt:
        case For(var, extent, kind, body):
            inner = {**ranges, var: extent.limit}
            new = _peel(body, inner) if kind in _COPIED else _split_last(var, extent, body, inner)
            return stmt if new is body else For(var, extent, kind, new)
        case Let(var, value, size, body):
            new = _split_last(var, Extent(size), body, {**ranges, var: size})
            return stmt if new is body else Let(var, value, size, new)
        case If(c, then, otherwise):
            a, b = _peel(then, ranges), _peel(otherwise, ranges)
            return stmt if a is then and b is otherwise else If(c, a, b)
        case Store():
            return stmt
        case Block(statements):
            new_statements = tuple(_peel(s, ranges) for s in statements)
            same = all(a is b for a, b in zip(new_statements, statements, strict=True))
            return stmt if same else block(*new_statements)
        case _:
            assert_never(stmt)


def _split_last(var: str, extent: Extent, body: Stmt, ranges: Mapping[str, int]) -> Stmt:
    if extent.bound is not None or extent.limit < 2 or not _ragged(body, var, ranges):
        return _peel(body, ranges)
    last = extent.limit - 1
    full = simplify_statement(body, {**ranges, var: last})
    edge = simplify_statement(substitute_statement(body, {var: Index.of(last)}), ranges)
    condition = Bound(Index.of(var), 0, last)
    return If(condition, _peel(full, {**ranges, var: last}), _peel(edge, ranges))


def _ragged(body: Stmt, var: str, ranges: Mapping[str, int]) -> bool:
    """Whether something in the body is different at the end of `var` only: an extent, or the test of a guard."""
    inside = dict(ranges)
    for stmt in walk_statements(body):
        match stmt:
            case Let(name, _, extent, _):
                inside[name] = extent
            case For(name, extent, kind, _):
                inside[name] = extent.limit
                if kind in _COPIED and _shorter(extent, var, inside):
                    return True
            case Store(_, _, value):
                tests = [b for e in walk(value) if isinstance(e, Guard) for b in e.bounds]
                if any(_open_at_the_end(test, var, inside) for test in tests):
                    return True
            case _:
                pass
    return False


def _shorter(extent: Extent, var: str, ranges: Mapping[str, int]) -> bool:
    if extent.bound is None or var not in extent.bound.names():
        return False
    known = {**ranges, **{n: ranges.get(n, 1) for n in extent.bound.names()}}
    return simplify_extent(extent, known).bound is not None


def _open_at_the_end(test: Bound, var: str, ranges: Mapping[str, int]) -> bool:
    """Whether a test depends on the other loops at the end of `var`, and always holds before."""
    if var not in test.index.names() or not test.index.names() <= ranges.keys():
        return False
    return decide(test, ranges) is None and decide(test, {**ranges, var: ranges[var] - 1}) is True
