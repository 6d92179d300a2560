"""Elementwise arithmetic with broadcasting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import elementwise, float_operands
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


def _divide(call: OperatorCall) -> None:
    values = call.values()
    divisor = call.builder.constants.get(values[-1])
    if call.dtype(*values) is not DType.F32 and divisor is not None and not divisor.all():
        call.reject("divides integers by zero")
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
    "Reciprocal": _reciprocal,
    "Max": _variadic("max"),
    "Min": _variadic("min"),
    "Sum": _variadic("add"),
    "Mean": _mean,
}
