"""Building blocks of lowerings: axes, loads with broadcasting, maps and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Array, OperatorCall
from compiler.frontend.limits import LARGEST
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index
from compiler.scalar import Cast, Const, Expr, Load
from compiler.symbol import Axis, axis

OPEN_COUNT = LARGEST + 1
"""Numbers of a constant that counts along an axis of open size: the last one is the largest size."""


def output_axes(shape: Iterable[int]) -> tuple[Axis, ...]:
    """a0, a1, ...: one axis per dimension of an output."""
    return tuple(axis(f"a{d}", size) for d, size in enumerate(shape))


def at(axes: Iterable[Axis]) -> tuple[Index, ...]:
    """The index of each axis."""
    return tuple(Index.of(a.name) for a in axes)


class ReduceAxes:
    """Hands out r0, r1, ...; an extent of 1 needs no axis, its index is 0."""

    def __init__(self) -> None:
        self.axes: tuple[Axis, ...] = ()

    def index(self, extent: int) -> Index:
        """The index that runs over the extent."""
        if extent == 1:
            return ZERO
        new = axis(f"r{len(self.axes)}", extent)
        self.axes = (*self.axes, new)
        return Index.of(new.name)


def reduced(
    axes: tuple[Axis, ...], inner: ReduceAxes, reducer: str, body: Expr, dtype: DType = DType.F32
) -> Compute:
    """A reduction; without axes to reduce over, a map."""
    return Compute(axes, inner.axes, reducer if inner.axes else None, body, dtype)


def counting(call: OperatorCall, value: str, axes: Sequence[int], dtype: DType, suffix: str) -> str:
    """A constant that counts the elements along axes of a value, from 0.

    Where a size is open it is the beginning of one that is long enough for all sizes: there is one for all of them.
    """
    count = math.prod(call.builder.shapes[value][axis] for axis in axes)
    if call.builder.is_open(value, axes) and count <= LARGEST:
        return _numbers(call, dtype)
    return call.intermediate_constant(np.arange(count, dtype=dtype.numpy), suffix)


def size_along(call: OperatorCall, value: str, axis: int, dtype: DType) -> Expr:
    """The size of a value along an axis, as a number; where it is open, an element of a constant that counts."""
    count = call.builder.shapes[value][axis]
    if not call.builder.is_open(value, [axis]) or count > LARGEST:
        return Const(count, dtype)
    return Load(_numbers(call, dtype), (Index.of(count),))


def share(call: OperatorCall, value: str, axes: Sequence[int], times: int = 1) -> Expr:
    """What each element along axes of a value has of their mean: 1 / count; `times` that there are so many."""
    count = times * math.prod(call.builder.shapes[value][axis] for axis in axes)
    if not call.builder.is_open(value, axes) or count > LARGEST:
        return Const(1.0 / count)

    def shares() -> Array:
        return (1.0 / np.maximum(np.arange(OPEN_COUNT), 1)).astype(np.float32)

    return Load(call.builder.shared_constant("shares", shares), (Index.of(count),))


def _numbers(call: OperatorCall, dtype: DType) -> str:
    return call.builder.shared_constant(
        f"numbers.{dtype.value}", lambda: np.arange(OPEN_COUNT, dtype=dtype.numpy)
    )


def broadcast(call: OperatorCall, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Common shape by the rules of NumPy; raises ModelError where there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            call.reject(f"has operands of shapes {[list(s) for s in shapes]}, which do not broadcast")
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


def broadcast_indices(
    shape: tuple[int, ...], indices: Sequence[Index], sizes: Sequence[int]
) -> tuple[Index, ...]:
    """Indices of an operand for an element of the result; dimensions of 1 are repeated."""
    skipped = len(indices) - len(shape)
    pairs = zip(shape, indices[skipped:], sizes[skipped:], strict=True)
    return tuple(index if size == whole else ZERO for size, index, whole in pairs)


def broadcast_load(call: OperatorCall, value: str, axes: tuple[Axis, ...]) -> Load:
    """The element of an operand that belongs to an element of the result."""
    shape = call.builder.shapes[value]
    return Load(value, broadcast_indices(shape, at(axes), [a.size for a in axes]))


def elementwise(call: OperatorCall, values: Sequence[str], body: Callable[..., Expr]) -> Compute:
    """A map over operands that broadcast; `body` gets one expression per operand.

    Values of types that are only stored come in the type they are computed with in, and what is computed is stored in
    theirs again.
    """
    dtype = call.dtype(*values)
    axes = output_axes(broadcast(call, [call.builder.shapes[value] for value in values]))
    operands = [widened(broadcast_load(call, value, axes), dtype) for value in values]
    return Compute(axes, (), None, stored(call, body(*operands), dtype), dtype)


def number(value: float, dtype: DType) -> Const:
    """A literal of the type."""
    return Const(float(value) if dtype.is_float else int(value), dtype)


def float_map(call: OperatorCall, body: Callable[[Expr], Expr]) -> None:
    """Emit a map of the first input, which is of floats."""
    if not call.dtype(call.value(0)).is_float:
        call.unsupported(f"element type {call.builder.dtype(call.value(0))}")
    call.emit(elementwise(call, [call.value(0)], body))


def widened(value: Expr, dtype: DType) -> Expr:
    """A value of the type, as it is computed with."""
    return Cast(value, dtype.computed) if dtype.is_stored_only else value


def stored(call: OperatorCall, value: Expr, dtype: DType) -> Expr:
    """The inverse of `widened`, of a value that is still of the type computed with."""
    if not dtype.is_stored_only or call.type_of(value) is not dtype.computed:
        return value
    return Cast(value, dtype)


def float_operands(call: OperatorCall, *values: str) -> None:
    """Raise UnsupportedOperator unless all values are of one type of floats that is computed with."""
    dtype = call.dtype(*values)
    if not dtype.is_float or dtype.is_stored_only:
        call.unsupported(f"element type {call.builder.dtype(values[0])}")
