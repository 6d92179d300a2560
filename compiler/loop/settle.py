"""Settle: tiles of an extent over symbols get code for the full tile, and for what the last one may be.

    for o in 0..ceil(n / 4): for i in 0..min(4, n - o*4) unrolled: body
    →   for o in 0..ceil(n / 4): if n - o*4 >= 4: for i in 0..4: body
                                 else: if n - o*4 == 3: for i in 0..3: body   else: ... 2 ... 1

so that unrolled loops have constant extents here too. Only lengths that the coefficients allow are there: the last tile
of 10*n by 8 has 2, 4 or 6. An unrolled loop of a sum is serial in the last tile. One of vectors is not cut off: its
last vectors are masked (compiler.loop.masked), by a number of lanes that is known when the kernel runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
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
from compiler.loop.masked import first_slack, holds, uncut
from compiler.loop.simplify import simplify_statement
from compiler.scalar import FAR, Bound, loads
from compiler.symbol import ranges_of

MOST_REMAINDERS = 15
"""Lengths of a last tile: each is a copy of the body."""


def settle(nest: LoopNest) -> LoopNest:
    """Settle every tile of the nest, which must be simplified; the same object comes back where nothing is symbolic."""
    if not nest.symbols:
        return nest
    ranges = ranges_of(nest.symbols)
    local = frozenset(b.name for b in nest.buffers if b.scope != "global")
    whole = uncut(nest.body, ranges)
    body = _Settling(frozenset(ranges), local).statement(whole, ranges, frozenset())
    return nest if body is nest.body else replace(nest, body=simplify_statement(body, ranges))


def remainders(limit: int, bound: Index) -> list[int]:
    """Lengths between 0 and the limit that `bound` can have, whatever the names in it are."""
    step = math.gcd(limit, *(coefficient for _, coefficient in bound.terms))
    return [length for length in range(1, limit) if (length - bound.const) % step == 0]


class _Settling:
    def __init__(self, symbols: frozenset[str], local: frozenset[str]) -> None:
        self._symbols, self._local = symbols, local

    def statement(self, stmt: Stmt, known: Mapping[str, int], masked: Set[Index] | None) -> Stmt:
        """The statement with tiles settled.

        Args:
            stmt: to settle.
            known: the ranges of the names that are defined around it, symbols among them.
            masked: slacks that are negative somewhere around it (see `compiler.loop.masked`); None where all may be.
        """
        match stmt:
            case For(var, size, kind, body):
                inner = {**known, var: size.limit}
                copied = kind in (LoopKind.VECTOR, LoopKind.UNROLLED)
                new = self._inside(var, body, inner, masked, copied=copied)
                return stmt if new is body else For(var, size, kind, new)
            case Let(var, _, size, body):
                new = self._inside(var, body, {**known, var: size}, masked)
                return stmt if new is body else replace(stmt, body=new)
            case If(c, then, otherwise):
                a, b = self.statement(then, known, masked), self.statement(otherwise, known, masked)
                return stmt if a is then and b is otherwise else If(c, a, b)
            case Store():
                return stmt
            case Block(statements):
                parts = tuple(self.statement(s, known, masked) for s in statements)
                same = all(a is b for a, b in zip(parts, statements, strict=True))
                return stmt if same else Block(parts)
            case _:
                assert_never(stmt)

    def _inside(
        self,
        var: str,
        body: Stmt,
        known: Mapping[str, int],
        masked: Set[Index] | None,
        *,
        copied: bool = False,
    ) -> Stmt:
        """The body of the loop `var`, where extents are settled that need no other loop inside it.

        Lengths that must be numbers come first: only whole tiles are worth code without masks beside that with them.
        `copied`: it is a loop over lanes, or over copies of its body.
        """
        found = self._first(body, var, known)
        if found is not None:
            return self._by_length(var, body, known, masked, found)
        if copied or masked is None or self._has_lengths(body):
            return self.statement(body, known, masked)
        slack = first_slack(body, known, self._symbols, masked)
        if slack is None:
            return self.statement(body, known, masked)
        full = self._inside(var, holds(body, slack, known), known, masked)
        last = self._inside(var, body, known, masked | {slack})
        return If(Bound(slack, 0, FAR), full, last)

    def _by_length(
        self, var: str, body: Stmt, known: Mapping[str, int], masked: Set[Index] | None, found: For
    ) -> Stmt:
        limit, bound = found.extent.limit, found.extent.bound
        assert bound is not None
        nothing = self._inside(var, _settled(body, bound, -FAR, 0), known, None)
        otherwise = _without_empty_loops(nothing)
        if limit > 1 and self._sums(found):
            turns = self._inside(var, _in_turns(body, found), known, None)
            otherwise = If(Bound(bound, 1, limit), turns, otherwise)
        else:
            for length in remainders(limit, bound):
                short = self._inside(var, _settled(body, bound, length, length), known, None)
                otherwise = If(Bound(bound, length, length + 1), short, otherwise)
        full = self._inside(var, _settled(body, bound, limit, FAR), known, masked)
        return If(Bound(bound - limit, 0, FAR), full, otherwise)

    def _has_lengths(self, body: Stmt) -> bool:
        """Whether the length of a tile in it must become a number, deeper inside; those of sums do not count."""
        return any(
            isinstance(stmt, For)
            and stmt.extent.bound is not None
            and (stmt.kind is LoopKind.UNROLLED or _is_pair(stmt))
            and not stmt.extent.bound.names().isdisjoint(self._symbols)
            and not self._sums(stmt)
            for stmt in walk_statements(body)
        )

    def _first(self, body: Stmt, var: str, known: Mapping[str, int]) -> For | None:
        """The first loop of the body whose length must be a number, and depends on symbols and known names alone."""
        for stmt in walk_statements(body):
            if not isinstance(stmt, For) or stmt.extent.bound is None:
                continue
            if stmt.kind is not LoopKind.UNROLLED and not _is_pair(stmt):
                continue
            names = stmt.extent.bound.names()
            if var in names and names <= known.keys() and not names.isdisjoint(self._symbols):
                return stmt
        return None

    def _sums(self, loop: For) -> bool:
        """Whether all iterations store at the same places, and share what is local to the thread."""
        for stmt in walk_statements(loop.body):
            if not isinstance(stmt, Store):
                continue
            own = [load.indices for load in loads(stmt.value) if load.buffer in self._local]
            if any(loop.var in index.names() for indices in (stmt.indices, *own) for index in indices):
                return False
        return loop.kind is LoopKind.UNROLLED


def _is_pair(loop: For) -> bool:
    """Whether it is a vector of vectors."""
    return loop.kind is LoopKind.VECTOR and any(
        isinstance(inner, For) and inner.kind is LoopKind.VECTOR for inner in walk_statements(loop.body)
    )


def _in_turns(stmt: Stmt, loop: For) -> Stmt:
    """The statement, where a loop is serial."""
    if stmt is loop:
        return For(loop.var, loop.extent, LoopKind.SERIAL, loop.body)
    match stmt:
        case For(var, size, kind, body):
            return For(var, size, kind, _in_turns(body, loop))
        case Let():
            return replace(stmt, body=_in_turns(stmt.body, loop))
        case If(c, then, otherwise):
            return If(c, _in_turns(then, loop), _in_turns(otherwise, loop))
        case Store():
            return stmt
        case Block(statements):
            return Block(tuple(_in_turns(s, loop) for s in statements))
        case _:
            assert_never(stmt)


def _settled(stmt: Stmt, bound: Index, low: int, high: int) -> Stmt:
    """The statement where `bound` is known to lie in low..high: extents that differ from it by a constant follow."""
    match stmt:
        case For(var, size, kind, body):
            return For(var, _settled_extent(size, bound, low, high), kind, _settled(body, bound, low, high))
        case Let():
            return replace(stmt, body=_settled(stmt.body, bound, low, high))
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
        case Let():
            inner = _without_empty_loops(stmt.body)
            return inner if inner == Block(()) else replace(stmt, body=inner)
        case If(c, then, otherwise):
            a, b = _without_empty_loops(then), _without_empty_loops(otherwise)
            return If(c, a, b) if (a, b) != (Block(()), Block(())) else a
        case Store():
            return stmt
        case Block(statements):
            return block(*(_without_empty_loops(s) for s in statements))
        case _:
            assert_never(stmt)
