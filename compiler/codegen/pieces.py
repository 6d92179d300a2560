"""Pieces: a long vector taken apart into the target's own vectors, and put together again; both cost nothing.

LLVM splits long vectors late: what it recognises only in vectors of the target's length is emitted piece by piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import Value


def piece(out: Emitter, vector: Value, first: int, count: int) -> Value:
    """`count` lanes from `first` on; one lane is a scalar."""
    if count == 1:
        return extracted(out, vector, first)
    kind = vector.llvm_type
    text = f"shufflevector {kind} {vector.text}, {kind} poison, {_mask(range(first, first + count))}"
    return Value(out.value(text), vector.dtype, count)


def extracted(out: Emitter, vector: Value, lane: int) -> Value:
    """One lane as a scalar."""
    return Value(out.value(f"extractelement {vector.llvm_type} {vector.text}, i64 {lane}"), vector.dtype, 0)


def shuffled(out: Emitter, one: Value, other: Value, lanes: Sequence[int]) -> Value:
    """Lanes of two vectors of one type, those of the other numbered after those of the first."""
    kind = one.llvm_type
    text = f"shufflevector {kind} {one.text}, {kind} {other.text}, {_mask(lanes)}"
    return Value(out.value(text), one.dtype, len(lanes))


def by_pieces(out: Emitter, operation: Callable[[Value], Value], vector: Value, widest: int) -> Value:
    """The operation on every `widest` lanes of a vector whose lanes are a power of two, as is that number."""
    if vector.lanes <= widest:
        return operation(vector)
    return joined(out, [operation(piece(out, vector, i, widest)) for i in range(0, vector.lanes, widest)])


def joined(out: Emitter, parts: Sequence[Value]) -> Value:
    """Vectors of one type, a power of two of them, as one."""
    while len(parts) > 1:
        parts = [
            shuffled(out, low, high, range(2 * low.lanes))
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def _mask(lanes: Sequence[int]) -> str:
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {lane}' for lane in lanes)}>"
