"""Division by a literal as a multiplication and a multiply-add, with the same result.

    x / d  =  fma(x, high, x * low)        high = f32(1 / d), low = f32(1 / d - high)

Source: N. Brisebarre, J.-M. Muller and S. K. Raina, Accelerating correctly rounded floating-point division when the
divisor is known in advance, IEEE Transactions on Computers 53(8), 2004, section 3.

high + low is 1 / d but for a part of 2^-49 of it, and x * low is rounded by as much: the sum lies within 2^-48 of the
quotient. It is rounded otherwise only if a tie lies between the two. Significands X of x and D of d are whole numbers
of 24 bits, a tie is M / 2^j of them with M odd, and so close are they only where |2^j X - M D| is 1 or 2: for each of
these there is one M, or two, and so one X, to try.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from compiler.dtype import DType
from compiler.graph.scalar_rules import interval
from compiler.scalar import Const, Expr

_BITS = 24
_EXPONENTS = 60
"""Divisors of magnitudes from 2^-60 to 2^60: their reciprocals, and the second parts of these, are normal numbers."""


def reciprocal_of(args: tuple[Expr, ...]) -> tuple[float, float] | None:
    """Both parts of the reciprocal of a division's second operand, where they may take its place.

    None where that is no literal of f32, or has a reciprocal that would round otherwise, and where the first operand
    may be infinite: an infinity times `low` is one of the other sign, or NaN.
    """
    x, divisor = args
    if not isinstance(divisor, Const) or divisor.dtype is not DType.F32:
        return None
    if not all(math.isfinite(end) for end in interval(x, {})):
        return None
    return exact_reciprocal(float(divisor.value))


@lru_cache(maxsize=4096)
def exact_reciprocal(divisor: float) -> tuple[float, float] | None:
    """(high, low) with which every quotient of 2^-60 or more is rounded right; None where some are not."""
    if not math.isfinite(divisor) or not 2.0**-_EXPONENTS < abs(divisor) < 2.0**_EXPONENTS:
        return None
    exact = 1 / Fraction(divisor)
    high = float(np.float32(float(exact)))
    low = float(np.float32(float(exact - Fraction(high))))
    own = int(math.frexp(abs(divisor))[0] * (1 << _BITS))
    scaled = Fraction(abs(divisor)) / own
    for x in _near_ties(own):
        value = x * scaled
        product = _rounded(value * Fraction(low))
        if _rounded(value * Fraction(high) + product) != _rounded(value / Fraction(divisor)):
            return None
    return high, low


def _near_ties(divisor: int) -> Iterator[int]:
    """Significands whose quotients by one lie next to ties: 2^j X - M D = r for small r and odd M of one bit more."""
    twos = (divisor & -divisor).bit_length() - 1
    odd = divisor >> twos
    for power in (_BITS, _BITS + 1):
        for r in (-2, -1, 1, 2):
            if r % (1 << twos):
                continue
            modulus = 1 << (power - twos)
            first = -(r >> twos) * pow(odd, -1, modulus) % modulus
            for m in range(first, 1 << (_BITS + 1), modulus):
                x = (r + m * divisor) >> power
                if m % 2 and m >> _BITS and x.bit_length() == _BITS:
                    yield x


def _rounded(value: Fraction) -> Fraction:
    """To 24 bits, half to even, whatever the exponent."""
    if value == 0:
        return value
    # Of the quotient of two numbers the exponent is that of their lengths, or one less.
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - _BITS
    unit = Fraction(2) ** exponent
    if abs(value) / unit >= 1 << _BITS:
        unit *= 2
    elif abs(value) / unit < 1 << (_BITS - 1):
        unit /= 2
    return round(value / unit) * unit
