"""What the elementary functions of scalar expressions mean, on NumPy arrays.

Everything is computed in float64 and rounded once to the type of the argument, so that a single-precision result is
the reference that machine code is held against.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Function = Callable[..., Any]

_MOST = np.int32(2**31 - 1)
LARGEST_BF16 = (2.0 - 2.0**-7) * 2.0**127
"""Finite number of bf16."""


def in_double(function: Function) -> Function:
    """The function computed in float64, its result in the type of the first argument (integers become float64)."""

    def evaluate(*args: Any) -> Any:
        kind = np.result_type(args[0])
        with np.errstate(all="ignore"):
            result = function(*(np.asarray(a, np.float64) for a in args))
            return np.asarray(result).astype(kind if kind.kind == "f" else np.float64)[()]

    return evaluate


def ordinal(x: Array) -> Array:
    """Of 32-bit floats: 32-bit whole numbers in the same order; NaN is the largest, and both zeros are 0."""
    single = np.asarray(x, np.float32)
    bits = single.view(np.int32)
    found = np.where(bits < 0, bits ^ _MOST, bits)
    return np.where(np.isnan(single), _MOST, np.where(single == 0, np.int32(0), found))


def bits(x: Array, kind: np.dtype[np.generic], whole: np.dtype[np.generic]) -> Array:
    """The bits of values as floats of one kind, as whole numbers."""
    return np.asarray(x).astype(kind).view(whole)


def made(x: Array, kind: np.dtype[np.generic], whole: np.dtype[np.generic]) -> Array:
    """The values of floats of one kind that have these bits, in float64."""
    return np.asarray(x).astype(whole).view(kind).astype(np.float64)


def as_bf16(x: Array) -> Array:
    """Floats with the precision of bf16, rounded half to even. Code may make those below its normal range 0."""
    return np.asarray(np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.asarray(x).dtype))


def finite_bf16(x: Array) -> Array:
    """Floats with the precision of bf16, rounded half away from 0; the largest finite ones where they are larger.

    Code may give any finite number for NaN.
    """
    bits = np.clip(np.asarray(x, np.float32), -LARGEST_BF16, LARGEST_BF16).view(np.uint32)
    rounded = ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.asarray(rounded.astype(np.asarray(x).dtype))


def divide(x: Array, y: Array) -> Array:
    """X / y; of integers the quotient without its fraction, as C and ONNX divide, and 0 where y is 0."""
    kind = np.result_type(x, y)
    if kind.kind not in "iu":
        return np.asarray(np.divide(x, y))[()]
    with np.errstate(all="ignore"):
        quotient = np.floor_divide(x, y)
        inexact = (np.remainder(x, y) != 0) & ((np.asarray(x) < 0) != (np.asarray(y) < 0))
        return np.asarray(quotient + inexact).astype(kind)[()]


def remainder(x: Array, y: Array) -> Array:
    """What is left of x after division by y without a fraction, with the sign of x; of integers 0 where y is 0."""
    with np.errstate(all="ignore"):
        return np.asarray(np.fmod(x, y))[()]


def power(x: Array, y: Array) -> Array:
    """X to the power of y; whole powers of whole numbers wrap around, those below 0 have no fraction."""
    kind = np.result_type(x)
    if kind.kind not in "iu":
        return np.asarray(in_double(np.power)(x, y))
    base, exponent = np.broadcast_arrays(np.asarray(x), np.asarray(y))
    with np.errstate(all="ignore"):
        found = np.power(base, np.where(exponent < 0, 0, exponent).astype(kind))
        odd = np.where(exponent % 2 == 1, base, 1)
        inverse = np.where(abs(base) == 1, odd, 0)
        return np.where(exponent < 0, inverse, found).astype(kind)[()]


def shift_left(x: Array, places: Array) -> Array:
    """The bits of x moved up; 0 where they are moved by as many places as there are bits, or more."""
    kind = np.result_type(x)
    inside = np.asarray(places).astype(np.uint64) < 8 * kind.itemsize
    moved = np.left_shift(x, np.where(inside, places, 0).astype(kind))
    result: Array = np.where(inside, moved, kind.type(0))[()]
    return result


def shift_right(x: Array, places: Array) -> Array:
    """The bits of x moved down; what comes in are copies of the sign, zeros where there is none."""
    kind = np.result_type(x)
    most = np.asarray(8 * kind.itemsize - 1).astype(kind)
    inside = np.asarray(places).astype(np.uint64) <= most.astype(np.uint64)
    moved = np.right_shift(x, np.where(inside, places, most).astype(kind))
    result: Array = (np.where(inside, moved, kind.type(0)) if kind.kind == "u" else moved)[()]
    return result


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); an overflowing exp gives 0."""
    result: Array = 1.0 / (1.0 + np.exp(-x))
    return result


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    result: Array = 1.0 / np.sqrt(x)
    return result


def inverse_fourth_root(x: Array) -> Array:
    """1 / sqrt(sqrt(x))."""
    result: Array = 1.0 / np.sqrt(np.sqrt(x))
    return result


# erf by W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969): a quotient of
# polynomials in each of three intervals; highest powers first.
ERF_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
ERF_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
ERF_FAR = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function in float64, to about 1e-15 of its value."""
    size = np.minimum(np.abs(x), 6.0)
    near = size <= 0.46875
    square = np.where(near, x * x, 0.0)
    large = np.maximum(size, 0.46875)
    inverse = 1.0 / (large * large)
    far = inverse * _quotient(ERF_FAR, inverse)
    tail = np.where(large <= 4.0, _quotient(ERF_MIDDLE, large), (1.0 / np.sqrt(np.pi) - far) / large)
    result: Array = np.where(
        near, x * _quotient(ERF_NEAR, square), np.copysign(1.0 - np.exp(-large * large) * tail, x)
    )
    return result


def _quotient(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    above, below = (np.polyval(np.asarray(p), x) for p in polynomials)
    result: Array = above / below
    return result


def place(value: Any, extent: int) -> Any:
    """The element that an index means: negative ones count from the end, and what is out of range is clamped."""
    index = np.asarray(value).astype(np.int64)
    return np.clip(np.where(index < 0, index + extent, index), 0, extent - 1)
