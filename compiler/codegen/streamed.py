"""Fetching what follows a sum: while a tile is summed up, what its map reads comes nearer.

    for k: a[rows] += x[rows, k] * w[k]          y[rows] = max(a[rows] + r[rows], 0)
    →  prefetch r[rows];  for k: ...;  y[rows] = ...

Each tile reads its own part of such an operand, once, so nothing has brought it nearer before; the multiply-adds before
it are too many for the machine to look past. Worth an instruction per line where the operand is too large to have
stayed in the second cache and the sum lasts long enough to hide the way from beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from compiler.index import Index
from compiler.loop.ir import Block, Buffer, For, If, LoopKind, Stmt, Store, sub_statements, walk_statements
from compiler.scalar import Load, loads
from compiler.symbol import product
from compiler.target import Target

LEAST_SUM = 256
"""Multiply-adds of vectors in a tile's sum that hide a line from beyond the second cache."""


def streamed_after(
    statements: Sequence[Stmt], buffers: Mapping[str, Buffer], target: Target
) -> tuple[int, frozenset[str]]:
    """Place of the first sum among the statements of a block, and the buffers whose parts are fetched before it.

    The statements after it read them. There may be none.
    """
    sums = [place for place, stmt in enumerate(statements) if _is_sum(stmt, buffers)]
    if not sums or target.grid_threads or _length(statements[sums[0]]) < LEAST_SUM:
        return 0, frozenset()
    rest = statements[sums[0] + 1 :]
    if not all(is_straight(inner) for stmt in rest for inner in walk_statements(stmt)):
        return 0, frozenset()
    read = {load.buffer for stmt in rest for load in _reads(stmt)}
    summed = {load.buffer for place in sums for load in _reads(statements[place])}
    large = {name for name in read - summed if is_larger(buffers[name], target.l2_bytes // 2)}
    return sums[0], frozenset(name for name in large if buffers[name].role == "input")


def _is_sum(stmt: Stmt, buffers: Mapping[str, Buffer]) -> bool:
    return _is_serial(stmt) and all(
        buffers[inner.buffer].scope == "register"
        for inner in walk_statements(stmt)
        if isinstance(inner, Store)
    )


def _is_serial(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL


def is_straight(stmt: Stmt) -> bool:
    """Whether a statement leaves no loop and no test in the code, sums aside."""
    return isinstance(stmt, Block | Store) or (
        isinstance(stmt, For) and stmt.kind in (LoopKind.UNROLLED, LoopKind.VECTOR)
    )


def _length(stmt: Stmt) -> int:
    """Stores of a statement, a vector as one."""
    if isinstance(stmt, Store):
        return 1
    counts = [_length(child) for child in sub_statements(stmt)]
    if isinstance(stmt, If):
        return max(counts)
    if isinstance(stmt, For) and stmt.kind is not LoopKind.VECTOR:
        return sum(counts) * stmt.extent.limit
    return sum(counts)


def known_loads(store: Store) -> Iterator[Load]:
    """What a statement reads at places that are known before it is carried out: not those that it looks up."""
    return (load for load in loads(store.value) if not any(index.looked_up() for index in load.indices))


def places_read(store: Store, buffers: Set[str]) -> Iterator[tuple[Load, bool]]:
    """What a statement reads of some buffers; it stores nothing there."""
    return ((load, False) for load in known_loads(store) if load.buffer in buffers)


def _reads(stmt: Stmt) -> Iterator[Load]:
    for inner in walk_statements(stmt):
        if isinstance(inner, Store):
            yield from known_loads(inner)


def is_larger(buffer: Buffer, size_bytes: int) -> bool:
    """Whether a buffer has more bytes; what depends on symbols may have."""
    elements = product(Index.of(size) for size in buffer.shape).constant
    return elements is None or elements * buffer.dtype.size_bytes > size_bytes
