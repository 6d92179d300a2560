"""Fetching between instructions on matrices: while a tile is summed up, the lines that its map stores to come nearer.

    for k: t += x[k] * w[k]            for rows: y[row] = max(t[row] + r[row], 0)
    →  for k: (t += x[k] * w[k]; prefetch y[row(k)], r[row(k)])            for rows: ...

A line that is stored to must be in the first cache. The map of a tile stores to many at once, which fill the core's
store buffer, and nothing behind them begins: neither does the next tile. Between the products, which are few and long,
they are waited for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from compiler.codegen.matrices import MatrixNest
from compiler.codegen.streamed import is_larger, is_straight, known_loads
from compiler.index import Index
from compiler.loop.ir import Buffer, For, Let, Stmt, Store, walk_statements
from compiler.scalar import Load
from compiler.target import Target

LONGEST = 48 * 1024
"""Groups of products of a tile's columns, about 3,000 cycles: longer sums gained nothing."""


def woven_rows(nest: MatrixNest, after: Sequence[Stmt]) -> list[Let]:
    """What follows the sums of a tile, a row at a time: those whose lines one step of its products fetches.

    Every step has its own, counted by the loops around it. None where no loop over rows follows.
    """
    rows = after[0] if after else None
    loops = list(_steps(nest))
    if not isinstance(rows, For) or rows.extent.bound is not None or not _in_lines(rows.body):
        return []
    if any(loop.extent.bound is not None for loop in loops):
        return []
    steps, count = prod(loop.extent.limit for loop in loops), rows.extent.limit
    if steps * prod(nest.loops.values()) > LONGEST:
        return []
    number = Index()
    for loop in loops:
        number = number * loop.extent.limit + loop.var
    first = number * count // steps  # never beyond the tile: another thread may be storing there
    return [Let(rows.var, first + place, count, rows.body) for place in range(-(-count // steps))]


def woven_places(stmt: Store, buffers: Mapping[str, Buffer], target: Target) -> Iterator[tuple[Load, bool]]:
    """What a statement of a row stores to and reads that may not be in the first cache, and whether it stores."""
    places = [(load, False) for load in known_loads(stmt)]
    if not any(index.looked_up() for index in stmt.indices):
        places.append((Load(stmt.buffer, stmt.indices), True))
    for load, writes in places:
        buffer = buffers[load.buffer]
        if buffer.role not in (None, "constant") and is_larger(buffer, target.l1_bytes // 2):
            yield load, writes


def _steps(nest: MatrixNest) -> Iterator[For]:
    """The loops around the products of a nest, outermost first."""
    stmt: Stmt = nest.root
    while stmt is not nest.body and isinstance(stmt, For):
        yield stmt
        stmt = stmt.body


def _in_lines(stmt: Stmt) -> bool:
    """Whether a row is stored without loops or tests."""
    return all(is_straight(inner) for inner in walk_statements(stmt))
