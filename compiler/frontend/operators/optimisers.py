"""Steps of training as ai.onnx.preview.training has them: tensors, their gradients and what is remembered of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, elementwise, float_operands
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Const, Expr, Load, apply

DOMAIN = "ai.onnx.preview.training"
Step = Callable[[OperatorCall, Expr, tuple[Expr, ...]], tuple[Expr, ...]]
"""From the rate and a tensor with its gradient and history: the new tensor and history."""


def _optimiser(rate: Callable[[OperatorCall], Expr], step: Step, history: int) -> Lowering:
    """Inputs R, T, all tensors, all gradients, then each kind of history; outputs without the gradients."""

    def lower(call: OperatorCall) -> None:
        values = call.values()[2:]
        count, rest = divmod(len(values), 2 + history)
        if rest or not count:
            call.reject(f"has {len(values)} tensors instead of {2 + history} for each")
        scalar = call.intermediate(Compute((), (), None, rate(call)), "rate")
        for place in range(count):
            own = values[place::count]
            float_operands(call, *own, call.value(0))
            shapes = {call.builder.shapes[value] for value in own}
            if len(shapes) != 1:
                call.reject(f"has tensors of shapes {sorted(map(list, shapes))} that belong together")
            x = elementwise(call, own[:1], lambda x: x)
            elements = tuple(Load(value, at(x.axes)) for value in own)
            for kind, body in enumerate(step(call, Load(scalar, ()), elements)):
                call.emit(Compute(x.axes, (), None, body), kind * count + place)

    return lower


def _regularised(call: OperatorCall, x: Expr, gradient: Expr) -> Expr:
    return apply("add", apply("mul", Const(call.number("norm_coefficient", 0.0)), x), gradient)


def _rate(call: OperatorCall) -> Load:
    return Load(call.value(0), ())


def _time(call: OperatorCall) -> Expr:
    return Cast(Load(call.value(1), ()), call.dtype(call.value(0)))


def _decayed_rate(call: OperatorCall) -> Expr:
    decay = apply("mul", _time(call), Const(call.number("decay_factor", 0.0)))
    return apply("div", _rate(call), apply("add", Const(1.0), decay))


def _adagrad(call: OperatorCall, rate: Expr, own: tuple[Expr, ...]) -> tuple[Expr, ...]:
    x, gradient, squares = own
    g = _regularised(call, x, gradient)
    total = apply("add", squares, apply("mul", g, g))
    size = apply("add", apply("sqrt", total), Const(call.number("epsilon", 1e-6)))
    return apply("sub", x, apply("div", apply("mul", rate, g), size)), total


def _corrected_rate(call: OperatorCall) -> Expr:
    """R * sqrt(1 - beta^T) / (1 - alpha^T), and R at the first step."""
    t = _time(call)
    alpha, beta = (
        apply("sub", Const(1.0), apply("pow", Const(call.number(name, default)), t))
        for name, default in (("alpha", 0.9), ("beta", 0.999))
    )
    corrected = apply("div", apply("mul", _rate(call), apply("sqrt", beta)), alpha)
    return apply("select", apply("less", Const(0.0), t), corrected, _rate(call))


def _adam(call: OperatorCall, rate: Expr, own: tuple[Expr, ...]) -> tuple[Expr, ...]:
    x, gradient, mean, squares = own
    alpha, beta = call.number("alpha", 0.9), call.number("beta", 0.999)
    g = _regularised(call, x, gradient)
    new_mean = _blended(mean, g, alpha)
    new_squares = _blended(squares, apply("mul", g, g), beta)
    size = apply("add", apply("sqrt", new_squares), Const(call.number("epsilon", 1e-6)))
    moved = apply("sub", x, apply("div", apply("mul", rate, new_mean), size))
    kept = Const(1 - call.number("norm_coefficient_post", 0.0))
    return apply("mul", kept, moved), new_mean, new_squares


def _blended(old: Expr, new: Expr, share: float) -> Expr:
    return apply("add", apply("mul", Const(share), old), apply("mul", Const(1 - share), new))


def _momentum(call: OperatorCall, rate: Expr, own: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """At the first step the gradient counts whole, later the share `beta` of it."""
    x, gradient, velocity = own
    mode = call.text("mode", "standard")
    if mode not in ("standard", "nesterov"):
        call.reject(f"has the unknown mode {mode[:20]!r}")
    alpha = Const(call.number("alpha", 0.0))
    first = apply("less_equal", _time(call), Const(0.0))
    share = apply("select", first, Const(1.0), Const(call.number("beta", 0.0)))
    g = _regularised(call, x, gradient)
    new = apply("add", apply("mul", alpha, velocity), apply("mul", share, g))
    ahead = apply("add", g, apply("mul", alpha, new)) if mode == "nesterov" else new
    return apply("sub", x, apply("mul", rate, ahead)), new


LOWERINGS: Mapping[str, Lowering] = {
    "Adagrad": _optimiser(_decayed_rate, _adagrad, 1),
    "Adam": _optimiser(_corrected_rate, _adam, 2),
    "Momentum": _optimiser(_rate, _momentum, 1),
}
