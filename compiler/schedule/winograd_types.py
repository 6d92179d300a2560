"""Element types of Winograd's algorithm. Of whole numbers it is exact, and this says why.

The matrices are multiplied by a factor f per dimension, so that all their entries are whole. Tiles and taps are then
whole numbers, which 16 bits must hold; products and their sums wrap around in the sum's own type, and so does all that
the output's matrix adds up. What comes out is therefore f^2 times the true result, modulo 2^32. Of f^2 = odd * 2^k the
odd part is divided by through its inverse modulo 2^32; 2^k times the result must fit in the type, and a shift divides
by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.dtype import DType
from compiler.scalar import Apply, Const, Expr, apply
from compiler.schedule.cook_toom import CookToom, Matrix, cook_toom, kronecker, whole
from compiler.workload.ir import Operand

_WIDE = DType.I16
"""Tiles and transformed taps of bytes."""


@dataclass(frozen=True, slots=True)
class WinogradTypes:
    """The matrices, and the types between them.

    Attributes:
        tiles, taps: element types of the transformed data and constant.
        factor: what the result is multiplied by.
    """

    matrices: CookToom
    tiles: DType
    taps: DType
    factor: int = 1

    def divided(self, value: Expr) -> Expr:
        """A sum of I32 without the factor."""
        odd, shift = _odd_part(self.factor)
        if odd > 1:
            inverse = pow(odd, -1, 1 << 32)
            value = apply("mul", value, Const(inverse - (1 << 32) if inverse >> 31 else inverse, DType.I32))
        return Apply("shift_right", (value, Const(shift, DType.I32))) if shift else value


def float_types(m: int, taps: int, stride: int, dtype: DType) -> WinogradTypes:
    """Everything in the type of the sum; raises ValueError where there are no matrices."""
    return WinogradTypes(cook_toom(m, taps, stride), dtype, dtype)


def whole_types(
    m: int, size: int, stride: int, total: DType, data: DType, taps: Operand, channels: int
) -> WinogradTypes:
    """F(m, size) of bytes, with sums in I32; raises ValueError where it is not exact for all values."""
    if total is not DType.I32 or not data.is_integer or not taps.dtype.is_integer:
        msg = f"no exact form for sums in {total.value} of {data.value} by {taps.dtype.value}"
        raise ValueError(msg)
    matrices, factor = whole(cook_toom(m, size, stride, whole_points=True))
    low, high = taps.dtype.limits
    weights = (low, high) if taps.bound is None else (-taps.bound, taps.bound)
    for matrix, (least, most) in ((matrices.data, data.limits), (matrices.filter, weights)):
        reached = _range(matrix, least, most)
        if not _WIDE.holds(*reached):
            msg = f"values of {reached[0]} to {reached[1]} in its tiles, which {_WIDE.value} does not hold"
            raise ValueError(msg)
    largest = max(map(abs, data.limits)) * max(map(abs, weights)) * channels * size * size
    _, shift = _odd_part(factor * factor)
    if not total.holds(-(largest << shift), largest << shift):
        msg = f"sums of up to {largest} times {1 << shift}, which {total.value} does not hold"
        raise ValueError(msg)
    return WinogradTypes(matrices, _WIDE, _WIDE, factor * factor)


def _range(matrix: Matrix, low: int, high: int) -> tuple[int, int]:
    """What both dimensions of the matrix make of values between the two."""
    least = most = 0
    for row in kronecker(matrix, matrix):
        up, down = (sum(int(v) for v in row if v > 0), -sum(int(v) for v in row if v < 0))
        least, most = min(least, up * low - down * high), max(most, up * high - down * low)
    return least, most


def _odd_part(number: int) -> tuple[int, int]:
    """(odd, k) with number = odd * 2^k."""
    shift = (number & -number).bit_length() - 1
    return number >> shift, shift
