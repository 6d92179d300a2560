"""Segment: a loop whose vectors lie in one part of a join, and then in the next, becomes a loop for each part.

    for v in 0..60: y[8 v + lane] = p[8 v + lane] if 8 v + lane < 96 else q[8 v + lane - 96]
    →  for v in 0..12: y[8 v + lane] = p[8 v + lane]
       for v in 0..48: y[8 v + 96 + lane] = q[8 v + lane]

Else each vector would read every part behind a mask. A vector across two parts has an iteration of its own, which does.
Tests that differ at the ends alone are peeled (compiler.loop.peel).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from compiler.index import Index
from compiler.loop.ir import (
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
    with_parts,
)
from compiler.loop.simplify import simplify_statement, substitute_statement
from compiler.scalar import Bound, Guard, walk
from compiler.symbol import ranges_of

MOST_SEGMENTS = 16
"""Loops with more parts stay as they are: their code would fill the instruction cache."""


def segment(nest: LoopNest) -> LoopNest:
    """Cut every loop that needs it. The nest must be simplified."""
    body = _segment(nest.body, ranges_of(nest.symbols))
    return nest if body is nest.body else replace(nest, body=body)


def _segment(stmt: Stmt, ranges: Mapping[str, int]) -> Stmt:
    match stmt:
        case For(var, extent, LoopKind.SERIAL, body) if extent.bound is None and _is_map(var, body):
            cuts = _cuts(var, extent.limit, body, ranges)
            return block(*(_loop(stmt, *part, ranges) for part in pairwise(cuts))) if cuts else stmt
        case Let(var, _, size, body, None) if _is_map(var, body):
            cuts = _cuts(var, size, body, ranges)
            return replace(stmt, body=_chosen(var, body, list(pairwise(cuts)), ranges)) if cuts else stmt
        case For(var, Extent(size)) | Let(var, _, size):
            inner = {**ranges, var: size}
            return with_parts(stmt, lambda part: _segment(part, inner))
        case _:
            return with_parts(stmt, lambda part: _segment(part, ranges))


def _is_map(var: str, body: Stmt) -> bool:
    """Whether iterations store at places of their own, with no loop inside but vectors and what is unrolled."""
    for stmt in walk_statements(body):
        if isinstance(stmt, For) and stmt.kind not in (LoopKind.VECTOR, LoopKind.UNROLLED):
            return False
        if isinstance(stmt, Store) and not any(var in index.names() for index in stmt.indices):
            return False
    return True


def _loop(loop: For, start: int, stop: int, ranges: Mapping[str, int]) -> Stmt:
    """The iterations from `start` on and before `stop`."""
    place = Index.of(start) if stop - start == 1 else Index.of(loop.var) + start
    within = {**ranges, loop.var: stop - start}
    body = simplify_statement(substitute_statement(loop.body, {loop.var: place}), within)
    return body if stop - start == 1 else replace(loop, extent=Extent(stop - start), body=body)


def _chosen(var: str, body: Stmt, parts: Sequence[tuple[int, int]], ranges: Mapping[str, int]) -> Stmt:
    """The body for the part in which a number is."""
    (start, stop), *rest = parts
    name = f"{var}'{start}"
    moved = substitute_statement(body, {var: Index.of(name) + start})
    here = simplify_statement(moved, {**ranges, name: stop - start})
    let = Let(name, Index.of(var) - start, stop - start, here)
    return If(Bound(Index.of(var), start, stop), let, _chosen(var, body, rest, ranges)) if rest else let


def _cuts(var: str, size: int, body: Stmt, ranges: Mapping[str, int]) -> tuple[int, ...]:
    """Where the parts of a loop begin, and its end; nothing where all tests hold but at its ends."""
    changes = list(_tests(var, body, {**ranges, var: size}))
    peeled = all(first <= 1 and size - 1 <= last for _, first, last, _ in changes)
    found = {cut for test in changes for cut in test if 0 < cut < size}
    return () if peeled or not found or len(found) >= MOST_SEGMENTS else (0, *sorted(found), size)


def _tests(var: str, body: Stmt, ranges: Mapping[str, int]) -> Iterator[tuple[int, int, int, int]]:
    """Where the outcome of each test that differs between lanes changes."""
    inside, lanes = dict(ranges), set[str]()
    for stmt in walk_statements(body):
        match stmt:
            case Let(name, _, extent, _):
                inside[name] = extent
            case For(name, extent, kind, _):
                inside[name] = extent.limit
                lanes |= {name} if kind is LoopKind.VECTOR else set()
            case Store(_, _, value):
                bounds = {b for e in walk(value) if isinstance(e, Guard) for b in e.bounds}
                for bound in bounds:
                    names = bound.index.names()
                    step = bound.index.coefficient(var)
                    if bound.index.is_affine() and step > 0 and names & lanes and names <= inside.keys():
                        yield _changes(bound, var, step, inside)
            case _:
                pass


def _changes(test: Bound, var: str, step: int, ranges: Mapping[str, int]) -> tuple[int, int, int, int]:
    """The first iterations in which a test holds in some lane, in all, no longer in all, and in none."""
    least, most = test.index.substitute({var: Index.of(0)}).bounds(ranges)

    def reached(distance: int) -> int:
        return -(-distance // step)

    return (
        reached(test.low - most),
        reached(test.low - least),
        reached(test.high - most),
        reached(test.high - least),
    )
