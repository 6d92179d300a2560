"""Elementwise arithmetic with broadcasting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import elementwise, float_operands
from compiler.frontend.powers import power
from compiler.scalar import Const, Expr, apply


def _scalar(op: str) -> Lowering:
    """One operation of OPS on all inputs."""

    def lower(call: OperatorCall) -> None:
        call.emit(elementwise(call, call.values(), lambda *args: apply(op, *args)))

    return lower


def _float_scalar(op: str) -> Lowering:
    """The same, for operations that integers do not have."""

    def lower(call: OperatorCall) -> None:
        float_operands(call, *call.values())
        call.emit(elementwise(call, call.values(), lambda *args: apply(op, *args)))

    return lower


def _variadic(op: str) -> Lowering:
    """The inputs combined from left to right."""

    def lower(call: OperatorCall) -> None:
        call.emit(elementwise(call, call.values(), lambda *args: reduce(lambda x, y: apply(op, x, y), args)))

    return lower


def _mean(call: OperatorCall) -> None:
    values = call.values()
    float_operands(call, *values)

    def body(*args: Expr) -> Expr:
        return apply("div", reduce(lambda x, y: apply("add", x, y), args), Const(float(len(args))))

    call.emit(elementwise(call, values, body))


def _reciprocal(call: OperatorCall) -> None:
    float_operands(call, call.value(0))
    call.emit(elementwise(call, [call.value(0)], lambda x: apply("div", Const(1.0), x)))


def _pow(call: OperatorCall) -> None:
    """Known exponents become products and roots; the type is that of the base."""
    base, exponent = call.value(0), call.value(1)
    float_operands(call, base)
    known = call.builder.constants.get(exponent)
    if known is not None and known.size == 1:
        number = call.constant_float(1)
        return call.emit(elementwise(call, [base, _as_float(call, 1)], lambda x, _: power(x, number)))
    if known is not None:
        exponent = _as_float(call, 1)
    float_operands(call, exponent)
    return call.emit(elementwise(call, [base, exponent], lambda x, y: apply("pow", x, y)))


def _as_float(call: OperatorCall, position: int) -> str:
    """A constant as float32."""
    array = call.constant(position)
    if array.dtype == np.float32:
        return call.value(position)
    return call.intermediate_constant(array.astype(np.float32), "float")


def _divide(call: OperatorCall) -> None:
    values = call.values()
    divisor = call.builder.constants.get(values[-1])
    if call.dtype(*values) is not DType.F32:
        if divisor is not None and not divisor.all():
            call.reject("divides integers by zero")
        if any(value not in call.builder.constants for value in values):
            call.unsupported("division of whole numbers that are not constant")
    call.emit(elementwise(call, values, lambda x, y: apply("div", x, y)))


LOWERINGS: Mapping[str, Lowering] = {
    "Add": _scalar("add"),
    "Sub": _scalar("sub"),
    "Mul": _scalar("mul"),
    "Div": _divide,
    "Neg": _scalar("neg"),
    "Abs": _scalar("abs"),
    "Sqrt": _float_scalar("sqrt"),
    "Floor": _float_scalar("floor"),
    "Ceil": _float_scalar("ceil"),
    "Round": _float_scalar("round"),
    "Exp": _float_scalar("exp"),
    "Log": _float_scalar("log"),
    "Erf": _float_scalar("erf"),
    "Tanh": _float_scalar("tanh"),
    "Sigmoid": _float_scalar("sigmoid"),
    "Pow": _pow,
    "Reciprocal": _reciprocal,
    "Max": _variadic("max"),
    "Min": _variadic("min"),
    "Sum": _variadic("add"),
    "Mean": _mean,
}
