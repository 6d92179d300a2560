"""Elementwise arithmetic with broadcasting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import (
    broadcast,
    broadcast_load,
    elementwise,
    float_map,
    number,
    output_axes,
    stored,
    widened,
)
from compiler.frontend.powers import power
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Const, Expr, apply

OPERATIONS: Mapping[str, str] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Neg": "neg",
    "Abs": "abs",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "BitwiseNot": "not",
}
"""Operators that are one operation of `compiler.scalar.OPS`."""

ROUNDINGS: Mapping[str, str] = {"Floor": "floor", "Ceil": "ceil", "Round": "round"}


def _scalar(op: str) -> Lowering:
    """One operation of OPS on all inputs."""

    def lower(call: OperatorCall) -> None:
        call.emit(elementwise(call, call.values(), lambda *args: apply(op, *args)))

    return lower


def _whole_unchanged(op: str) -> Lowering:
    """The same, for one that changes no whole number."""

    def lower(call: OperatorCall) -> None:
        if call.dtype(call.value(0)).is_integer:
            return call.emit_same(call.value(0))
        return float_map(call, lambda x: apply(op, x))

    return lower


def _variadic(op: str) -> Lowering:
    """The inputs combined from left to right."""

    def lower(call: OperatorCall) -> None:
        call.emit(elementwise(call, call.values(), lambda *args: reduce(lambda x, y: apply(op, x, y), args)))

    return lower


def _mean(call: OperatorCall) -> None:
    def body(*args: Expr) -> Expr:
        return apply("div", reduce(lambda x, y: apply("add", x, y), args), Const(float(len(args))))

    call.emit(elementwise(call, call.values(), body))


def _reciprocal(call: OperatorCall) -> None:
    float_map(call, lambda x: apply("div", Const(1.0), x))


def _sign(call: OperatorCall) -> None:
    """Emit -1, 0 or 1; NaN stays NaN."""
    dtype = call.dtype(call.value(0)).computed

    def body(x: Expr) -> Expr:
        zero, one, less = (number(n, dtype) for n in (0, 1, -1))
        above = apply("select", apply("less", zero, x), one, x)
        return apply("select", apply("less", x, zero), less, above) if dtype.is_signed else above

    call.emit(elementwise(call, [call.value(0)], body))


def _mod(call: OperatorCall) -> None:
    """Emit the remainder with the sign of the dividend (fmod) or of the divisor."""
    dtype = call.dtype(*call.values())
    truncated = bool(call.integer("fmod"))

    def body(x: Expr, y: Expr) -> Expr:
        rest = apply("rem", x, y)
        if truncated or not dtype.is_signed:
            return rest
        zero = number(0, dtype.computed)
        apart = apply("xor", apply("less", rest, zero), apply("less", y, zero))
        moved = apply("and", apply("not", apply("equal", rest, zero)), apart)
        return apply("select", moved, apply("add", rest, y), rest)

    call.emit(elementwise(call, call.values(), body))


def _pow(call: OperatorCall) -> None:
    """Known exponents of floats become products and roots; the type is that of the base."""
    base, exponent = call.value(0), call.value(1)
    kinds = call.dtype(base), call.dtype(exponent)
    known = call.builder.constants.get(exponent)
    if known is not None and known.size == 1 and kinds[0].is_float:
        value = call.constant_float(1)
        axes = output_axes(broadcast(call, [call.shape(0), call.shape(1)]))
        body = power(widened(broadcast_load(call, base, axes), kinds[0]), value)
        return call.emit(Compute(axes, (), None, stored(call, body, kinds[0])))
    axes = output_axes(broadcast(call, [call.shape(0), call.shape(1)]))
    x, y = (broadcast_load(call, value, axes) for value in (base, exponent))
    return call.emit(Compute(axes, (), None, stored(call, _power(x, y, *kinds), kinds[0])))


def _power(x: Expr, y: Expr, base: DType, exponent: DType) -> Expr:
    """Whole powers of whole numbers wrap around; what else there is of whole numbers is computed in double precision.

    A whole power of a whole number is rounded to whole before its fraction would be cut off.
    """
    if base.is_integer and exponent.is_integer:
        return Cast(apply("pow", Cast(x, DType.I64), Cast(y, DType.I64)), base)
    if base.is_float and exponent.is_float:
        kind = DType.F64 if DType.F64 in (base, exponent) else DType.F32
        return Cast(apply("pow", Cast(x, kind), Cast(y, kind)), base)
    result = apply("pow", Cast(x, DType.F64), Cast(y, DType.F64))
    if base.is_float:
        return Cast(result, base)
    wide = Cast(y, DType.F64)
    whole = apply("equal", apply("floor", wide), wide)
    return Cast(apply("select", whole, apply("round", result), result), base)


def _divide(call: OperatorCall) -> None:
    values = call.values()
    divisor = call.builder.constants.get(values[-1])
    if call.dtype(*values).is_integer and divisor is not None and not divisor.all():
        call.reject("divides integers by zero")
    call.emit(elementwise(call, values, lambda x, y: apply("div", x, y)))


def _shift(call: OperatorCall) -> None:
    directions = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    direction = call.text("direction", "")
    if direction not in directions:
        call.reject(f"has direction {direction[:20]!r}")
    call.emit(elementwise(call, call.values(), lambda x, y: apply(directions[direction], x, y)))


LOWERINGS: Mapping[str, Lowering] = {
    **{name: _scalar(op) for name, op in OPERATIONS.items()},
    **{name: _whole_unchanged(op) for name, op in ROUNDINGS.items()},
    "Div": _divide,
    "Mod": _mod,
    "BitShift": _shift,
    "Sign": _sign,
    "Pow": _pow,
    "Reciprocal": _reciprocal,
    "Max": _variadic("max"),
    "Min": _variadic("min"),
    "Sum": _variadic("add"),
    "Mean": _mean,
}
