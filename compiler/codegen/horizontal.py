"""Horizontal: the lanes of a vector as one number, halves with halves.

    <8 x float> v   →   v[0..4] + v[4..8]   →   the same with 4   →   with 2: three additions, each after a shuffle

The order is the same on every target, so that results are too.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.emitter import Emitter
from compiler.codegen.pieces import piece
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
