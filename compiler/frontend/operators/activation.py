"""Activations that need no more than arithmetic, minimum and maximum."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import broadcast_load, elementwise, float_operands, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Const, Expr, apply

ZERO, ONE = Const(0.0), Const(1.0)


def _map(call: OperatorCall, body: Callable[[Expr], Expr]) -> None:
    float_operands(call, call.value(0))
    call.emit(elementwise(call, [call.value(0)], body))


def _relu(call: OperatorCall) -> None:
    _map(call, lambda x: apply("max", x, ZERO))


def _leaky_relu(call: OperatorCall) -> None:
    alpha = call.number("alpha", 0.01)
    slope = Const(alpha)
    if 0 < alpha <= 1:
        _map(call, lambda x: apply("max", x, apply("mul", x, slope)))
    else:
        _map(call, lambda x: _two_slopes(x, slope))


def _prelu(call: OperatorCall) -> None:
    x, slope = call.value(0), call.value(1)
    float_operands(call, x, slope)
    shape = call.shape(0)
    axes = output_axes(shape)
    small = call.shape(1)
    fits = len(small) <= len(shape) and all(
        n in (1, whole) for n, whole in zip(reversed(small), reversed(shape), strict=False)
    )
    if not fits:
        call.reject(f"has a slope of shape {list(small)} for an input of shape {list(shape)}")
    body = _two_slopes(broadcast_load(call, x, axes), broadcast_load(call, slope, axes))
    call.emit(Compute(axes, (), None, body))


def _two_slopes(x: Expr, slope: Expr) -> Expr:
    """The value itself where it is positive, slope * x elsewhere."""
    return apply("add", apply("max", x, ZERO), apply("mul", slope, apply("min", x, ZERO)))


def _clip(call: OperatorCall) -> None:
    if call.opset < 11:
        low, high = call.number("min", -math.inf), call.number("max", math.inf)
    else:
        low = call.constant_float(1) if call.has(1) else -math.inf
        high = call.constant_float(2) if call.has(2) else math.inf
    if call.dtype(call.value(0)) is not DType.F32:
        call.unsupported("element type of its input")

    def body(x: Expr) -> Expr:
        x = apply("max", x, Const(low)) if low > -math.inf else x
        return apply("min", x, Const(high)) if high < math.inf else x

    _map(call, body)


def _hard_sigmoid(call: OperatorCall) -> None:
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    _map(call, lambda x: _ramp(x, alpha, beta))


def _hard_swish(call: OperatorCall) -> None:
    _map(call, lambda x: apply("mul", x, _ramp(x, 1 / 6, 0.5)))


def _ramp(x: Expr, slope: float, offset: float) -> Expr:
    """A line, slope * x + offset, kept between 0 and 1."""
    line = apply("add", apply("mul", x, Const(slope)), Const(offset))
    return apply("max", apply("min", line, ONE), ZERO)


LOWERINGS: Mapping[str, Lowering] = {
    "Relu": _relu,
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
}
