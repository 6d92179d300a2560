"""Skip: what only adds zero is not done, nor what only compares with the least.

Where a sum's term is zero outside of some bounds (a padded window), the test moves from the term to the loop around it:

    for r: for c: t[i] += (x[i + r - 1, c] if 0 <= i + r - 1 < n else 0) * k[r, c]
    →  for r: if 0 <= i + r - 1 < n: for c: t[i] += x[i + r - 1, c] * k[r, c]

A test that differs between the elements of a tile (unrolled loops that the sum's place moves with) or between the lanes
of a vector stays, and so does one that fails at the end alone (compiler.loop.peel). What padding is multiplied by does
not matter then, not even where it is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import assert_never

from compiler.loop.ir import Block, For, If, Let, LoopKind, LoopNest, Stmt, Store, block
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
    if isinstance(body, If) and body.otherwise == _NOTHING and var not in body.condition.index.names():
        return If(body.condition, _around(var, body.then, loop), _NOTHING)
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
    differs = tile.lanes | moved
    taken = [
        b for b in _needed(term, _REDUCERS[op]) if not b.index.names() & differs and _pads_in_front(b, ranges)
    ]
    if not taken:
        return store
    rest = rewrite(term, lambda e: _without(e, taken) if isinstance(e, Guard) else None)
    new: Stmt = Store(store.buffer, store.indices, Apply(op, (place, rest)))
    for bound in taken:
        new = If(bound, new, _NOTHING)
    return new


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
