"""Horizontal: the lanes of a vector as one number; of several vectors at the same time, side by side in one.

    v       (v[0] + v[2]) + (v[1] + v[3])   in each block of 16 bytes; then halves of the blocks with halves
    v, w    [v[0] w[0] v[1] w[1]] + [v[2] w[2] v[3] w[3]]   →   both go on in one vector

Blocks come first because shuffles within them do not wait for the units that multiply, as others do. The order is the
same for a vector alone and beside others, so that results are too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.pieces import piece, shuffled
from compiler.codegen.types import Value

Operation = Callable[[str, list[Value]], Value]
"""Emits an operation of `compiler.scalar.OPS`."""

_BLOCK_BYTES = 16


def side_by_side(out: Emitter, operation: Operation, op: str, vectors: Sequence[Value], widest: int) -> Value:
    """The lanes of each vector combined by `op`, which takes two arguments: a vector of so many, or a number for one.

    The vectors are of one type, a power of two and no more than lanes of the target's vectors, which are `widest`;
    lanes are a power of two as well.
    """
    rows = [_shortened(out, operation, op, vector, widest) for vector in vectors]
    part, block = rows[0].lanes, min(rows[0].lanes, max(1, _BLOCK_BYTES // rows[0].dtype.size_bytes))
    rows = [_in_blocks(out, operation, op, rows[i : i + block], block) for i in range(0, len(rows), block)]
    while part > block:
        pairs = list(zip(rows[::2], rows[1::2], strict=True)) if len(rows) > 1 else [(rows[0], rows[0])]
        halves = _halves(sum(row.lanes for row in rows[:2]), part)
        rows = [operation(op, [shuffled(out, *pair, half) for half in halves]) for pair in pairs]
        part //= 2
    return piece(out, rows[0], 0, len(vectors))


def _in_blocks(out: Emitter, operation: Operation, op: str, rows: list[Value], block: int) -> Value:
    """Each block of lanes of so many vectors, no more than it has lanes: its first lanes are what it gives of each."""
    apart, count, lanes = block, len(rows), range(rows[0].lanes)
    while apart > 1:
        # A block has `apart` lanes of each row, those of a place beside each other.
        apart //= 2
        if len(rows) > 1:
            beside = block // (2 * apart)
            first = [lane + lanes.stop * other for lane, other in _woven(lanes, block, beside)]
            second = [lane + apart * beside for lane in first]
            pairs = zip(rows[::2], rows[1::2], strict=True)
            rows = [operation(op, [shuffled(out, *pair, half) for half in (first, second)]) for pair in pairs]
        else:
            turned = [lane ^ (apart * count) for lane in lanes]
            rows = [operation(op, [rows[0], shuffled(out, rows[0], rows[0], turned)])]
    return rows[0]


def _woven(lanes: range, block: int, beside: int) -> Iterable[tuple[int, int]]:
    """Lanes of two vectors, `beside` of each in turn, that the first half of each block of both has."""
    for start in lanes[::block]:
        for place in range(start, start + block // 2, beside):
            for other in (0, 1):
                yield from ((place + i, other) for i in range(beside))


def _halves(lanes: int, part: int) -> tuple[list[int], list[int]]:
    """The lanes of the first half of each part, and those of the second."""
    first = [start + lane for start in range(0, lanes, part) for lane in range(part // 2)]
    return first, [lane + part // 2 for lane in first]


def _shortened(out: Emitter, operation: Operation, op: str, vector: Value, lanes: int) -> Value:
    """Halves with halves until the vector has so many lanes, which takes no shuffle."""
    while vector.lanes > lanes:
        half = vector.lanes // 2
        vector = operation(op, [piece(out, vector, first, half) for first in (0, half)])
    return vector
