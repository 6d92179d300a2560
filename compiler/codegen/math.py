"""Elementary functions as short sequences of vector arithmetic: no calls, no branches, any vector length, float32.

Each reduces its argument to a small interval and evaluates a polynomial there; the coefficients are minimax fits of
relative error (Lawson's algorithm), each rounded to float32 before the next ones were fitted. Errors are the largest
found over all exponents against float64, in units of the last place of the float32 result. NaN gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np

from compiler.codegen.math_lanes import Lane, Lanes
from compiler.codegen.math_power import log_specials, log_sum, power
from compiler.graph.scalar_rules import UNKNOWN, Interval
from compiler.scalar import Apply, Const, Expr

_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; the first has so few bits that its product with an exponent is exact."""

_LN2 = 0.6931471824645996
"""ln 2 as one float, 1 + 2^-28 times as large: enough for arguments whose own rounding changed them by up to 2^-24."""

_TO_NEAREST = 1.5 * 2.0**23
"""Added to a small number it rounds to whole; the whole number is then in the low bits."""

_EXPONENT_ZERO = 127
"""The exponent's bits in a float between 1 and 2."""

_EXP_ZERO, _EXP_INFINITE = 104.0, 89.0
"""e^x is 0 below minus the first, infinite above the second."""

_EXP_LOWEST, _EXP_HIGHEST = -88.0, 88.3
"""Where n + 127, the bits of 2^n, is from 0 to 254: never beyond the numbers, and 0 stands for the number 0."""

_EXP_NORMAL = -87.33655
"""Above it e^x is no denormal number."""

_SIGMOID_LOWEST = -87.34
"""Below it a sigmoid is denormal."""

_EXP = (0.49999994, 0.16666521, 0.041668255, 0.008368679, 0.0013821954)
"""(exp(r) - 1 - r) / r² for |r| <= ln(2) / 2."""

_EXP_SHORT = (0.4999923, 0.16667111, 0.041890174, 0.008312812)
"""The same with a term less, for which exp(r) is within 1.1e-7."""

_EXP_STEP = (1.0000145, 0.5)
"""(exp(r) - 1) / r for |r| <= ln(2) / 64, for which exp(r) is within 5.5e-8."""

_TABLE_BITS = 5
"""Of the table of powers: 2^(0/32) .. 2^(31/32)."""

_LOG = (
    0.33333313, -0.2500001, 0.20002072, -0.1666799, 0.14220363, -0.124062076, 0.118834704, -0.11670192, 0.06749556,
)  # fmt: skip
"""(log(1 + f) - f + f² / 2) / f³ for sqrt(1/2) <= 1 + f <= sqrt(2)."""

_TANH_OVER = (1.0, 0.13413252, 0.0035340311, 2.1251057e-05, 1.4269134e-08)
_TANH_UNDER = (1.0, 0.46746576, 0.026022771, 0.00033488692, 8.145109e-07)
_TANH_MOST = 8.5**2
"""tanh(x) / x as a quotient of polynomials in x², up to that square."""

_TANH_ENDS = 10.0
"""Beyond it tanh is 1 in float32."""

_ERF_OVER = (1.1283791, 0.1935354, 0.053100146, 0.0038828372, 0.00028454026, 1.9866775e-06)
_ERF_UNDER = (1.0, 0.5048488, 0.1153457, 0.015206252, 0.0011854212, 3.7417729e-05)
"""erf(x) / x as a quotient of polynomials in x², for |x| <= 4."""

_ERF_SCALES = 1e-2, 1e2
"""Of the argument, which the coefficients may take in: their powers of it stay in the range of float32."""

_FINE = 14
"""Bits of an estimate of a root from which on its error squared is too small to matter."""


def exp(ops: Lanes, x: Lane, interval: Interval = UNKNOWN, *, rounded: bool = False) -> Lane:
    """e^x within 1 ulp; inf above 88.72, denormal below -87.33, 0 below -103.98.

    Of arguments that are known to be below 88.3, what is less than half of the smallest normal number is 0. `rounded`:
    the argument is a rounded result, one that is 2^-28 times as large or smaller may stand for it; 3 ulp do.
    """
    low, high = interval
    if high <= _EXP_HIGHEST:
        if rounded and _has_powers(ops):
            power = _exp_of_table(ops, x)
            if low >= _EXP_NORMAL:
                return power
            return ops.select(ops.compare("uge", x, ops.const(_EXP_NORMAL)), power, ops.const(0.0))
        x = x if low >= _EXP_LOWEST else ops.at_least(x, _EXP_LOWEST)
        return _exp_of_bits(ops, x, rounded=rounded)
    return _exp_between(ops, ops.at_most(ops.at_least(x, -_EXP_ZERO), _EXP_INFINITE), rounded=rounded)


def _exp_between(ops: Lanes, x: Lane, *, rounded: bool) -> Lane:
    """e^x for -104 <= x <= 89 or NaN: 2^n in two halves that both are normal numbers."""
    tail, shifted = _exp_parts(ops, x, 2 * _EXPONENT_ZERO, rounded=rounded)
    half = ops.integer("shl", ops.integer("ashr", shifted, 1), 23)
    rest = ops.integer("sub", ops.integer("shl", shifted, 23), half)
    return ops.mul(_times_one_more(ops, tail, ops.from_bits(rest)), ops.from_bits(half))


def _exp_of_bits(ops: Lanes, x: Lane, sign: float = 1.0, *, rounded: bool = False) -> Lane:
    """e^y, where y = sign * x, for -88 <= y <= 88.3 or NaN; some number below 1.2e-38 for y < -87.34."""
    if rounded and _has_powers(ops):
        return _exp_of_table(ops, x, sign)
    tail, shifted = _exp_parts(ops, x, _EXPONENT_ZERO, sign, rounded=rounded)
    return _times_one_more(ops, tail, ops.from_bits(ops.integer("shl", shifted, 23)))


def _has_powers(ops: Lanes) -> bool:
    """Whether a table of powers is looked up."""
    return ops.has_fma and ops.table_size == 1 << _TABLE_BITS


def _exp_of_table(ops: Lanes, x: Lane, sign: float = 1.0) -> Lane:
    """e^y, where y = sign * x, for -87.34 <= y <= 88.3 or NaN, within 3 ulp: 2^n 2^(j/32) e^r with a short polynomial.

    With a table of 32 powers |r| is so small that two terms do (Tang, "Table-driven implementation of the exponential
    function in IEEE floating-point arithmetic", TOMS 1989). Additions of integers, shifts and lookups leave the units
    of multiply-adds free.
    """
    steps = 1 << _TABLE_BITS
    to_nearest = ops.const(_TO_NEAREST)
    shifted = ops.fma(x, ops.const(sign * steps / math.log(2)), to_nearest)
    r = ops.fma(ops.sub(shifted, to_nearest), ops.coefficient(-sign * _LN2 / steps), x)
    first, second = _EXP_STEP
    # The low bits are j, those above n. What j adds beside n, where n is moved to the exponent, the table has less.
    place = ops.bits(shifted)
    exponent = ops.integer("shl", place, 23 - _TABLE_BITS)
    power = ops.from_bits(ops.integer("add", ops.bits(ops.lookup(_powers(), place)), exponent))
    return ops.fma(ops.mul(power, r), ops.fma(r, ops.const(second), ops.const(sign * first)), power)


@cache
def _powers() -> tuple[int, ...]:
    """The bits of 2^(j/32), less j in the place of an exponent's fraction."""
    steps = range(1 << _TABLE_BITS)
    (bits,) = (np.exp2(np.array(steps) / len(steps)).astype(np.float32).view(np.uint32),)
    return tuple(int(b) - (j << 23 - _TABLE_BITS) for j, b in zip(steps, bits, strict=True))


def _times_one_more(ops: Lanes, tail: Lane, scale: Lane) -> Lane:
    """(1 + tail) * scale, for a scale that is a power of two; NaN where the tail is."""
    return ops.fma(tail, scale, scale)


def _exp_parts(
    ops: Lanes, x: Lane, bias: int, sign: float = 1.0, *, rounded: bool = False
) -> tuple[Lane, Lane]:
    """e^r - 1 and an integer with n + bias in its low 9 bits, where sign * x = n ln 2 + r and |r| <= ln(2) / 2.

    The low bits moved to the place of the exponent are the number 2^(n + bias - 127), with no arithmetic on integers.
    """
    to_nearest = ops.const(_TO_NEAREST + bias)
    shifted = ops.fma(x, ops.const(sign / math.log(2)), to_nearest)
    n = ops.sub(shifted, to_nearest)
    # What is computed is sign * r, which is as good in a polynomial with other signs: nothing is negated.
    if rounded and ops.has_fma:
        r = ops.fma(n, ops.coefficient(-sign * _LN2), x)
    else:
        r = ops.fma(n, ops.coefficient(-sign * _LN2_HIGH), x)
        r = ops.fma(n, ops.coefficient(-sign * _LN2_LOW), r)
    coefficients = _EXP_SHORT if rounded else _EXP
    beyond = ops.polynomial(r, [c * sign**power for power, c in enumerate(coefficients)])
    return ops.fma(beyond, ops.mul(r, r), r if sign > 0 else ops.neg(r)), ops.bits(shifted)


def log(ops: Lanes, x: Lane) -> Lane:
    """Natural logarithm within 1 ulp; -inf at 0, NaN below, denormal arguments included."""
    k, f, tail = _log_parts(ops, x)
    tail = ops.fma(k, ops.const(_LN2_LOW), tail)
    return log_specials(ops, x, ops.fma(k, ops.const(_LN2_HIGH), ops.add(f, tail)))


def _log_parts(ops: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """k, f and t, where x = 2^k (1 + f), |f| < 0.415 and log(1 + f) = f + t."""
    tiny = ops.compare("olt", x, ops.const(2.0**-126))
    normal = ops.select(tiny, ops.mul(x, ops.const(2.0**24)), x)
    root = ops.bits(ops.const(math.sqrt(0.5)))
    above = ops.integer("sub", ops.bits(normal), root)
    k = ops.to_float(ops.integer("ashr", above, 23))
    k = ops.select(tiny, ops.sub(k, ops.const(24.0)), k)
    mantissa = ops.from_bits(ops.integer("add", ops.integer("and", above, 2**23 - 1), root))
    f = ops.sub(mantissa, ops.const(1.0))
    square = ops.mul(f, f)
    cubic = ops.mul(ops.mul(ops.polynomial(f, _LOG), f), square)
    return k, f, ops.fma(square, ops.const(-0.5), cubic)


def tanh(ops: Lanes, x: Lane) -> Lane:
    """Hyperbolic tangent within 5 ulp, half of one in the mean, never beyond 1: one quotient for all arguments."""
    square = ops.at_most(ops.mul(x, x), _TANH_MOST)
    quotient = ops.div(ops.mul(x, ops.chain(square, _TANH_OVER)), ops.chain(square, _TANH_UNDER))
    return ops.at_most(ops.at_least(quotient, -1.0), 1.0)


def one_plus_tanh(ops: Lanes, x: Lane) -> Lane:
    """1 + tanh(x) as 2 - 2 / (e^2x + 1), within 2.1e-7 and exactly 0 and 2 at the ends.

    A tangent near 0 needs a polynomial to be right in its last place, which its sum with 1 does not have.
    """
    bounded = ops.at_most(ops.at_least(x, -_TANH_ENDS), _TANH_ENDS)
    grown = _exp_of_bits(ops, ops.add(bounded, bounded), rounded=True)
    two = ops.const(2.0)
    return ops.sub(two, ops.div(two, ops.add(grown, ops.const(1.0))))


def sigmoid(ops: Lanes, x: Lane) -> Lane:
    """1 / (1 + e^-x) within 7 ulp; below -87.34, where the result would be denormal, it is 1.2e-38."""
    return times_sigmoid(ops, ops.const(1.0), x)


def times_sigmoid(ops: Lanes, factor: Lane, x: Lane) -> Lane:
    """A number times the sigmoid of another, as one quotient."""
    bounded = ops.at_most(ops.at_least(x, _SIGMOID_LOWEST), -_EXP_LOWEST)
    return ops.div(factor, ops.add(_exp_of_bits(ops, bounded, sign=-1.0, rounded=True), ops.const(1.0)))


def erf(ops: Lanes, x: Lane, scale: float = 1.0) -> Lane:
    """Error function of scale * x within 6 ulp, never beyond 1: one quotient for all arguments, no exponential."""
    # Beyond 4 the quotient grows with x, and what is above 1 is 1: only its square has to be bounded.
    square = ops.at_most(ops.mul(x, x), (4.0 / scale) ** 2)
    over = [c * scale ** (2 * i + 1) for i, c in enumerate(_ERF_OVER)]
    under = [c * scale ** (2 * i) for i, c in enumerate(_ERF_UNDER)]
    quotient = ops.div(ops.mul(x, ops.chain(square, over)), ops.chain(square, under))
    return ops.at_most(ops.at_least(quotient, -1.0), 1.0)


def log_in_parts(ops: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """The natural logarithm of x >= 0 as a sum of two floats."""
    k, f, tail = _log_parts(ops, x)
    return log_sum(ops, x, ops.mul(k, ops.const(_LN2_HIGH)), f, ops.fma(k, ops.const(_LN2_LOW), tail))


def rsqrt(ops: Lanes, x: Lane) -> Lane:
    """1 / sqrt(x) within 2 ulp; where it starts from an estimate, denormal numbers count as 0."""
    estimate = ops.inverse_root_estimate(x)
    if estimate is None:
        return ops.div(ops.const(1.0), ops.sqrt(x))
    return _corrected(ops, estimate, ops.mul(x, estimate), estimate, (0.5, 0.375))


def inverse_fourth_root(ops: Lanes, x: Lane) -> Lane:
    """x^(-1/4) within 2 ulp; where it starts from an estimate, denormal numbers count as 0."""
    inverse = ops.inverse_root_estimate(x)
    root = None if inverse is None else ops.inverse_root_estimate(inverse)
    if inverse is None or root is None:
        return ops.div(ops.const(1.0), ops.sqrt(ops.sqrt(x)))
    # x^(-1/2) x^(1/4); the bounds are beyond all fourth roots but those of 0 and infinity, and keep 0 * inf away.
    estimate = ops.mul(inverse, ops.at_most(ops.at_least(root, 1e-30), 1e30))
    square = ops.mul(estimate, estimate)
    return _corrected(ops, estimate, ops.mul(square, square), x, (0.25, 0.15625))


def _corrected(
    ops: Lanes, estimate: Lane, over: Lane, other: Lane, coefficients: tuple[float, float]
) -> Lane:
    """The estimate times (1 - error)^(-1/n) = 1 + c1 error + c2 error² ..., where 1 - error = over * other.

    0 and infinity have their root already: the error is NaN there, and a positive one changes nothing.
    """
    one, (first, second) = ops.const(1.0), (ops.const(c) for c in coefficients)
    error = ops.fma(ops.neg(over), other, one)
    error = ops.select(ops.compare("olt", error, one), error, one)
    if ops.estimate_bits >= _FINE:
        # The product with a constant does not wait for the error; of the error's own, LLVM would make a comparison.
        return ops.fma(ops.mul(estimate, first), error, estimate)
    return ops.fma(estimate, ops.mul(error, ops.fma(error, second, first)), estimate)


Function = Callable[..., Lane]
"""Takes the emitter and a float per argument."""

FUNCTIONS: Mapping[str, Function] = {
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "pow": partial(power, exp=exp, log_in_parts=log_in_parts, least=-110.0),
    "rsqrt": rsqrt,
    "inverse_fourth_root": inverse_fourth_root,
}
"""By operation of `compiler.scalar.OPS`."""

RANGED: Mapping[str, Callable[..., Lane]] = {"exp": exp}
"""Those that have shorter forms for arguments in a known interval, and for `rounded` ones."""


def is_rounded(argument: Expr) -> bool:
    """Whether a number is the rounded result of arithmetic, perhaps held between limits."""
    match argument:
        case Apply("max" | "min" | "at_most", args):
            return all(isinstance(a, Const) or is_rounded(a) for a in args)
        case Apply("add" | "sub" | "mul" | "div"):
            return True
        case _:
            return False


def fused(op: str, args: tuple[Expr, ...]) -> tuple[Function | None, tuple[Expr, ...]]:
    """A function that takes in a neighbour of the operation, and its arguments; None where there is nothing to gain."""
    match op, args:
        case "mul", (x, Apply("sigmoid", (y,))) | (Apply("sigmoid", (y,)), x):
            return times_sigmoid, (x, y)
        case "add", (Const(1.0), Apply("tanh", (x,))) | (Apply("tanh", (x,)), Const(1.0)):
            return one_plus_tanh, (x,)
        case "erf", (Apply("mul", (x, Const(scale))),) if _ERF_SCALES[0] <= abs(scale) <= _ERF_SCALES[1]:
            return partial(erf, scale=scale), (x,)
        case _:
            return None, args
