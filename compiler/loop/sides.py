"""Sides: lanes of a vector for which a guard does not hold read what it has outside, and no others do.

    y[lane] = p[lane] if lane < 3 else q[lane - 3]
    →  y[lane] = p[lane] if lane < 3 else (q[lane - 3] if -lane < -2 else 0)

Where a test differs between lanes, both sides of the guard are computed and one is selected. What is inside is computed
for the lanes in which the test holds, if these are the first (compiler.codegen.values): a test that holds in others is
turned round here, or becomes two. What the outside reads is guarded: in the other lanes it may lie in front of its
buffer, where there need not be any memory. A load that is zero elsewhere is a masked load, and stays one.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import assert_never

from compiler.index import Index
from compiler.loop.ir import Block, Buffer, For, If, Let, LoopKind, LoopNest, Stmt, Store, with_parts
from compiler.scalar import FAR, Bound, Const, Dot, Expr, Guard, Load, loads, rewrite, walk
from compiler.symbol import ranges_of


def guard_sides(nest: LoopNest) -> LoopNest:
    """Guard what may not be read by every lane."""
    body = _guard_sides(nest.body, ranges_of(nest.symbols), _Reads(nest.by_name, frozenset()))
    return nest if body is nest.body else replace(nest, body=body)


def _guard_sides(stmt: Stmt, ranges: Mapping[str, int], reads: _Reads) -> Stmt:
    match stmt:
        case For(var, extent, kind, body):
            around = replace(reads, lanes=reads.lanes | {var}) if kind is LoopKind.VECTOR else reads
            new = _guard_sides(body, {**ranges, var: extent.limit}, around)
            return stmt if new is body else replace(stmt, body=new)
        case Let(var, _, size):
            inner = {**ranges, var: size}
            return with_parts(stmt, lambda part: _guard_sides(part, inner, reads))
        case If(condition, then, otherwise):
            name = condition.index.name
            limit = {} if name is None else {name: min(ranges[name], condition.high)}
            a, b = _guard_sides(then, {**ranges, **limit}, reads), _guard_sides(otherwise, ranges, reads)
            return stmt if a is then and b is otherwise else If(condition, a, b)
        case Store(buffer, indices, value):
            guarded = reads.guarded(value, ranges) if reads.lanes else value
            return stmt if guarded is value else Store(buffer, indices, guarded)
        case Block():
            return with_parts(stmt, lambda part: _guard_sides(part, ranges, reads))
        case _:
            assert_never(stmt)


@dataclass(frozen=True, slots=True)
class _Reads:
    """The buffers of a nest, and the vector loops around a statement."""

    buffers: Mapping[str, Buffer]
    lanes: Set[str]

    def guarded(self, value: Expr, ranges: Mapping[str, int]) -> Expr:
        """The value, with what the other lanes may not read guarded in each of its guards."""

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Guard) or not self._differs(e) or self._is_masked(e):
                return None
            first, *others = e.bounds
            if not others:
                return self._ordered(first, e, ranges)
            first_lanes = all(self._begins(bound, ranges) for bound in e.bounds)
            if first_lanes and not self._strays(e.outside, ranges):
                return None
            inside = Guard(tuple(others), e.inside, _where(first, e.outside))
            one = Guard((first,), rule(inside) or inside, _unless(first, e.outside, ranges))
            return rule(one) or one

        return rewrite(value, rule)

    def _begins(self, test: Bound, ranges: Mapping[str, int]) -> bool:
        """Whether the first lanes of a vector pass a test if any do."""
        return not test.index.names() & self.lanes or test.index.bounds(ranges)[0] >= test.low

    def _ordered(self, test: Bound, guard: Guard, ranges: Mapping[str, int]) -> Expr | None:
        """A guard of one test as one whose test holds for the first lanes, or two of them."""
        if not test.index.names() & self.lanes:
            return None  # a branch
        begins, inside, outside = self._begins(test, ranges), guard.inside, guard.outside
        if begins and not self._strays(outside, ranges):
            return None
        if test.index.bounds(ranges)[1] >= test.high:
            upper = replace(test, low=-FAR)
            inside = Guard((upper,), inside, self._behind(upper, _unless(upper, outside, ranges), ranges))
        if begins:
            return inside
        lower = Bound(test.index, -FAR, test.low)
        return Guard((lower,), _where(lower, outside), self._behind(lower, inside, ranges))

    def _is_masked(self, guard: Guard) -> bool:
        """Whether it is a load behind a mask: whatever its tests, only lanes that pass them read."""
        load = guard.inside
        if not isinstance(load, Load) or not isinstance(guard.outside, Const):
            return False
        return any(index.names() & self.lanes for index in load.indices)

    def _differs(self, guard: Guard) -> bool:
        return any(bound.index.names() & self.lanes for bound in guard.bounds)

    def _strays(self, value: Expr, ranges: Mapping[str, int]) -> bool:
        """Whether it may read outside of a buffer somewhere; what an instruction reads is never behind a test."""
        if any(isinstance(e, Dot) for e in walk(value)):
            return False
        return any(self._may_leave(load, ranges) for load in loads(value))

    def _may_leave(self, load: Load, ranges: Mapping[str, int]) -> bool:
        buffer = self.buffers[load.buffer]
        if buffer.scope == "register":
            return False
        for index, size in zip(load.indices, buffer.shape, strict=True):
            if not isinstance(size, int) or not index.names() <= ranges.keys():
                return True
            low, high = index.bounds(ranges)
            if low < 0 or high >= size:
                return True
        return False

    def _behind(self, test: Bound, value: Expr, ranges: Mapping[str, int]) -> Expr:
        """The value, read only where the index of a test is not below its upper end."""
        above = Bound(test.index * -1, -FAR, 1 - test.high)

        def rule(e: Expr) -> Expr | None:
            match e:
                case Load() if self._may_leave(e, ranges) and self._moves_with(e, test):
                    return Guard((above,), e, Const(0, self.buffers[e.buffer].dtype))
                case Guard(bounds, Guard((bound,), Load() as load, Const()), Const() as outside) if (
                    bound == above
                ):
                    return Guard(_both(bounds, above), load, outside)
                case _:
                    return None

        return rewrite(value, rule)

    @staticmethod
    def _moves_with(load: Load, test: Bound) -> bool:
        return any(index.names() & test.index.names() for index in load.indices)


def _where(test: Bound, value: Expr) -> Expr:
    """The value where a test holds; without its tests of the same index that are decided there."""
    return _settled(test.index, test.low, test.high, value)


def _unless(test: Bound, value: Expr, ranges: Mapping[str, int]) -> Expr:
    """The value where a test does not hold, if it has one end only; without its tests that are decided there."""
    if not test.index.names() <= ranges.keys():
        return value
    least, most = test.index.bounds(ranges)
    if test.low <= least:
        return _settled(test.index, test.high, most + 1, value)
    return _settled(test.index, least, test.low, value) if test.high > most else value


def _settled(index: Index, low: int, high: int, value: Expr) -> Expr:
    """The value where low <= index < high.

    Without this a chain of guards, each of several tests, would be copied for each of them, and so on for each copy.
    """

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Guard) or all(bound.index != index for bound in e.bounds):
            return None
        if any(b.index == index and (b.high <= low or high <= b.low) for b in e.bounds):
            return e.outside
        left = tuple(b for b in e.bounds if b.index != index or not b.low <= low < high <= b.high)
        if len(left) == len(e.bounds):
            return None
        return replace(e, bounds=left) if left else e.inside

    return rewrite(value, rule)


def _both(bounds: tuple[Bound, ...], bound: Bound) -> tuple[Bound, ...]:
    """All tests, one of the index of the last."""
    alike = [b for b in (*bounds, bound) if b.index == bound.index]
    one = Bound(bound.index, max(b.low for b in alike), min(b.high for b in alike))
    return (*(b for b in bounds if b.index != bound.index), one)
