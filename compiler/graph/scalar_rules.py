"""Algebra of scalar expressions, as rules that give a smaller expression or None.

Every rule is exact in IEEE arithmetic, NaN and infinities included (the sign of a zero aside): x * 0 is not 0, and
sums are never reordered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from compiler import elementary
from compiler.dtype import DType
from compiler.graph.digits import with_digits_joined
from compiler.index import Index, Ranges
from compiler.scalar import Apply, Bound, Cast, Const, Expr, Guard, Load, Lookup, rewrite, substitute
from compiler.scalar_ops import OPS, Signature

Interval = tuple[float, float]
"""Values that an expression can have when it is not NaN, both ends included."""

UNKNOWN: Interval = (-math.inf, math.inf)
_LARGE, _ROUNDED = 80.0, 1.01
"""What a function that grows is not taken of; and how much more than its true value the machine's is, at most."""


def simplified(expr: Expr, ranges: Ranges, known: Mapping[str, Interval]) -> Expr:
    """The smallest expression that the rules reach; the same object where none applies.

    Args:
        expr: body of a Compute.
        ranges: extents of its axes.
        known: interval of the elements of some buffers.
    """

    def rule(e: Expr) -> Expr | None:
        return _simplify(e, ranges, known)

    while True:
        smaller = rewrite(expr, rule)
        if smaller is expr:
            return expr
        expr = smaller


def interval(expr: Expr, known: Mapping[str, Interval]) -> Interval:
    """Bounds of the value, from literals and from what is known of the buffers."""
    match expr:
        case Const(value, _):
            return (float(value), float(value))
        case Load(buffer, _):
            return known.get(buffer, UNKNOWN)
        case Guard(_, inside, outside):
            (a, b), (c, d) = interval(inside, known), interval(outside, known)
            return min(a, c), max(b, d)
        case Apply("abs" | "sqrt" | "rsqrt" | "inverse_fourth_root", _):
            return 0.0, math.inf
        case Apply("sigmoid", _):
            return 0.0, 1.0
        case Apply("tanh" | "erf", _):
            return -1.0, 1.0
        case Apply("select", (_, x, y)):
            (a, b), (c, d) = interval(x, known), interval(y, known)
            return min(a, c), max(b, d)
        case Apply("neg", (x,)):
            low, high = interval(x, known)
            return -high, -low
        case Apply("max" | "min" | "at_most" as op, (x, y)):
            (a, b), (c, d) = interval(x, known), interval(y, known)
            pick = max if op == "max" else min
            return pick(a, c), pick(b, d)
        case _:
            return _increasing(expr, known) if isinstance(expr, Apply) else UNKNOWN


def _increasing(expr: Apply, known: Mapping[str, Interval]) -> Interval:
    """Of operations whose result grows with their operand."""
    match expr:
        case Apply("exp", (x,)):
            high = interval(x, known)[1]
            return 0.0, math.exp(high) * _ROUNDED if high < _LARGE else math.inf
        case Apply("round" | "floor" | "ceil" as op, (x,)):
            return _of_ends(op, interval(x, known))
        case Apply("mul" | "div" as op, (x, Const(by, DType.F32) as other)) if 0.0 < by < math.inf:
            return _of_ends(op, interval(x, known), other)
        # The code generator rounds a sum with a product once, so its ends are not those of the rounded product.
        case Apply("add" | "sub", (Apply("mul", _), _)):
            return UNKNOWN
        case Apply("add" | "sub" as op, (Apply() as x, Const(_, DType.F32) as other)):
            return _of_ends(op, interval(x, known), other)
        case _:
            return UNKNOWN


def _of_ends(op: str, ends: Interval, *others: Const) -> Interval:
    """What an increasing operation makes of an interval, as the machine computes it."""
    values = (OPS[op].evaluate(*(np.float32(v) for v in (end, *(o.value for o in others)))) for end in ends)
    with np.errstate(all="ignore"):
        low, high = (float(value) for value in values)
    return (low, high) if low <= high else UNKNOWN


def _simplify(expr: Expr, ranges: Ranges, known: Mapping[str, Interval]) -> Expr | None:
    match expr:
        case Apply(_, args) if args and all(isinstance(a, Const) for a in args):
            return _folded(expr)
        case Apply("max" | "min", _):
            return _clamp(expr, known)
        case Apply(op, _) if op in _RULES:
            return _RULES[op](expr.args)
        case Guard():
            return _guard(expr, ranges)
        case Cast(Const(value, _), DType.F32):
            return Const(float(np.float32(value)))
        case Lookup():
            return _lookup(expr)
        case Load(buffer, indices):
            simple = tuple(i if i.is_affine() else with_digits_joined(i.simplify(ranges)) for i in indices)
            return None if simple == indices else Load(buffer, simple)
        case _:
            return None


def _folded(expr: Apply) -> Expr | None:
    """The literal, computed as the machine would: in the type of its arguments."""
    values = [arg for arg in expr.args if isinstance(arg, Const)]
    if any(v.dtype is not DType.F32 for v in values) or OPS[expr.op].signature is Signature.FIXED:
        return None
    with np.errstate(all="ignore"):
        result = OPS[expr.op].evaluate(*(np.float32(v.value) for v in values))
    if OPS[expr.op].signature in (Signature.TEST, Signature.ORDER):
        return Const(int(result), DType.BOOL)
    return None if math.isnan(result) else Const(float(result))


def _lookup(lookup: Lookup) -> Expr | None:
    """An index that is known, or that only has one value."""
    match lookup.value:
        case Const(value, _):
            known = int(elementary.place(value, lookup.found.size))
        case _ if lookup.found.extent == 1:
            known = 0
        case _:
            return None
    return substitute(lookup.inside, {lookup.found.name: Index.of(known)})


def _is(expr: Expr, value: float) -> bool:
    return isinstance(expr, Const) and expr.value == value


def _add(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (x, zero) if _is(zero, 0.0):
            return x
        case (zero, x) if _is(zero, 0.0):
            return x
        case (x, Apply("neg", (y,))):
            return Apply("sub", (x, y))
        case (Apply("neg", (y,)), x):
            return Apply("sub", (x, y))
        case _:
            return None


def _sub(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (x, zero) if _is(zero, 0.0):
            return x
        case (x, Apply("neg", (y,))):
            return Apply("add", (x, y))
        case _:
            return None


def _mul(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (x, factor) if _is(factor, 1.0):
            return x
        case (factor, x) if _is(factor, 1.0):
            return x
        case (x, factor) if _is(factor, -1.0):
            return Apply("neg", (x,))
        case (factor, x) if _is(factor, -1.0):
            return Apply("neg", (x,))
        case (Apply("neg", (x,)), Apply("neg", (y,))):
            return Apply("mul", (x, y))
        case _:
            return None


def _div(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (x, divisor) if _is(divisor, 1.0):
            return x
        case (x, Const(value, DType.F32)) if _has_exact_reciprocal(float(value)):
            return Apply("mul", (x, Const(1.0 / value)))
        case _:
            return None


def _has_exact_reciprocal(value: float) -> bool:
    """Powers of two, away from where the reciprocal leaves the normal f32 numbers."""
    mantissa, exponent = math.frexp(value)
    return abs(mantissa) == 0.5 and abs(exponent) < 100


def _neg(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (Apply("neg", (x,)),):
            return x
        case (Apply("sub", (x, y)),):
            return Apply("sub", (y, x))
        case _:
            return None


def _abs(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (Apply("neg" | "abs", (x,)),):
            return Apply("abs", (x,))
        case _:
            return None


def _whole(args: tuple[Expr, ...]) -> Expr | None:
    """Rounding what is whole already."""
    match args:
        case (Apply("floor" | "ceil" | "round", _) as x,):
            return x
        case _:
            return None


def _pow(args: tuple[Expr, ...]) -> Expr | None:
    """Exponents that need no logarithm, and are rounded only once."""
    match args:
        case (_, y) if _is(y, 0.0):
            return Const(1.0)
        case (x, y) if _is(y, 1.0):
            return x
        case (x, y) if _is(y, -1.0):
            return Apply("div", (Const(1.0), x))
        case (Load() as x, y) if _is(y, 2.0):
            return Apply("mul", (x, x))
        case _:
            return None


def _select(args: tuple[Expr, ...]) -> Expr | None:
    match args:
        case (Const(test), x, y):
            return x if test else y
        case (_, x, y) if x == y:
            return x
        case (Apply("not", (test,)), x, y):
            return Apply("select", (test, y, x))
        case _:
            return None


_RULES: Mapping[str, Callable[[tuple[Expr, ...]], Expr | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "abs": _abs,
    "floor": _whole,
    "ceil": _whole,
    "round": _whole,
    "pow": _pow,
    "select": _select,
}


def _clamp(expr: Apply, known: Mapping[str, Interval]) -> Expr | None:
    """max(x, c) is x where x never is smaller; max(max(x, c), d) is max(x, e). The same for min."""
    x, y = expr.args
    if isinstance(x, Const):
        x, y = y, x
    if x == y:
        return x
    if not isinstance(y, Const) or math.isnan(y.value):
        return None
    low, high = interval(x, known)
    if (expr.op == "max" and low >= y.value) or (expr.op == "min" and high <= y.value):
        return x
    match x:
        case Apply(op, (inner, Const(other, y.dtype))) | Apply(op, (Const(other, y.dtype), inner)) if (
            op == expr.op and not math.isnan(other)
        ):
            pick = max if op == "max" else min
            return Apply(op, (inner, Const(pick(other, y.value), y.dtype)))
        case _:
            return None


def with_tests_decided(expr: Expr, ranges: Ranges) -> Expr:
    """The expression without the tests of which the ranges of its axes say how they turn out."""
    return rewrite(expr, lambda e: _guard(e, ranges) if isinstance(e, Guard) else None)


def _guard(guard: Guard, ranges: Ranges) -> Expr | None:
    bounds, inside = guard.bounds, guard.inside
    if isinstance(inside, Guard) and inside.outside == guard.outside:
        bounds, inside = (*inside.bounds, *bounds), inside.inside
    merged = _merged(bounds, ranges)
    if merged is None or guard.outside == inside:
        return guard.outside
    if not merged:
        return inside
    return None if merged == guard.bounds else Guard(merged, inside, guard.outside)


def _merged(bounds: tuple[Bound, ...], ranges: Ranges) -> tuple[Bound, ...] | None:
    """One bound per index, without those that always hold; None where one never does."""
    kept: list[Bound] = []
    for bound in bounds:
        index = bound.index if bound.index.is_affine() else bound.index.simplify(ranges)
        low, high = bound.low, bound.high
        for place, other in enumerate(kept):
            shift = (other.index - index).constant
            if shift is not None:
                kept[place] = Bound(other.index, max(low + shift, other.low), min(high + shift, other.high))
                break
        else:
            kept.append(Bound(index, low, high))
    if any(_never(bound, ranges) for bound in kept):
        return None
    return tuple(bound for bound in kept if not _always(bound, ranges))


def _never(bound: Bound, ranges: Ranges) -> bool:
    low, high = bound.index.bounds(ranges)
    return high < bound.low or low >= bound.high or bound.low >= bound.high


def _always(bound: Bound, ranges: Ranges) -> bool:
    low, high = bound.index.bounds(ranges)
    return low >= bound.low and high < bound.high
