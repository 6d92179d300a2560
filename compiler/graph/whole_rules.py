"""Algebra of floats that are whole numbers, as quantised models are full of: rules that give a cheaper expression.

    max(round(x / s) + z, 0)         →   round(max(x, -z * s) / s) + z
    f32(i32(u8(e)) - z)              →   e - z                           e: whole, and within 0 .. 255
    (e + z) - z                      →   e

Exact for all numbers. A clamp in front of a division bounds what is divided, so that no code has to think of
infinities (`compiler.codegen.reciprocals`); what was quantised only to be read again never becomes an integer. A NaN
stays one where the conversion, which is not defined for it, would have made some number of it.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.dtype import DType
from compiler.graph.scalar_rules import Interval, interval
from compiler.scalar import Apply, Cast, Const, Expr, rewrite

_LARGEST = float(1 << 16)
"""Of the magnitudes handled here: a whole number of f32, a sum of a few of them, and half of one more are exact."""


def with_whole_numbers(expr: Expr) -> Expr:
    """The expression after all rules; the same object where none applies."""
    while True:
        cheaper = rewrite(expr, _rule)
        if cheaper is expr:
            return expr
        expr = cheaper


def _rule(expr: Expr) -> Expr | None:
    match expr:
        case Apply("max" | "min" as op, (x, Const(limit, DType.F32))) if _is_small(limit):
            return None if isinstance(x, Const) else _clamped(op, x, limit)
        case Apply("max" | "min" as op, (Const(limit, DType.F32), x)) if _is_small(limit):
            return _clamped(op, x, limit)
        case Cast(whole, DType.F32):
            return _as_float(whole)
        case Apply("sub", (Apply("add", (x, Const(z))), Const(w))) if z == w and _is_small(z):
            return x if whole_interval(x) is not None else None
        case _:
            return None


def _clamped(op: str, expr: Expr, limit: float) -> Expr | None:
    """`op(expr, limit)` with the clamp below the rounding in it; None where nothing in it is rounded."""
    match expr:
        case Apply("add", (x, Const(z, DType.F32))) if _is_small(z):
            inner = _clamped(op, x, limit - z) if _is_small(limit - z) else None
            return None if inner is None else Apply("add", (inner, Const(z)))
        case Apply("round", (Apply("div", (x, Const(scale, DType.F32))),)) if scale > 0.0:
            return _clamped_scaled(op, expr, "div", x, scale, float(np.float32(limit) * np.float32(scale)))
        case Apply("round", (Apply("mul", (x, Const(scale, DType.F32))),)) if scale > 0.0:
            return _clamped_scaled(op, expr, "mul", x, scale, float(np.float32(limit) / np.float32(scale)))
        case _:
            return None


def _clamped_scaled(op: str, expr: Expr, how: str, x: Expr, scale: float, end: float) -> Expr | None:
    """`round(how(op(x, end), scale))`: what is nearer to `end` than half a unit is rounded to the limit either way."""
    if not (math.isfinite(end) and (end == 0.0 or abs(end) > 1e-30) and 1e-30 < scale < 1e30):
        return None
    return Apply("round", (Apply(how, (Apply(op, (x, Const(end))), Const(scale))),))


def _as_float(whole: Expr) -> Expr | None:
    """A whole number as a float, where it was one before it became an integer."""
    match whole:
        case Cast(Cast(x, DType.U8 | DType.I8 | DType.U16 | DType.I16 as dtype), DType.I32):
            return x if _fits(x, dtype) else None
        case Apply(
            "sub", (Cast(Cast(x, DType.U8 | DType.I8 | DType.U16 | DType.I16 as dtype), DType.I32), zero)
        ):
            z = _number(zero)
            return Apply("sub", (x, Const(z))) if z is not None and _fits(x, dtype) else None
        case _:
            return None


def _number(zero: Expr) -> float | None:
    match zero:
        case Const(value, DType.I32) | Cast(Const(value), DType.I32) if _is_small(float(value)):
            return float(value)
        case _:
            return None


def _fits(expr: Expr, dtype: DType) -> bool:
    known, (low, high) = whole_interval(expr), dtype.limits
    return known is not None and low <= known[0] and known[1] <= high


def whole_interval(expr: Expr) -> Interval | None:
    """Ends of a float that is always a whole number of small magnitude; None of any other expression."""
    ends = interval(expr, {})
    return ends if _is_whole(expr) and all(abs(end) <= _LARGEST for end in ends) else None


def _is_whole(expr: Expr) -> bool:
    match expr:
        case Apply("round" | "floor" | "ceil", _):
            return True
        case Apply("add" | "sub", (x, Const(z, DType.F32))):
            return _is_small(z) and _is_whole(x)
        case _:
            return False


def _is_small(value: float) -> bool:
    return abs(value) <= _LARGEST and float(value).is_integer()
