"""Activations that need no more than arithmetic, minimum and maximum."""

from __future__ import annotations

import math
from collections.abc import Mapping

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import broadcast, elementwise, float_map, number
from compiler.scalar import Const, Expr, apply

ZERO, ONE = Const(0.0), Const(1.0)


def _relu(call: OperatorCall) -> None:
    dtype = call.dtype(call.value(0)).computed
    call.emit(elementwise(call, [call.value(0)], lambda x: apply("max", x, number(0, dtype))))


def _leaky_relu(call: OperatorCall) -> None:
    alpha = call.number("alpha", 0.01)
    slope = Const(alpha)
    if 0 < alpha <= 1:
        float_map(call, lambda x: apply("max", x, apply("mul", x, slope)))
    else:
        float_map(call, lambda x: _two_slopes(x, slope))


def _prelu(call: OperatorCall) -> None:
    """The slope broadcasts to the input, never the other way."""
    if broadcast(call, [call.shape(0), call.shape(1)]) != call.shape(0):
        call.reject(f"has a slope of shape {list(call.shape(1))} for an input of shape {list(call.shape(0))}")
    kind = call.dtype(call.value(0), call.value(1)).computed
    call.emit(elementwise(call, call.values(), lambda x, slope: _two_slopes(x, slope, kind)))


def _two_slopes(x: Expr, slope: Expr, kind: DType = DType.F32) -> Expr:
    """The value itself where it is positive, slope * x elsewhere."""
    zero = number(0, kind)
    return apply("add", apply("max", x, zero), apply("mul", slope, apply("min", x, zero)))


def _clip(call: OperatorCall) -> None:
    """At least the first limit, then at most the second; limits are literals where they are known."""
    kind = call.dtype(call.value(0)).computed
    limits: list[Const | str | None] = [_limit(call, place, kind) for place in (0, 1)]
    values = [call.value(0), *(limit for limit in limits if isinstance(limit, str))]

    def body(x: Expr, *loaded: Expr) -> Expr:
        rest = iter(loaded)
        for op, limit in zip(("max", "min"), limits, strict=True):
            if limit is not None:
                x = apply(op, x, limit if isinstance(limit, Const) else next(rest))
        return x

    if len(values) == 1 and limits == [None, None]:
        return call.emit_same(call.value(0))
    return call.emit(elementwise(call, values, body))


def _limit(call: OperatorCall, place: int, kind: DType) -> Const | str | None:
    """A limit of Clip: a literal, the value that holds it, or none."""
    if call.opset < 11:
        bound = call.number(("min", "max")[place], (-math.inf, math.inf)[place])
        return None if math.isinf(bound) else number(bound, kind)
    if not call.has(place + 1):
        return None
    value = call.value(place + 1)
    known = call.builder.constants.get(value)
    if known is None:
        if call.shape(place + 1) not in ((), (1,)):
            call.reject(f"has a limit of shape {list(call.shape(place + 1))} instead of one number")
        return value
    if known.size != 1:
        call.reject(f"has a limit of shape {list(known.shape)} instead of one number")
    bound = known.item()
    if kind.is_float and float(bound) == (-math.inf, math.inf)[place]:
        return None
    return number(bound, kind)


def _hard_sigmoid(call: OperatorCall) -> None:
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    float_map(call, lambda x: _ramp(x, alpha, beta))


def _hard_swish(call: OperatorCall) -> None:
    float_map(call, lambda x: apply("mul", x, _ramp(x, 1 / 6, 0.5)))


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
