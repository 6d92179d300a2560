"""Horizontal: the lanes of a vector as one number, halves with halves; of several vectors at the same time, in one.

    <8 x float> v   →   v[0..4] + v[4..8]   →   the same with 4   →   with 2: three additions, each after a shuffle
    v, w            →   [v[0..4] w[0..4]] + [v[4..8] w[4..8]]   →   both go on in one vector

The order is the same on every target and beside any others, so that results are too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.pieces import extracted, piece, shuffled
from compiler.codegen.types import Value

Operation = Callable[[str, list[Value]], Value]
"""Emits an operation of `compiler.scalar.OPS`."""


def horizontal(out: Emitter, operation: Operation, op: str, vector: Value) -> Value:
    """All lanes combined by `op`, an operation of two arguments; lanes are a power of two."""
    while vector.lanes > 1:
        half = vector.lanes // 2
        parts = [piece(out, vector, first, half) for first in (0, half)]
        vector = operation(op, parts)
    return vector


def horizontal_each(
    out: Emitter, operation: Operation, op: str, vectors: Sequence[Value], widest: int
) -> list[Value]:
    """`horizontal` of each vector; all are of one type. `widest`: lanes of the target's vectors."""
    totals: list[Value] = []
    short = [_shortened(out, operation, op, vector, widest) for vector in vectors]
    while short:
        count = 1
        while 2 * count <= min(len(short), short[0].lanes):
            count *= 2
        totals += _side_by_side(out, operation, op, short[:count])
        short = short[count:]
    return totals


def _shortened(out: Emitter, operation: Operation, op: str, vector: Value, widest: int) -> Value:
    """Halves with halves until the vector is one of the target's, which takes no shuffle."""
    while vector.lanes > widest:
        half = vector.lanes // 2
        vector = operation(op, [piece(out, vector, first, half) for first in (0, half)])
    return vector


def _side_by_side(out: Emitter, operation: Operation, op: str, vectors: list[Value]) -> list[Value]:
    """The totals of so many vectors, a power of two and no more than they have lanes."""
    lanes, count = vectors[0].lanes, len(vectors)
    if count == 1:
        return [horizontal(out, operation, op, vectors[0])]
    part = lanes
    while len(vectors) > 1:
        firsts = [first + lane for first in range(0, 2 * lanes, part) for lane in range(part // 2)]
        seconds = [lane + part // 2 for lane in firsts]
        vectors = [
            operation(op, [shuffled(out, one, other, firsts), shuffled(out, one, other, seconds)])
            for one, other in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        part //= 2
    (vector,) = vectors
    while part > 1:
        turned = [lane ^ (part // 2) for lane in range(lanes)]
        vector = operation(op, [vector, shuffled(out, vector, vector, turned)])
        part //= 2
    return [extracted(out, vector, number * (lanes // count)) for number in range(count)]
