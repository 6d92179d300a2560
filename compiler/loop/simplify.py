"""Simplify: the same nest with fewer words. One-iteration loops, decided tests and trivial indices disappear.

Idempotent, and returns the same object when there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from compiler.index import Index
from compiler.loop.ir import ROOT_KINDS, Block, Extent, For, If, Let, LoopKind, LoopNest, Stmt, Store, block
from compiler.loop.ir import extent as make_extent
from compiler.scalar import FAR, Bound, Expr, Guard, map_indices, rewrite
from compiler.symbol import ranges_of


def simplify(nest: LoopNest) -> LoopNest:
    """Simplify the whole nest."""
    body = simplify_statement(nest.body, ranges_of(nest.symbols))
    return nest if body is nest.body else replace(nest, body=body)


def substitute_statement(stmt: Stmt, bindings: Mapping[str, Index]) -> Stmt:
    """Replace names everywhere in a statement."""
    match stmt:
        case For(var, extent, kind, body):
            return For(var, extent.substitute(bindings), kind, substitute_statement(body, bindings))
        case Let(_, value, _, body):
            inner = substitute_statement(body, bindings)
            return replace(stmt, value=value.substitute(bindings), body=inner)
        case If(c, then, otherwise):
            condition = Bound(c.index.substitute(bindings), c.low, c.high)
            return If(
                condition, substitute_statement(then, bindings), substitute_statement(otherwise, bindings)
            )
        case Store(buffer, indices, value):
            new = map_indices(value, lambda i: i.substitute(bindings))
            return Store(buffer, tuple(i.substitute(bindings) for i in indices), new)
        case Block(statements):
            return Block(tuple(substitute_statement(s, bindings) for s in statements))
        case _:
            assert_never(stmt)


def simplify_statement(stmt: Stmt, ranges: Mapping[str, int]) -> Stmt:
    """Simplify a statement whose free names run over the given ranges."""
    match stmt:
        case For():
            return _for(stmt, ranges)
        case Let(var, value, extent, body):
            known = value.simplify(ranges)
            if known.constant is not None:
                return simplify_statement(substitute_statement(body, {var: known}), ranges)
            inner = simplify_statement(body, {**ranges, var: extent})
            return stmt if inner is body and known is value else replace(stmt, value=known, body=inner)
        case If(c, then, otherwise):
            decided = decide(c, ranges)
            if decided is not None:
                return simplify_statement(then if decided else otherwise, ranges)
            a, b = simplify_statement(then, ranges), simplify_statement(otherwise, ranges)
            return stmt if a is then and b is otherwise else If(c, a, b)
        case Store(buffer, indices, value):
            new_indices = tuple(i.simplify(ranges) for i in indices)
            new_value = simplify_value(value, ranges)
            same = new_value is value and all(a is b for a, b in zip(new_indices, indices, strict=True))
            return stmt if same else Store(buffer, new_indices, new_value)
        case Block(statements):
            new = tuple(simplify_statement(s, ranges) for s in statements)
            return stmt if all(a is b for a, b in zip(new, statements, strict=True)) else block(*new)
        case _:
            assert_never(stmt)


def simplify_extent(extent: Extent, ranges: Mapping[str, int]) -> Extent:
    """Drop a bound that the ranges make superfluous."""
    if extent.bound is None or extent.bound.constant is not None:
        return extent
    if extent.bound.bounds(ranges)[0] >= extent.limit:
        return Extent(extent.limit)
    bound = extent.bound.simplify(ranges)
    return extent if bound is extent.bound else make_extent(extent.limit, bound)


def decide(condition: Bound, ranges: Mapping[str, int]) -> bool | None:
    """Whether a test always or never holds; None where that depends."""
    low, high = condition.index.bounds(ranges)
    if condition.low <= low and high < condition.high:
        return True
    return False if high < condition.low or low >= condition.high else None


def simplify_value(value: Expr, ranges: Mapping[str, int]) -> Expr:
    """Simplify indices, and drop guards that always or never hold."""
    simplified = map_indices(value, lambda i: i.simplify(ranges))
    simplified = rewrite(simplified, lambda e: _guard(e, ranges) if isinstance(e, Guard) else None)
    return value if simplified is value or simplified == value else simplified


def _guard(guard: Guard, ranges: Mapping[str, int]) -> Expr:
    verdicts = [decide(b, ranges) for b in guard.bounds]
    if False in verdicts:
        return guard.outside
    bounds = tuple(b for b, verdict in zip(guard.bounds, verdicts, strict=True) if verdict is None)
    if not bounds:
        return guard.inside
    outside = _behind(bounds[0], guard.outside, ranges) if len(bounds) == 1 else guard.outside
    same = len(bounds) == len(guard.bounds) and outside is guard.outside
    return guard if same else Guard(bounds, guard.inside, outside)


def _behind(bound: Bound, value: Expr, ranges: Mapping[str, int]) -> Expr:
    """The value of a guard where its one test fails: above, if it never fails below, as in the parts of a join."""
    if not isinstance(value, Guard) or bound.index.bounds(ranges)[0] < bound.low:
        return value
    known = [b.index == bound.index and -FAR < b.low <= bound.high for b in value.bounds]
    if not any(known):
        return value
    bounds = (replace(b, low=-FAR) if k else b for b, k in zip(value.bounds, known, strict=True))
    return _guard(replace(value, bounds=tuple(bounds)), ranges)


def _for(stmt: For, ranges: Mapping[str, int]) -> Stmt:
    extent = simplify_extent(stmt.extent, ranges)
    if extent.bound is not None and extent.bound.constant is not None and stmt.kind is not LoopKind.VECTOR:
        extent = Extent(extent.bound.const)  # a vector keeps its length, and masks the rest
    if extent == Extent(1) and stmt.kind not in ROOT_KINDS:
        return simplify_statement(substitute_statement(stmt.body, {stmt.var: Index()}), ranges)
    body = simplify_statement(stmt.body, {**ranges, stmt.var: extent.limit})
    return stmt if extent is stmt.extent and body is stmt.body else For(stmt.var, extent, stmt.kind, body)
