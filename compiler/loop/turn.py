"""Turn: a local buffer lies along the lanes that write and read it.

    local p: f32[64, 2]                                          local p: f32[2, 64]
    for i in 0..2 unrolled: for j in 0..64 vector: p[j, i]   →   the same accesses at p[i, j]

Nobody else sees such a buffer, and only what lies side by side is a vector in a register (compiler.loop.promote).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar, assert_never

from compiler.index import Index
from compiler.loop.ir import Block, For, If, Let, LoopKind, LoopNest, Stmt, Store, with_parts
from compiler.scalar import Expr, Load, loads, rewrite

_Order = tuple[int, ...]
T = TypeVar("T")


def turn(nest: LoopNest) -> LoopNest:
    """Reorder the dimensions of local buffers of which all vectors move the same one; else the same nest."""
    local = {b.name: b.shape for b in nest.buffers if b.scope == "local"}
    moved: dict[str, set[int]] = {name: set() for name in local}
    for name, indices, lanes in _accesses(nest.body, (), {}) if local else ():
        if name in local:
            moved[name] |= {d for d, index in enumerate(indices) if index.names() & set(lanes)}
    orders = {
        name: (*(d for d in range(len(local[name])) if d not in dims), *dims)
        for name, dims in moved.items()
        if len(dims) == 1 and any(size != 1 for size in local[name][min(dims) + 1 :])
    }
    if not orders:
        return nest
    buffers = (
        replace(b, shape=_turned(b.shape, orders[b.name])) if b.name in orders else b for b in nest.buffers
    )
    return replace(nest, buffers=tuple(buffers), body=_rewritten(nest.body, orders))


def _turned(parts: tuple[T, ...], order: _Order) -> tuple[T, ...]:
    return tuple(parts[d] for d in order)


def _rewritten(stmt: Stmt, orders: Mapping[str, _Order]) -> Stmt:
    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in orders:
            return None
        return Load(e.buffer, _turned(e.indices, orders[e.buffer]))

    if isinstance(stmt, Store):
        order = orders.get(stmt.buffer)
        indices = stmt.indices if order is None else _turned(stmt.indices, order)
        return Store(stmt.buffer, indices, rewrite(stmt.value, rule))
    return with_parts(stmt, lambda part: _rewritten(part, orders))


def _accesses(
    stmt: Stmt, lanes: tuple[str, ...], lets: Mapping[str, Index]
) -> Iterator[tuple[str, tuple[Index, ...], tuple[str, ...]]]:
    """Buffer, indices in terms of loops, and the vector loops around, of each store and load."""
    match stmt:
        case For(var, _, kind, body):
            yield from _accesses(body, (*lanes, var) if kind is LoopKind.VECTOR else lanes, lets)
        case Let(var, value, _, body):
            yield from _accesses(body, lanes, {**lets, var: value.substitute(lets)})
        case If(_, then, otherwise):
            yield from _accesses(then, lanes, lets)
            yield from _accesses(otherwise, lanes, lets)
        case Block(statements):
            for statement in statements:
                yield from _accesses(statement, lanes, lets)
        case Store(buffer, indices, value):
            for name, places in ((buffer, indices), *((e.buffer, e.indices) for e in loads(value))):
                yield name, tuple(index.substitute(lets) for index in places), lanes
        case _:
            assert_never(stmt)
