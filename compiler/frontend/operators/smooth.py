"""Activations with exponentials, and those that choose between two expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import float_map
from compiler.scalar import Const, Expr, apply

ZERO, ONE = Const(0.0), Const(1.0)


def _exponential_below_zero(x: Expr, slope: float, depth: float) -> Expr:
    """The value itself where it is positive, depth * (exp(x / slope) - 1) elsewhere."""
    low = apply("min", x, ZERO)
    low = low if slope == 1 else apply("div", low, Const(slope))
    grown = apply("sub", apply("exp", low), ONE)
    return apply("add", apply("max", x, ZERO), apply("mul", grown, Const(depth)))


def _elu(call: OperatorCall) -> None:
    float_map(call, lambda x: _exponential_below_zero(x, 1.0, call.number("alpha", 1.0)))


def _celu(call: OperatorCall) -> None:
    alpha = call.number("alpha", 1.0)
    if alpha <= 0:
        call.unsupported(f"alpha {alpha}")
    float_map(call, lambda x: _exponential_below_zero(x, alpha, alpha))


def _selu(call: OperatorCall) -> None:
    alpha, gamma = (
        call.number("alpha", 1.67326319217681884765625),
        call.number("gamma", 1.05070102214813232421875),
    )
    float_map(call, lambda x: apply("mul", _exponential_below_zero(x, 1.0, alpha), Const(gamma)))


def _softplus_of(x: Expr) -> Expr:
    """log(1 + e^x) without overflow."""
    rest = apply("exp", apply("neg", apply("abs", x)))
    return apply("add", apply("max", x, ZERO), apply("log", apply("add", rest, ONE)))


def _softplus(call: OperatorCall) -> None:
    float_map(call, _softplus_of)


def _mish(call: OperatorCall) -> None:
    float_map(call, lambda x: apply("mul", x, apply("tanh", _softplus_of(x))))


def _softsign(call: OperatorCall) -> None:
    float_map(call, lambda x: apply("div", x, apply("add", apply("abs", x), ONE)))


def _swish(call: OperatorCall) -> None:
    alpha = Const(call.number("alpha", 1.0))
    float_map(call, lambda x: apply("mul", x, apply("sigmoid", apply("mul", x, alpha))))


def _gelu(call: OperatorCall) -> None:
    """Emit x / 2 * (1 + erf(x / sqrt 2)), or with the tanh that approximates it."""
    mode = call.text("approximate", "none")
    if mode not in ("none", "tanh"):
        call.reject(f"has approximate {mode[:20]!r}")

    def exact(x: Expr) -> Expr:
        return apply("erf", apply("mul", x, Const(math.sqrt(0.5))))

    def approximate(x: Expr) -> Expr:
        cube = apply("mul", apply("mul", x, x), apply("mul", x, Const(0.044715)))
        return apply("tanh", apply("mul", apply("add", x, cube), Const(math.sqrt(2 / math.pi))))

    inner = approximate if mode == "tanh" else exact
    float_map(call, lambda x: apply("mul", apply("mul", x, Const(0.5)), apply("add", inner(x), ONE)))


def _thresholded_relu(call: OperatorCall) -> None:
    alpha = Const(call.number("alpha", 1.0))
    float_map(call, lambda x: apply("select", apply("less", alpha, x), x, ZERO))


def _shrink(call: OperatorCall) -> None:
    """Emit x + bias below -lambda, x - bias above lambda, and 0 in between."""
    bias, limit = call.number("bias", 0.0), call.number("lambd", 0.5)

    def body(x: Expr) -> Expr:
        low = apply("select", apply("less", x, Const(-limit)), apply("add", x, Const(bias)), ZERO)
        return apply("select", apply("less", Const(limit), x), apply("sub", x, Const(bias)), low)

    float_map(call, body)


LOWERINGS: Mapping[str, Lowering] = {
    "Elu": _elu,
    "Celu": _celu,
    "Selu": _selu,
    "Softplus": _softplus,
    "Mish": _mish,
    "Softsign": _softsign,
    "Swish": _swish,
    "Gelu": _gelu,
    "ThresholdedRelu": _thresholded_relu,
    "Shrink": _shrink,
}
