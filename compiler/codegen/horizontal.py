"""Horizontal: the lanes of a vector as one number; of several vectors at the same time, side by side in one.

    v       (v[0] + v[2]) + (v[1] + v[3])   in each block of 16 bytes; then halves of the blocks with halves
    v, w    [v[0] w[0] v[1] w[1]] + [v[2] w[2] v[3] w[3]]   →   [v w v w]   →   both go on in one vector, as [v w]

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


def most_together(vector: Value) -> int:
    """How many vectors like this one `side_by_side` takes."""
    return min(vector.lanes, max(1, _BLOCK_BYTES // vector.dtype.size_bytes))


def side_by_side(out: Emitter, operation: Operation, op: str, vectors: Sequence[Value], widest: int) -> Value:
    """The lanes of each vector combined by `op`, which takes two arguments: a vector of so many, or a number for one.

    The vectors are of one type, and a power of two, as are their lanes. `widest`: lanes of the target's vectors.
    """
    rows = [_in_halves(out, operation, op, vector, widest) for vector in vectors]
    block, lanes = most_together(rows[0]), range(rows[0].lanes)
    apart = block
    while apart > 1:
        # A block has `apart` lanes of each row, those of a place beside each other.
        apart //= 2
        beside = block // (2 * apart) if len(rows) > 1 else len(vectors)
        far = apart * beside
        if len(rows) > 1:
            first = [lane + lanes.stop * other for lane, other in _woven(lanes, block, beside)]
            pairs = zip(rows[::2], rows[1::2], strict=True)
            halves = [[shuffled(out, *p, first), shuffled(out, *p, [x + far for x in first])] for p in pairs]
        else:
            halves = [[rows[0], shuffled(out, rows[0], rows[0], [lane ^ far for lane in lanes])]]
        rows = [operation(op, half) for half in halves]
    return piece(out, _in_halves(out, operation, op, rows[0], block), 0, len(vectors))


def _woven(lanes: range, block: int, beside: int) -> Iterable[tuple[int, int]]:
    """Lanes of two vectors, `beside` of each in turn, that the first half of each block of both has."""
    for start in lanes[::block]:
        for place in range(start, start + block // 2, beside):
            for other in (0, 1):
                yield from ((place + i, other) for i in range(beside))


def _in_halves(out: Emitter, operation: Operation, op: str, vector: Value, lanes: int) -> Value:
    """Halves with halves until the vector has so many lanes."""
    while vector.lanes > lanes:
        half = vector.lanes // 2
        vector = operation(op, [piece(out, vector, first, half) for first in (0, half)])
    return vector
