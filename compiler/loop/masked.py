"""Masked: where all lanes of a vector are inside an open extent, and all tests of guards hold.

    for o in 0..ceil(n / 8): for i in 0..min(8, n - o*8) vector: body

What such a vector, or a guard, needs is that one expression, its *slack*, is not negative: here n - o*8 - 8. Loops
between the names that are known and the vector are taken where they leave least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from typing import assert_never

from compiler.index import Index
from compiler.loop.ir import Block, Extent, For, If, Let, LoopKind, Stmt, Store, walk_statements
from compiler.scalar import FAR, Bound, Expr, Guard, loads, rewrite, walk
from compiler.symbol import ceiling

Ranges = Mapping[str, int]


def first_slack(body: Stmt, known: Ranges, symbols: Set[str], masked: Set[Index]) -> Index | None:
    """The slack of the first vector or guard for which known names decide; none of `masked`."""
    for slack in _slacks(body, known, {}):
        names = slack.names()
        if slack not in masked and not names.isdisjoint(symbols):
            return slack
    return None


def holds(stmt: Stmt, slack: Index, known: Ranges, inner: Ranges | None = None) -> Stmt:
    """The statement where a slack is not negative: vectors are full and guards gone that need no more."""
    inner = inner or {}

    def given(own: Index | None) -> bool:
        distance = None if own is None else (own - slack).constant
        return distance is not None and distance >= 0

    match stmt:
        case For(var, size, kind, body):
            if kind is LoopKind.VECTOR and given(_of_vector(size, known, inner)):
                size = Extent(size.limit)
            return For(var, size, kind, holds(body, slack, known, {**inner, var: size.limit}))
        case Let(var, _, size, body):
            return replace(stmt, body=holds(body, slack, known, {**inner, var: size}))
        case If(c, then, otherwise):
            return If(c, holds(then, slack, known, inner), holds(otherwise, slack, known, inner))
        case Store(buffer, indices, value):
            return Store(buffer, indices, _unguarded(value, lambda b: given(_of_bound(b, known, inner))))
        case Block(statements):
            return Block(tuple(holds(s, slack, known, inner) for s in statements))
        case _:
            assert_never(stmt)


def _unguarded(value: Expr, holds_here: Callable[[Bound], bool]) -> Expr:
    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Guard):
            return None
        bounds = tuple(b for b in e.bounds if not holds_here(b))
        if len(bounds) == len(e.bounds):
            return None
        return Guard(bounds, e.inside, e.outside) if bounds else e.inside

    return rewrite(value, rule)


def uncut(stmt: Stmt, ranges: Ranges) -> Stmt:
    """The statement where unrolled loops of vectors have all of their copies: the lanes past the end are masked.

    for i.o in 0..min(2, ceil(n / 8)) unrolled: for i.i in 0..min(8, n - i.o*8) vector
    →   for i.o in 0..2 unrolled: for i.i in 0..min(8, n - i.o*8) vector
    """
    match stmt:
        case For(var, size, kind, body):
            new = uncut(body, {**ranges, var: size.limit})
            if kind is LoopKind.UNROLLED and _only_vectors(var, size, new, {**ranges, var: size.limit}):
                return For(var, Extent(size.limit), kind, new)
            return stmt if new is body else For(var, size, kind, new)
        case Let(var, _, size, body):
            new = uncut(body, {**ranges, var: size})
            return stmt if new is body else replace(stmt, body=new)
        case If(c, then, otherwise):
            a, b = uncut(then, ranges), uncut(otherwise, ranges)
            return stmt if a is then and b is otherwise else If(c, a, b)
        case Store():
            return stmt
        case Block(statements):
            parts = tuple(uncut(s, ranges) for s in statements)
            same = all(a is b for a, b in zip(parts, statements, strict=True))
            return stmt if same else Block(parts)
        case _:
            assert_never(stmt)


def _only_vectors(var: str, size: Extent, body: Stmt, ranges: Ranges) -> bool:
    """Whether the loop numbers vectors along one extent, and does nothing outside of their lanes."""
    if size.bound is None:
        return False
    found = [s for s in walk_statements(body) if isinstance(s, For) and s.kind is LoopKind.VECTOR]
    inside = sum(isinstance(s, Store) for loop in found for s in walk_statements(loop.body))
    if inside != sum(isinstance(s, Store) for s in walk_statements(body)):
        return False
    for loop in found:
        bound = loop.extent.bound
        step = 0 if bound is None else -bound.coefficient(var)
        if bound is None or step < 1:
            return False
        count = ceiling(bound + Index.of(var) * step, step).simplify(ranges)
        if count != size.bound.simplify(ranges):
            return False
        stores = (s for s in walk_statements(loop.body) if isinstance(s, Store))
        for load in (load for s in stores for load in loads(s.value)):
            names = {name for index in load.indices for name in index.names()}
            if var in names and loop.var not in names:
                return False
    return bool(found)


def _slacks(stmt: Stmt, known: Ranges, inner: Ranges) -> Iterator[Index]:
    match stmt:
        case For(var, size, kind, body):
            if kind is LoopKind.VECTOR:
                yield from _one(_of_vector(size, known, inner))
            yield from _slacks(body, known, {**inner, var: size.limit})
        case Let(var, _, size, body):
            yield from _slacks(body, known, {**inner, var: size})
        case If(_, then, otherwise):
            yield from _slacks(then, known, inner)
            yield from _slacks(otherwise, known, inner)
        case Store(_, _, value):
            for e in walk(value):
                for bound in e.bounds if isinstance(e, Guard) else ():
                    yield from _one(_of_bound(bound, known, inner))
        case Block(statements):
            for statement in statements:
                yield from _slacks(statement, known, inner)
        case _:
            assert_never(stmt)


def _one(slack: Index | None) -> Iterator[Index]:
    if slack is not None:
        yield slack


def _of_vector(size: Extent, known: Ranges, inner: Ranges) -> Index | None:
    return None if size.bound is None else _least(size.bound - size.limit, known, inner)


def _of_bound(bound: Bound, known: Ranges, inner: Ranges) -> Index | None:
    """Of a test that can only fail above."""
    return _least(Index.of(bound.high - 1) - bound.index, known, inner) if bound.low <= -FAR else None


def _least(index: Index, known: Ranges, inner: Ranges) -> Index | None:
    """The expression where the inner loops make it smallest; None where that is not known."""
    bindings = {}
    for name in index.names() - known.keys():
        coefficient = index.coefficient(name)
        if name not in inner or not coefficient:
            return None
        bindings[name] = Index.of(0 if coefficient > 0 else inner[name] - 1)
    least = index.substitute(bindings)
    return least if least.names() <= known.keys() else None
