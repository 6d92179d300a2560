"""Peel: main and edge tiles get code of their own.

Where the extent of a vector or unrolled loop, or the test of a guard, is different in the last iteration of a loop v,

    for v in 0..n: body    →    for v in 0..n-1: body (full tiles)
                                body with v = n - 1 (short ones)

(a loop over tiles tests `v < n - 1` instead; one of a sum, or over the pieces of a row, does not), so that both have
constant extents: full tiles run without masks, edge tiles with constant ones, never in scalar code.
The first iteration gets code of its own where a guard is different there (the left border of a padded window), and so
do the first and last few of a sum (the taps that read padding there). So do the first and the last where unrolled loops
repeat a test that is open there.
Extents over symbols are settled before (compiler.loop.settle).

Borders along many axes multiply (three for each axis of a window in space and time). Where that would be more code than
a phase may have, the outermost loops stay whole, and test in each iteration what the others know. Only their last
iteration is apart where unrolled loops are shorter in it: copies have to be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from compiler.index import Index
from compiler.loop.count import LOOP_LIMIT, most_loops
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
    sub_statements,
    walk_statements,
    with_parts,
)
from compiler.loop.simplify import decide, simplify_extent, simplify_statement, substitute_statement
from compiler.scalar import Bound, Guard, walk
from compiler.symbol import ranges_of

_COPIED = (LoopKind.VECTOR, LoopKind.UNROLLED)
FEW = 3
"""Iterations of a loop that may all be ends."""
MOST_ENDS = 2
"""Tiles at either end that get code of their own: windows of five reach over a border from a short tile and the one
before."""
MOST_COPIES = 16
"""Vectors of an iteration that follow each other in a row's code."""
MOST_TAPS = 4
"""Iterations of a sum at either end that get code of their own: three taps of a window of seven, and a missing row."""


def peel(nest: LoopNest) -> LoopNest:
    """Peel every loop that needs it. The nest must be simplified."""
    ranges = ranges_of(nest.symbols)
    depth = max(_depth(phase) for phase in nest.phases)
    for whole in range(depth + 1):
        body = _peel_within(nest.body, whole, ranges)
        if body is nest.body:
            return nest
        peeled = replace(nest, body=simplify_statement(body, ranges))
        if most_loops(peeled) <= LOOP_LIMIT:
            return peeled
    return nest


def _depth(stmt: Stmt) -> int:
    inside = max(map(_depth, sub_statements(stmt)), default=0)
    return inside + isinstance(stmt, For)


def _peel_within(stmt: Stmt, whole: int, ranges: Mapping[str, int]) -> Stmt:
    """`_peel` inside of so many loops, which stay whole."""
    if not whole:
        return _peel(stmt, ranges)
    match stmt:
        case For(var, extent, kind, body):
            counted = extent.limit if extent.bound is None and kind not in _COPIED else 1
            new = _last_apart(var, counted, body, whole - 1, {**ranges, var: extent.limit})
            return stmt if new is body else replace(stmt, body=new)
        case Let(var, _, size, body, bound):
            new = _last_apart(var, 1 if bound is not None else size, body, whole, {**ranges, var: size})
            return stmt if new is body else replace(stmt, body=new)
        case _:
            return with_parts(stmt, lambda part: _peel_within(part, whole, ranges))


def _last_apart(var: str, size: int, body: Stmt, whole: int, ranges: Mapping[str, int]) -> Stmt:
    """`_peel_within` of a body, with code of its own for the last iteration if unrolled loops are shorter there.

    `size`: how many iterations there are; 1 where the last one is not known.
    """
    if size <= 1 or not _cuts_copies(body, var, ranges):
        return _peel_within(body, whole, ranges)
    last, before = size - 1, {**ranges, var: size - 1}
    full = _peel_within(simplify_statement(body, before), whole, before)
    known = simplify_statement(substitute_statement(body, {var: Index.of(last)}), ranges)
    return If(Bound(Index.of(var), 0, last), full, _peel_within(known, whole, ranges))


def _cuts_copies(body: Stmt, var: str, ranges: Mapping[str, int]) -> bool:
    """Whether an unrolled loop is shorter in the last iteration of `var`."""
    inside = dict(ranges)
    for stmt in walk_statements(body):
        match stmt:
            case Let(name, _, size):
                inside[name] = size
            case For(name, extent, kind):
                inside[name] = extent.limit
                if kind is LoopKind.UNROLLED and _shorter(extent, var, inside):
                    return True
            case _:
                pass
    return False


def _peel(stmt: Stmt, ranges: Mapping[str, int]) -> Stmt:
    match stmt:
        case For(var, extent, LoopKind.SERIAL, body) if extent.bound is None and (
            _sums(var, body) or _is_short(body)
        ):
            return _in_turn(stmt, ranges)
        case For(var, extent, kind, body):
            inner = {**ranges, var: extent.limit}
            new = _peel(body, inner) if kind in _COPIED else _split_ends(var, extent, body, inner)
            return stmt if new is body else For(var, extent, kind, new)
        case Let(var, _, size, body, bound):
            new = _split_ends(var, Extent(size, bound), body, {**ranges, var: size})
            return stmt if new is body else replace(stmt, body=new)
        case _:
            return with_parts(stmt, lambda part: _peel(part, ranges))


def _in_turn(loop: For, ranges: Mapping[str, int]) -> Stmt:
    """A loop of a sum or along a row: its first ends, its middle and its last ends follow each other, without a test.

    Tiles do not: LLVM would schedule those that follow each other as one, with too few registers for both.
    """
    var, size, body = loop.var, loop.extent.limit, loop.body
    start, stop = _middle_range(var, loop.extent, body, ranges)
    if (start, stop) == (0, size):
        new = _peel(body, {**ranges, var: size})
        return loop if new is body else replace(loop, body=new)
    middle: list[Stmt] = []
    if stop > start:
        within = {**ranges, var: stop - start}
        moved = substitute_statement(body, {var: Index.of(var) + start}) if start else body
        full = _peel(simplify_statement(moved, within), within)
        middle = [replace(loop, extent=Extent(stop - start), body=full)]
    before, after = range(start), range(stop, size)
    ends = {at: _end(var, at, body, ranges) for at in (*before, *after)}
    return block(*(ends[at] for at in before), *middle, *(ends[at] for at in after))


def _is_short(body: Stmt) -> bool:
    """Whether an iteration is a few vectors, whose values need no registers afterwards: a piece of a row."""
    copies = 0
    for stmt, times in _copies(body, 1):
        if not isinstance(stmt, Store):
            return False
        copies += times
    return copies <= MOST_COPIES


def _copies(stmt: Stmt, times: int) -> Iterator[tuple[Stmt, int]]:
    """The statements of a body without loops that run, with how often they are copied; others as they are."""
    match stmt:
        case For(_, _, LoopKind.VECTOR, body):
            yield from _copies(body, times)
        case For(_, extent, LoopKind.UNROLLED, body):
            yield from _copies(body, times * extent.limit)
        case Block(statements):
            for inner in statements:
                yield from _copies(inner, times)
        case _:
            yield stmt, times


def _sums(var: str, body: Stmt) -> bool:
    """Whether all iterations store at the same places."""
    stores = (s for s in walk_statements(body) if isinstance(s, Store))
    return all(var not in index.names() for s in stores for index in s.indices)


def _split_ends(var: str, extent: Extent, body: Stmt, ranges: Mapping[str, int]) -> Stmt:
    start, stop = _middle_range(var, extent, body, ranges)
    if (start, stop) == (0, extent.limit):
        return _peel(body, ranges)
    result = _middle(var, start, stop, body, ranges)
    for end in (*range(stop, extent.limit), *reversed(range(start))):
        edge = _end(var, end, body, ranges)
        if result is None:
            result = edge
        elif end < start:
            result = If(Bound(Index.of(var), 0, end + 1), edge, result)
        else:
            result = If(Bound(Index.of(var), start, end), result, edge)
    assert result is not None
    return result


def _middle_range(var: str, extent: Extent, body: Stmt, ranges: Mapping[str, int]) -> tuple[int, int]:
    """Where the iterations begin and end that are alike."""
    size = extent.limit
    if extent.bound is not None or size <= 1:
        return 0, size
    first, last = _open_ends(body, var, {**ranges, var: size})
    start = min(first, size)
    return start, max(start, size - last)


def _end(var: str, at: int, body: Stmt, ranges: Mapping[str, int]) -> Stmt:
    """The body of one iteration."""
    known = substitute_statement(body, {var: Index.of(at)})
    return _peel(simplify_statement(known, ranges), ranges)


def _middle(var: str, start: int, stop: int, body: Stmt, ranges: Mapping[str, int]) -> Stmt | None:
    """The body for start <= var < stop; None where that is empty."""
    if stop <= start:
        return None
    inner = {**ranges, var: stop}
    if not start:
        return _peel(simplify_statement(body, inner), inner)
    moved, inner = f"{var}'", {**inner, f"{var}'": stop - start}
    shifted = substitute_statement(body, {var: Index.of(moved) + start})
    full = _peel(simplify_statement(shifted, inner), inner)
    return Let(moved, Index.of(var) - start, stop - start, full)


def _open_ends(body: Stmt, var: str, ranges: Mapping[str, int]) -> tuple[int, int]:
    """In how many of the first and of the last iterations of `var` an extent or a guard's test is different."""
    inside = dict(ranges)
    first = last = 0
    own: set[str] = {var}
    copied: set[int] | None = None
    for stmt in walk_statements(body):
        match stmt:
            case Let(name, _, extent, _):
                inside[name] = extent
                own.add(name)
            case For(name, extent, kind, _):
                inside[name] = extent.limit
                own.add(name)
                last = max(last, int(kind in _COPIED and _shorter(extent, var, inside)))
            case Store(_, indices, value):
                tests = {b for e in walk(value) if isinstance(e, Guard) for b in e.bounds}
                sums = not any(var in index.names() for index in indices)
                for test in tests:
                    at_first, at_last = _open(test, var, inside, MOST_TAPS if sums else MOST_ENDS)
                    few = ranges[var] <= FEW and at_first == at_last == 0
                    if few and _is_settled(test, var, own, inside):
                        return ranges[var] - 1, 1
                    first, last = max(first, at_first), max(last, at_last)
            case If(test):
                copied = set(_copied_tests(body)) if copied is None else copied
                at_first, at_last = _open(test, var, inside, 1) if id(stmt) in copied else (0, 0)
                first, last = max(first, at_first), max(last, at_last)
            case _:
                pass
    return first, last


def _copied_tests(body: Stmt) -> Iterator[int]:
    """Identities of the tests that unrolled loops repeat, without serial ones: each cuts a tile's code in pieces.

    They count where they are open at one end each at most: tiles of pooling have loops of their own in each piece.
    """
    for loop in walk_statements(body):
        if isinstance(loop, For) and loop.kind is LoopKind.UNROLLED:
            inside = list(walk_statements(loop.body))
            if all(stmt.kind in _COPIED for stmt in inside if isinstance(stmt, For)):
                yield from (id(stmt) for stmt in inside if isinstance(stmt, If))


def _shorter(extent: Extent, var: str, ranges: Mapping[str, int]) -> bool:
    if extent.bound is None or var not in extent.bound.names():
        return False
    known = {**ranges, **{n: ranges.get(n, 1) for n in extent.bound.names()}}
    return simplify_extent(extent, known).bound is not None


def _open(test: Bound, var: str, ranges: Mapping[str, int], most: int) -> tuple[int, int]:
    """In how many first and last iterations of `var`, at most so many, a test is open; it holds in all others."""
    if var not in test.index.names() or not test.index.names() <= ranges.keys():
        return 0, 0
    if decide(test, ranges) is not None:
        return 0, 0
    ends = sorted(product(range(most + 1), repeat=2), key=lambda e: (sum(e), e))
    for first, last in ends:
        start, stop = first, ranges[var] - last
        index = test.index.substitute({var: Index.of(var) + start})
        if stop > start and decide(Bound(index, test.low, test.high), {**ranges, var: stop - start}):
            return first, last
    return 0, 0


def _is_settled(test: Bound, var: str, own: set[str], ranges: Mapping[str, int]) -> bool:
    """Whether a test that is open depends on `var` and on nothing else that lies around it."""
    names = test.index.names()
    return var in names and names <= own and decide(test, ranges) is None
