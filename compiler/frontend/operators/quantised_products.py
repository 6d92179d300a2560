"""Matrix products and convolutions of small whole numbers, with zero points.

    MatMulInteger, ConvInteger    sum (x - x_zero) * (w - w_zero)                                          in i32
    QLinearMatMul, QLinearConv    saturate(round((that + bias) * (x_scale * w_scale / y_scale)) + y_zero)

Products are stated with their zero points inside; compiler.graph.fold_zero_points takes them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, reduced
from compiler.frontend.operators.convolution import checked_windows, convolution
from compiler.frontend.operators.matmul import product
from compiler.frontend.operators.quantisation import (
    QUANTISED,
    parameter,
    saturated,
    single,
    zero_parameter,
)
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Const, Expr, Load, apply
from compiler.symbol import Axis

_BYTES = (DType.U8, DType.I8)


@dataclass(frozen=True)
class _Inputs:
    """Input positions of an operator; None where it has no such input."""

    x: int
    w: int
    x_zero: int
    w_zero: int
    scales: tuple[int, int, int] | None = None
    y_zero: int = 0
    bias: int | None = None


_INTEGER = _Inputs(x=0, w=1, x_zero=2, w_zero=3)
_LINEAR_MATMUL = _Inputs(x=0, w=3, x_zero=2, w_zero=5, scales=(1, 4, 6), y_zero=7)
_LINEAR_CONV = _Inputs(x=0, w=3, x_zero=2, w_zero=5, scales=(1, 4, 6), y_zero=7, bias=8)


def _matmul(inputs: _Inputs) -> Lowering:
    def lower(call: OperatorCall) -> None:
        x, w = _operands(call, inputs)
        found = product(call, x, w)
        rows, columns = found.row or 0, found.column or 0
        left = _centred(found.left, zero_parameter(call, inputs.x_zero, found.axes, rows))
        right = _centred(found.right, zero_parameter(call, inputs.w_zero, found.axes, columns))
        total = reduced(found.axes, found.inner, "sum", apply("mul", left, right), DType.I32)
        _finish(call, inputs, total, (rows, columns))

    return lower


def _conv(inputs: _Inputs) -> Lowering:
    def lower(call: OperatorCall) -> None:
        x, w = _operands(call, inputs)
        found = convolution(call, x, w, checked_windows(call, x, w))
        x_zero = zero_parameter(call, inputs.x_zero, found.axes, 1)
        if x_zero is not None and any(index.terms for index in x_zero.indices):
            call.unsupported("a zero point per channel of the data")
        element = found.guarded(_centred(found.data, x_zero), Const(0, DType.I32))
        weights = _centred(found.weights, zero_parameter(call, inputs.w_zero, found.axes, 1))
        total = reduced(found.axes, found.inner, "sum", apply("mul", element, weights), DType.I32)
        _finish(call, inputs, total, (1, 1))

    return lower


def _operands(call: OperatorCall, inputs: _Inputs) -> tuple[str, str]:
    values = call.value(inputs.x), call.value(inputs.w)
    for value in values:
        if call.dtype(value) not in _BYTES:
            call.unsupported(f"operands of type {call.builder.dtype(value)}")
    return values


def _centred(element: Load, zero: Load | None) -> Expr:
    wide = Cast(element, DType.I32)
    return wide if zero is None else apply("sub", wide, Cast(zero, DType.I32))


def _finish(call: OperatorCall, inputs: _Inputs, total: Compute, places: tuple[int, int]) -> None:
    """Emit the sum, or what the scales make of it; `places`: the axis of the scales of x and of w."""
    if inputs.scales is None:
        return call.emit(total)
    axes = total.axes
    value: Expr = Load(call.intermediate(total, "sum"), at(axes))
    if inputs.bias is not None and call.has(inputs.bias):
        value = apply("add", value, Load(call.value(inputs.bias), (at(axes)[1],)))
    dtype = call.dtype(call.value(inputs.y_zero))
    if dtype not in QUANTISED:
        call.unsupported(f"output type {dtype.value}")
    scaled = apply("mul", Cast(value, DType.F32), _multiplier(call, inputs.scales, axes, places))
    zero = zero_parameter(call, inputs.y_zero, axes, places[1])
    return call.emit(Compute(axes, (), None, saturated(scaled, zero, dtype), dtype))


def _multiplier(
    call: OperatorCall, scales: tuple[int, int, int], axes: tuple[Axis, ...], places: tuple[int, int]
) -> Load:
    """x_scale * w_scale / y_scale, over the axes that any of them has."""
    found = [
        parameter(call, position, axes, place)
        for position, place in zip(scales, (*places, places[1]), strict=True)
    ]
    names = {name for load in found for index in load.indices for name in index.names()}
    own = tuple(a for a in axes if a.name in names)
    x, w, y = (single(call, load) for load in found)
    body = apply("div", apply("mul", x, w), y)
    return Load(call.intermediate(Compute(own, (), None, body), "multiplier"), at(own))


LOWERINGS: Mapping[str, Lowering] = {
    "MatMulInteger": _matmul(_INTEGER),
    "ConvInteger": _conv(_INTEGER),
    "QLinearMatMul": _matmul(_LINEAR_MATMUL),
    "QLinearConv": _conv(_LINEAR_CONV),
}
