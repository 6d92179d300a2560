"""Skip: what only adds zero is not done, nor what only compares with the least.

Where a sum's term is zero outside of some bounds (a padded window), the test moves from the term to the loop around it:

    for r: for c: t[i] += (x[i + r - 1, c] if 0 <= i + r - 1 < n else 0) * k[r, c]
    →  for r: if 0 <= i + r - 1 < n: for c: t[i] += x[i + r - 1, c] * k[r, c]

A test that differs between the elements of a tile (unrolled loops that the sum's place moves with) stays, but where it
may fail for a whole tile (a dilation wider than that): whether it holds for any of them, and for all, is tested around
the loops.

    for r: for c: for i in 0..4 unrolled: t[i] += (x[i + 4 j + 18 r - 18, c] if ... else 0) * k[r, c]
    →  for r: if 0 <= 4 j + 18 r - 18 + 3 and 4 j + 18 r - 18 < n:
                  if ... for the first and the last i: the loops without the test
                  else: the loops as they were

One that differs between the lanes of a vector stays, and so does one that fails at the end alone (compiler.loop.peel).
What padding is multiplied by does not matter then, not even where it is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import assert_never

from compiler.index import Index
from compiler.loop.ir import Block, For, If, Let, LoopKind, LoopNest, Stmt, Store, block
from compiler.loop.simplify import decide
from compiler.scalar import Apply, Bound, Const, Expr, Guard, Load, rewrite
from compiler.scalar_type import neutral
from compiler.symbol import ranges_of

_NOTHING = Block(())
_REDUCERS = {"add": "sum", "max": "max", "larger": "largest", "min": "min"}
"""Of the operation that a store applies to its place."""


def skip(nest: LoopNest) -> LoopNest:
    """Move every test that can be moved."""
    body = _skip(nest.body, ranges_of(nest.symbols), _Tile())
    return nest if body is nest.body else replace(nest, body=body)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Names of the vector and the unrolled loops around, and of what is computed from them."""

    lanes: Set[str] = frozenset()
    unrolled: Set[str] = frozenset()

    def inside(self, loop: For) -> _Tile:
        """Also the loop."""
        match loop.kind:
            case LoopKind.VECTOR:
                return replace(self, lanes=self.lanes | {loop.var})
            case LoopKind.UNROLLED:
                return replace(self, unrolled=self.unrolled | {loop.var})
            case _:
                return self

    def let(self, var: str, names: Set[str]) -> _Tile:
        """Also a name for what is computed from others."""
        return _Tile(
            self.lanes | {var} if names & self.lanes else self.lanes,
            self.unrolled | {var} if names & self.unrolled else self.unrolled,
        )


def _skip(stmt: Stmt, ranges: Mapping[str, int], tile: _Tile) -> Stmt:
    match stmt:
        case For(var, extent, kind, body):
            new = _skip(body, {**ranges, var: extent.limit}, tile.inside(stmt))
            return stmt if new is body else _around(var, new, lambda inner: For(var, extent, kind, inner))
        case Let(var, value, size, body):
            new = _skip(body, {**ranges, var: size}, tile.let(var, value.names()))
            return stmt if new is body else _around(var, new, lambda inner: replace(stmt, body=inner))
        case If(c, then, otherwise):
            a, b = _skip(then, ranges, tile), _skip(otherwise, ranges, tile)
            return stmt if a is then and b is otherwise else If(c, a, b)
        case Store():
            return _tested(stmt, ranges, tile)
        case Block(statements):
            new_statements = tuple(_skip(s, ranges, tile) for s in statements)
            same = all(a is b for a, b in zip(new_statements, statements, strict=True))
            return stmt if same else block(*new_statements)
        case _:
            assert_never(stmt)


def _around(var: str, body: Stmt, loop: Callable[[Stmt], Stmt]) -> Stmt:
    """The loop, inside those tests of its body that it does not move."""
    match body:
        case If(condition, then, otherwise) if var not in condition.index.names():
            other = otherwise if otherwise == _NOTHING else _around(var, otherwise, loop)
            return If(condition, _around(var, then, loop), other)
        case _:
            return loop(body)


def _tested(store: Store, ranges: Mapping[str, int], tile: _Tile) -> Stmt:
    """The store inside the tests without which its term changes nothing; those of its own loops stand innermost."""
    place = Load(store.buffer, store.indices)
    match store.value:
        case Apply(op, (Load() as old, term)) if old == place and op in _REDUCERS:
            pass
        case _:
            return store
    moved = tile.unrolled & {str(name) for index in store.indices for name in index.names()}
    needed = _needed(term, _REDUCERS[op])
    taken = [b for b in needed if not b.index.names() & (tile.lanes | moved) and _pads_in_front(b, ranges)]
    wide = next((b for b in needed if not b.index.names() & tile.lanes and _is_wide(b, moved, ranges)), None)

    def without(dropped: Sequence[Bound]) -> Stmt:
        rest = rewrite(term, lambda e: _without(e, dropped) if isinstance(e, Guard) else None)
        return Store(store.buffer, store.indices, Apply(op, (place, rest))) if dropped else store

    new = without(taken)
    if wide is not None:
        some, every = _over_tile(wide, moved, ranges)
        new = If(some, If(every, without([*taken, wide]), new), _NOTHING)
    for bound in taken:
        new = If(bound, new, _NOTHING)
    return new


def _is_wide(bound: Bound, moved: Set[str], ranges: Mapping[str, int]) -> bool:
    """Whether a test differs between the elements of a tile, and may fail for all of them.

    Neighbouring taps lie further apart then than the tile is long, as the next tile does.
    """
    index = bound.index
    inside = {
        name for atom, _ in index.terms if not isinstance(atom, str) for name in Index(((atom, 1),)).names()
    }
    if not moved & index.names() or inside & moved or not index.names() <= ranges.keys():
        return False
    length = sum(abs(index.coefficient(name)) * (ranges[name] - 1) for name in moved)
    apart = sum(abs(index.coefficient(name)) > length for name in index.names() - moved)
    return apart > 1 and decide(_over_tile(bound, moved, ranges)[0], ranges) is None


def _over_tile(bound: Bound, moved: Set[str], ranges: Mapping[str, int]) -> tuple[Bound, Bound]:
    """Where a test holds for some, and for all, of a tile's elements."""
    steps = [bound.index.coefficient(name) * (ranges[name] - 1) for name in moved & bound.index.names()]
    low, high = sum(min(0, s) for s in steps), sum(max(0, s) for s in steps)
    first = bound.index.substitute({name: Index.of(0) for name in moved})
    return Bound(first, bound.low - high, bound.high - low), Bound(first, bound.low - low, bound.high - high)


def _pads_in_front(bound: Bound, ranges: Mapping[str, int]) -> bool:
    """Whether the index comes from below; where it only runs past the end, the last iteration is peeled."""
    return bound.index.names() <= ranges.keys() and bound.index.bounds(ranges)[0] < bound.low


def _needed(term: Expr, reducer: str) -> tuple[Bound, ...]:
    """Bounds outside of which a term changes nothing."""
    match term:
        case Guard(bounds, _, Const(value, dtype)) if value == neutral(reducer, dtype).value:
            return bounds
        case Apply("mul", (first, second)) if reducer == "sum":
            return (*_needed(first, reducer), *_needed(second, reducer))
        case _:
            return ()


def _without(guard: Guard, taken: Sequence[Bound]) -> Expr:
    rest = tuple(b for b in guard.bounds if b not in taken)
    return Guard(rest, guard.inside, guard.outside) if rest else guard.inside
