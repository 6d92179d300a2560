"""Settle: tiles of an extent over symbols get code for the full tile, and for each length that the last may have.

    for o in 0..ceil(n / 4): for i in 0..min(4, n - o*4) unrolled: body
    →   for o in 0..ceil(n / 4): if n - o*4 >= 4: for i in 0..4: body
                                 else: if n - o*4 == 3: for i in 0..3: body   else: ... 2 ... 1

so that vector and unrolled loops have constant extents here too. Only lengths that the coefficients allow are there:
the last tile of 10*n by 8 has 2, 4 or 6.
"""

from __future__ import annotations

import math
from collections.abc import Set
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
    extent,
    walk_statements,
)
from compiler.loop.simplify import simplify_statement
from compiler.scalar import Bound
from compiler.symbol import ranges_of

MOST_REMAINDERS = 15
"""Lengths of a last tile: each is a copy of the body."""

_LARGEST = 1 << 62
_COPIED = (LoopKind.VECTOR, LoopKind.UNROLLED)


def settle(nest: LoopNest) -> LoopNest:
    """Settle every tile of the nest, which must be simplified; the same object comes back where nothing is symbolic."""
    if not nest.symbols:
        return nest
    symbols = frozenset(symbol.name for symbol in nest.symbols)
    body = _Settling(symbols).statement(nest.body, symbols)
    return (
        nest if body is nest.body else replace(nest, body=simplify_statement(body, ranges_of(nest.symbols)))
    )


def remainders(limit: int, bound: Index) -> list[int]:
    """Lengths between 0 and the limit that `bound` can have, whatever the names in it are."""
    step = math.gcd(limit, *(coefficient for _, coefficient in bound.terms))
    return [length for length in range(1, limit) if (length - bound.const) % step == 0]


class _Settling:
    def __init__(self, symbols: frozenset[str]) -> None:
        self._symbols = symbols

    def statement(self, stmt: Stmt, known: frozenset[str]) -> Stmt:
        """The statement with tiles settled; `known`: the names that are defined around it, symbols among them."""
        match stmt:
            case For(var, size, kind, body):
                new = self._inside(var, body, known | {var})
                return stmt if new is body else For(var, size, kind, new)
            case Let(var, value, size, body):
                new = self._inside(var, body, known | {var})
                return stmt if new is body else Let(var, value, size, new)
            case If(c, then, otherwise):
                a, b = self.statement(then, known), self.statement(otherwise, known)
                return stmt if a is then and b is otherwise else If(c, a, b)
            case Store():
                return stmt
            case Block(statements):
                parts = tuple(self.statement(s, known) for s in statements)
                same = all(a is b for a, b in zip(parts, statements, strict=True))
                return stmt if same else Block(parts)
            case _:
                assert_never(stmt)

    def _inside(self, var: str, body: Stmt, known: frozenset[str]) -> Stmt:
        """The body of the loop `var`, where extents are settled that need no other loop inside it."""
        found = self._first(body, var, known)
        if found is None:
            return self.statement(body, known)
        limit, bound = found
        nothing = self._inside(var, _settled(body, bound, -_LARGEST, 0), known)
        otherwise = _without_empty_loops(nothing)
        for length in remainders(limit, bound):
            short = self._inside(var, _settled(body, bound, length, length), known)
            otherwise = If(Bound(bound, length, length + 1), short, otherwise)
        full = self._inside(var, _settled(body, bound, limit, _LARGEST), known)
        return If(Bound(bound - limit, 0, _LARGEST), full, otherwise)

    def _first(self, body: Stmt, var: str, known: Set[str]) -> tuple[int, Index] | None:
        for stmt in walk_statements(body):
            if not isinstance(stmt, For) or stmt.kind not in _COPIED or stmt.extent.bound is None:
                continue
            names = stmt.extent.bound.names()
            if var in names and names <= known and not names.isdisjoint(self._symbols):
                return stmt.extent.limit, stmt.extent.bound
        return None


def _settled(stmt: Stmt, bound: Index, low: int, high: int) -> Stmt:
    """The statement where `bound` is known to lie in low..high: extents that differ from it by a constant follow."""
    match stmt:
        case For(var, size, kind, body):
            return For(var, _settled_extent(size, bound, low, high), kind, _settled(body, bound, low, high))
        case Let(var, value, size, body):
            return Let(var, value, size, _settled(body, bound, low, high))
        case If(c, then, otherwise):
            return If(c, _settled(then, bound, low, high), _settled(otherwise, bound, low, high))
        case Store():
            return stmt
        case Block(statements):
            return Block(tuple(_settled(s, bound, low, high) for s in statements))
        case _:
            assert_never(stmt)


def _settled_extent(size: Extent, bound: Index, low: int, high: int) -> Extent:
    distance = None if size.bound is None else (size.bound - bound).constant
    if distance is None:
        return size
    if low + distance >= size.limit:
        return Extent(size.limit)
    if high + distance <= 0:
        return Extent(0)
    return extent(size.limit, Index.of(low + distance)) if low == high else size


def _without_empty_loops(stmt: Stmt) -> Stmt:
    """The statement without loops that never run, and without what then has nothing left in it."""
    match stmt:
        case For(var, size, kind, body):
            inner = _without_empty_loops(body)
            return Block(()) if not size.limit or inner == Block(()) else For(var, size, kind, inner)
        case Let(var, value, size, body):
            inner = _without_empty_loops(body)
            return inner if inner == Block(()) else Let(var, value, size, inner)
        case If(c, then, otherwise):
            a, b = _without_empty_loops(then), _without_empty_loops(otherwise)
            return If(c, a, b) if (a, b) != (Block(()), Block(())) else a
        case Store():
            return stmt
        case Block(statements):
            return block(*(_without_empty_loops(s) for s in statements))
        case _:
            assert_never(stmt)
