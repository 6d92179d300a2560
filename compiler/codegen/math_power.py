"""Powers from an exponential and a logarithm in two parts, for floats of any length."""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.codegen.math_lanes import Lane, Lanes


def power(
    ops: Lanes,
    x: Lane,
    y: Lane,
    *,
    exp: Callable[[Lanes, Lane], Lane],
    log_in_parts: Callable[[Lanes, Lane], tuple[Lane, Lane]],
    least: float,
) -> Lane:
    """x^y as e^(y log|x|) with y log|x| in two parts, within 2 + |y| / 6 ulp; specials and signs as C's pow.

    `least`: below it e^x is 0.
    """
    one, zero = ops.const(1.0), ops.const(0.0)
    size = ops.abs(x)
    high, low = _exponent(ops, log_in_parts(ops, size), y, least)
    # 1^y and x^0 are 1 for any y and x, NaN and infinity included.
    high = ops.select(ops.compare("oeq", size, one), zero, high)
    high = ops.select(ops.compare("oeq", y, zero), zero, high)
    value = exp(ops, high)
    # An infinite value stays: times a negative rest it would be NaN.
    value = ops.select(ops.compare("olt", value, ops.const(math.inf)), ops.fma(value, low, value), value)
    half = ops.mul(y, ops.const(0.5))
    whole = ops.compare("oeq", ops.floor(y), y)
    odd = ops.both(whole, ops.compare("une", ops.floor(half), half))
    signed = ops.select(odd, ops.with_sign_of(value, x), value)
    finite = ops.both(ops.compare("olt", x, zero), ops.compare("ogt", x, ops.const(-math.inf)))
    broken = ops.select(finite, ops.const(math.nan), signed)
    return ops.select(whole, signed, ops.select(ops.compare("oeq", x, one), one, broken))


def _exponent(ops: Lanes, log: tuple[Lane, Lane], y: Lane, least: float) -> tuple[Lane, Lane]:
    """The product y log as a sum of two floats; the second is 0 where e^(y log) is 0 or NaN."""
    log_high, log_low = log
    high = ops.mul(y, log_high)
    low = ops.fma(y, log_low, ops.product_error(y, log_high, high))
    return high, ops.select(ops.compare("ogt", high, ops.const(least)), low, ops.const(0.0))


def log_sum(ops: Lanes, x: Lane, scaled: Lane, f: Lane, tail: Lane) -> tuple[Lane, Lane]:
    """The logarithm of x as two floats: scaled + f + tail, each much smaller than the one before, or the first 0."""
    total = ops.add(scaled, f)
    rest = ops.add(ops.sub(f, ops.sub(total, scaled)), tail)
    high = ops.add(total, rest)
    low = ops.sub(rest, ops.sub(high, total))
    return log_specials(ops, x, high), low


def log_specials(ops: Lanes, x: Lane, result: Lane) -> Lane:
    """The logarithm where x is positive and finite, and what belongs elsewhere."""
    infinity = ops.const(math.inf)
    result = ops.select(ops.compare("oeq", x, infinity), infinity, result)
    result = ops.select(ops.compare("oeq", x, ops.const(0.0)), ops.const(-math.inf), result)
    return ops.select(ops.compare("ult", x, ops.const(0.0)), ops.const(math.nan), result)
