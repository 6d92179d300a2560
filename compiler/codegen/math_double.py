"""Elementary functions in double precision, as short sequences of vector arithmetic: no calls, no branches.

What single precision has no sequence of its own for is computed here as well, and rounded once. Polynomials are those
of fdlibm (exp, log, sin, cos) and Cephes (atan), erf is Cody's (see compiler.elementary). Arguments of sin, cos and tan
beyond 2^30 lose digits: their multiple of pi is only known so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from compiler.codegen.math import Function
from compiler.codegen.math_lanes import Lane, Lanes
from compiler.codegen.math_power import log_specials, log_sum, power
from compiler.elementary import ERF_FAR, ERF_MIDDLE, ERF_NEAR

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_TO_NEAREST = 1.5 * 2.0**52
_MANTISSA, _BIAS = 52, 1023
_EXP_LOWEST, _EXP_HIGHEST = -746.0, 710.0
"""e^x is 0 below the first, infinite above the second."""

_EXP = tuple(1 / math.factorial(n) for n in range(2, 15))
"""(exp(r) - 1 - r) / r² for |r| <= ln(2) / 2: the next term of the series is below 2^-56."""
_SINH = tuple(1 / math.factorial(n) for n in range(3, 20, 2))
"""(sinh(x) - x) / x³ in x², for |x| <= 1."""
_LOG = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip
_SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04, 2.75573137070700676789e-06,
    -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
"""(sin(r) - r) / r³ in r², for |r| <= pi / 4."""
_COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05, -2.75573143513906633035e-07,
    2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip
"""(cos(r) - 1 + r² / 2) / r⁴ in r²."""
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
"""Pi / 2 in parts, of which the first two have 33 bits."""
_ATAN_OVER = (
    -6.485021904942025371773e1, -1.228866684490136173410e2, -7.500855792314704667340e1, -1.615753718733365076637e1,
    -8.750608600031904122785e-1,
)  # fmt: skip
_ATAN_UNDER = (
    1.945506571482613964425e2, 4.853903996359136964868e2, 4.328810604912902668951e2, 1.650270098316988542046e2,
    2.485846490142306297962e1, 1.0,
)  # fmt: skip
"""(atan(x) - x) / x³ as a quotient of polynomials in x², for |x| <= 0.66."""
_LOSS = 6.123233995736765886130e-17
"""What pi / 2 is more than the nearest float."""
_LARGE = 2.0**28


def exp(ops: Lanes, x: Lane) -> Lane:
    """e^x within 1 ulp."""
    bounded = ops.at_most(ops.at_least(x, _EXP_LOWEST), _EXP_HIGHEST)
    magic = ops.const(_TO_NEAREST)
    shifted = ops.fma(bounded, ops.const(1 / math.log(2)), magic)
    n = ops.sub(shifted, magic)
    r = ops.fma(n, ops.const(-_LN2_HIGH), bounded)
    r = ops.fma(n, ops.const(-_LN2_LOW), r)
    tail = ops.fma(ops.polynomial(r, _EXP), ops.mul(r, r), r)
    whole = ops.integer("sub", ops.bits(shifted), ops.bits(magic))
    half = ops.integer("ashr", whole, 1)
    first, second = (_power_of_two(ops, part) for part in (half, ops.integer("sub", whole, half)))
    return ops.mul(ops.fma(tail, first, first), second)


def _power_of_two(ops: Lanes, n: Lane) -> Lane:
    return ops.from_bits(ops.integer("shl", ops.integer("add", n, _BIAS), _MANTISSA))


def log(ops: Lanes, x: Lane) -> Lane:
    """Natural logarithm within 1 ulp."""
    k, f, tail = _log_parts(ops, x)
    tail = ops.fma(k, ops.const(_LN2_LOW), tail)
    return log_specials(ops, x, ops.fma(k, ops.const(_LN2_HIGH), ops.add(f, tail)))


def _log_parts(ops: Lanes, x: Lane) -> tuple[Lane, Lane, Lane]:
    """k, f and t, where x = 2^k (1 + f), |f| < 0.415 and log(1 + f) = f + t."""
    tiny = ops.compare("olt", x, ops.const(2.0**-1022))
    normal = ops.select(tiny, ops.mul(x, ops.const(2.0**54)), x)
    root = ops.bits(ops.const(math.sqrt(0.5)))
    above = ops.integer("sub", ops.bits(normal), root)
    # The exponent is small: as the low bits of a float near 2^52 it is one without a conversion of integers.
    shifted = ops.from_bits(
        ops.integer("add", ops.integer("ashr", above, _MANTISSA), ops.bits(ops.const(_TO_NEAREST)))
    )
    k = ops.sub(shifted, ops.const(_TO_NEAREST))
    k = ops.select(tiny, ops.sub(k, ops.const(54.0)), k)
    mantissa = ops.from_bits(ops.integer("add", ops.integer("and", above, 2**_MANTISSA - 1), root))
    f = ops.sub(mantissa, ops.const(1.0))
    s = ops.div(f, ops.add(f, ops.const(2.0)))
    square = ops.mul(s, s)
    rest = ops.mul(square, ops.polynomial(square, _LOG))
    half = ops.mul(ops.mul(f, f), ops.const(0.5))
    return k, f, ops.sub(ops.mul(s, ops.add(half, rest)), half)


def _log_in_parts(ops: Lanes, x: Lane) -> tuple[Lane, Lane]:
    k, f, tail = _log_parts(ops, x)
    return log_sum(ops, x, ops.mul(k, ops.const(_LN2_HIGH)), f, ops.fma(k, ops.const(_LN2_LOW), tail))


def _log_of_one_more(ops: Lanes, x: Lane) -> Lane:
    """log(1 + x), for x near 0 too: the logarithm of the rounded sum, and what was rounded away."""
    one = ops.const(1.0)
    total = ops.add(x, one)
    lost = ops.div(ops.sub(x, ops.sub(total, one)), total)
    found = log(ops, total)
    return ops.select(ops.compare("olt", total, ops.const(math.inf)), ops.add(found, lost), found)


def sigmoid(ops: Lanes, x: Lane) -> Lane:
    """1 / (1 + e^-x)."""
    one = ops.const(1.0)
    return ops.div(one, ops.add(one, exp(ops, ops.neg(x))))


def _sinh_near(ops: Lanes, x: Lane) -> Lane:
    square = ops.mul(x, x)
    return ops.fma(ops.mul(x, square), ops.polynomial(square, _SINH), x)


def _half_exponentials(ops: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """e^|x| / 2 and e^-|x| / 2; the first is infinite only where the number is too large."""
    half, root = ops.const(0.5), exp(ops, ops.mul(ops.abs(x), ops.const(0.5)))
    grown = ops.mul(ops.mul(root, half), root)
    return grown, ops.div(ops.const(0.25), grown)


def sinh(ops: Lanes, x: Lane) -> Lane:
    """Hyperbolic sine within 3 ulp."""
    grown, shrunk = _half_exponentials(ops, x)
    far = ops.with_sign_of(ops.sub(grown, shrunk), x)
    return ops.select(ops.compare("olt", ops.abs(x), ops.const(1.0)), _sinh_near(ops, x), far)


def cosh(ops: Lanes, x: Lane) -> Lane:
    """Hyperbolic cosine within 3 ulp."""
    grown, shrunk = _half_exponentials(ops, x)
    return ops.add(grown, shrunk)


def tanh(ops: Lanes, x: Lane) -> Lane:
    """Hyperbolic tangent within 4 ulp."""
    size, one, two = ops.abs(x), ops.const(1.0), ops.const(2.0)
    bounded = ops.at_most(ops.at_least(x, -1.0), 1.0)
    near = ops.div(_sinh_near(ops, bounded), cosh(ops, bounded))
    grown = exp(ops, ops.mul(size, two))
    far = ops.with_sign_of(ops.sub(one, ops.div(two, ops.add(grown, one))), x)
    return ops.select(ops.compare("olt", size, one), near, far)


def asinh(ops: Lanes, x: Lane) -> Lane:
    """Inverse hyperbolic sine."""
    size, one = ops.abs(x), ops.const(1.0)
    square = ops.mul(size, size)
    below = ops.add(one, ops.sqrt(ops.add(square, one)))
    near = _log_of_one_more(ops, ops.add(size, ops.div(square, below)))
    return ops.with_sign_of(_unless_large(ops, size, near), x)


def acosh(ops: Lanes, x: Lane) -> Lane:
    """Inverse hyperbolic cosine; NaN below 1."""
    one = ops.const(1.0)
    above = ops.sub(x, one)
    root = ops.sqrt(ops.fma(above, above, ops.add(above, above)))
    found = _unless_large(ops, x, _log_of_one_more(ops, ops.add(above, root)))
    return ops.select(ops.compare("ult", x, one), ops.const(math.nan), found)


def _unless_large(ops: Lanes, x: Lane, found: Lane) -> Lane:
    """log(2 x) where x is large, whose square may not be a number."""
    far = ops.add(log(ops, x), ops.const(math.log(2)))
    return ops.select(ops.compare("olt", x, ops.const(_LARGE)), found, far)


def atanh(ops: Lanes, x: Lane) -> Lane:
    """Inverse hyperbolic tangent; infinite at 1, NaN beyond."""
    size = ops.abs(x)
    ratio = ops.div(ops.add(size, size), ops.sub(ops.const(1.0), size))
    return ops.with_sign_of(ops.mul(_log_of_one_more(ops, ratio), ops.const(0.5)), x)


def _quarters(ops: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """R and the low bits of n, where x = n pi / 2 + r and |r| <= pi / 4."""
    magic = ops.const(_TO_NEAREST)
    shifted = ops.fma(x, ops.const(2 / math.pi), magic)
    n = ops.sub(shifted, magic)
    r = x
    for part in _HALF_PI:
        r = ops.fma(n, ops.const(-part), r)
    return r, ops.bits(shifted)


def _sine_and_cosine(ops: Lanes, r: Lane) -> tuple[Lane, Lane]:
    square = ops.mul(r, r)
    sine = ops.fma(ops.mul(square, r), ops.polynomial(square, _SIN), r)
    beyond = ops.mul(ops.mul(square, square), ops.polynomial(square, _COS))
    # 1 - r²/2 is rounded; what is lost is added to the small terms.
    half, one = ops.mul(square, ops.const(0.5)), ops.const(1.0)
    first = ops.sub(one, half)
    lost = ops.sub(ops.sub(one, first), half)
    return sine, ops.add(first, ops.add(lost, beyond))


def _wave(ops: Lanes, x: Lane, turn: int) -> Lane:
    """The sine of x + turn pi / 2: sine or cosine of the rest, with the sign of the quarter."""
    r, n = _quarters(ops, x)
    sine, cosine = _sine_and_cosine(ops, r)
    n = ops.integer("add", n, turn) if turn else n
    chosen = ops.select(ops.is_odd(n), cosine, sine)
    flipped = ops.integer("shl", ops.integer("and", n, 2), 62)
    return ops.from_bits(ops.integer("xor", ops.bits(chosen), flipped))


def sin(ops: Lanes, x: Lane) -> Lane:
    """Sine."""
    return _wave(ops, x, 0)


def cos(ops: Lanes, x: Lane) -> Lane:
    """Cosine."""
    return _wave(ops, x, 1)


def tan(ops: Lanes, x: Lane) -> Lane:
    """Tangent."""
    r, n = _quarters(ops, x)
    sine, cosine = _sine_and_cosine(ops, r)
    odd = ops.is_odd(n)
    above, below = ops.select(odd, ops.neg(cosine), sine), ops.select(odd, sine, cosine)
    return ops.div(above, below)


def atan(ops: Lanes, x: Lane) -> Lane:
    """Inverse tangent: of the number, its inverse or the quotient with 1, whichever is small."""
    size, one = ops.abs(x), ops.const(1.0)
    far = ops.compare("ogt", size, ops.const(math.tan(3 * math.pi / 8)))
    middle = ops.compare("ogt", size, ops.const(0.66))
    zero = ops.const(0.0)
    turned = ops.select(middle, ops.div(ops.sub(size, one), ops.add(size, one)), size)
    small = ops.select(far, ops.div(ops.const(-1.0), size), turned)
    offset = ops.select(far, ops.const(math.pi / 2), ops.select(middle, ops.const(math.pi / 4), zero))
    lost = ops.select(far, ops.const(_LOSS), ops.select(middle, ops.const(_LOSS / 2), zero))
    square = ops.mul(small, small)
    ratio = ops.div(ops.polynomial(square, _ATAN_OVER), ops.polynomial(square, _ATAN_UNDER))
    found = ops.fma(ops.mul(small, square), ratio, small)
    return ops.with_sign_of(ops.add(offset, ops.add(found, lost)), x)


def asin(ops: Lanes, x: Lane) -> Lane:
    """Inverse sine; NaN beyond 1."""
    one = ops.const(1.0)
    across = ops.sqrt(ops.mul(ops.sub(one, x), ops.add(one, x)))
    return ops.mul(ops.const(2.0), atan(ops, ops.div(x, ops.add(one, across))))


def acos(ops: Lanes, x: Lane) -> Lane:
    """Inverse cosine; NaN beyond 1."""
    one = ops.const(1.0)
    return ops.mul(ops.const(2.0), atan(ops, ops.sqrt(ops.div(ops.sub(one, x), ops.add(one, x)))))


def erf(ops: Lanes, x: Lane) -> Lane:
    """Error function; the same formula as the reference of the compiler."""
    one = ops.const(1.0)
    size = ops.at_most(ops.abs(x), 6.0)
    square = ops.mul(size, size)
    near = ops.mul(x, _quotient(ops, ERF_NEAR, square))
    large = ops.at_least(size, 0.46875)
    inverse = ops.div(one, ops.mul(large, large))
    rest = ops.mul(inverse, _quotient(ops, ERF_FAR, inverse))
    beyond = ops.div(ops.sub(ops.const(1 / math.sqrt(math.pi)), rest), large)
    middle = ops.compare("ole", large, ops.const(4.0))
    tail = ops.select(middle, _quotient(ops, ERF_MIDDLE, large), beyond)
    falling = ops.mul(exp(ops, ops.neg(ops.mul(large, large))), tail)
    far = ops.with_sign_of(ops.sub(one, falling), x)
    return ops.select(ops.compare("ogt", size, ops.const(0.46875)), far, near)


def _quotient(ops: Lanes, polynomials: tuple[Sequence[float], Sequence[float]], x: Lane) -> Lane:
    above, below = (ops.polynomial(x, p[::-1]) for p in polynomials)
    return ops.div(above, below)


def rsqrt(ops: Lanes, x: Lane) -> Lane:
    """1 / sqrt(x)."""
    return ops.div(ops.const(1.0), ops.sqrt(x))


def inverse_fourth_root(ops: Lanes, x: Lane) -> Lane:
    """x^(-1/4)."""
    return ops.div(ops.const(1.0), ops.sqrt(ops.sqrt(x)))


DOUBLE_FUNCTIONS: Mapping[str, Function] = {
    "exp": exp,
    "log": log,
    "erf": erf,
    "sigmoid": sigmoid,
    "rsqrt": rsqrt,
    "inverse_fourth_root": inverse_fourth_root,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "sinh": sinh,
    "cosh": cosh,
    "tanh": tanh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "pow": partial(power, exp=exp, log_in_parts=_log_in_parts, least=_EXP_LOWEST),
}
"""By operation of `compiler.scalar.OPS`; each takes one float for each argument."""
