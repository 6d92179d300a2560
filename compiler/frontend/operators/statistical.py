"""Normalisation with statistics of the tensor itself: layer, RMS, instance, group, local response and others."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall, distinct_axes, positive_axis
from compiler.frontend.computes import ReduceAxes, at, broadcast_load, float_operands, output_axes, reduced
from compiler.frontend.powers import power
from compiler.frontend.statistics import Parts, affine, along, groups, inverse_deviation
from compiler.frontend.windows import Window, windowed_load
from compiler.graph.ir import Compute
from compiler.index import ZERO
from compiler.scalar import Const, Expr, Load, apply


def _layer_normalisation(call: OperatorCall) -> None:
    """Emit (x - mean) / sqrt(variance + epsilon) * scale + bias, and both statistics where they are wanted."""
    parts = _trailing(call)
    mean = parts.mean()
    deviation = parts.square_mean(mean, "deviation", inverse_deviation(call.number("epsilon", 1e-5)))
    _emit_normalised(call, mean, deviation)
    for output, statistic in enumerate((mean, deviation), start=1):
        if output < len(call.proto.output) and call.proto.output[output]:
            call.emit_same(statistic, output)


def _rms_normalisation(call: OperatorCall) -> None:
    """Emit x / sqrt(mean of squares + epsilon) * scale."""
    epsilon = call.number("epsilon", 1e-5)
    deviation = _trailing(call).square_mean(None, "deviation", inverse_deviation(epsilon))
    _emit_normalised(call, None, deviation)


def _trailing(call: OperatorCall) -> Parts:
    """A part per index of the axes before `axis`."""
    values = call.values() if all(call.proto.input) else [call.value(0), call.value(1)]
    float_operands(call, *values)
    rank = len(call.shape(0))
    return along(call, values[0], range(positive_axis(call, call.integer("axis", -1), rank), rank))


def _emit_normalised(call: OperatorCall, mean: str | None, deviation: str) -> None:
    axes = output_axes(call.shape(0))
    x: Expr = broadcast_load(call, call.value(0), axes)
    x = x if mean is None else apply("sub", x, broadcast_load(call, mean, axes))
    call.emit(
        Compute(axes, (), None, affine(call, axes, apply("mul", x, broadcast_load(call, deviation, axes))))
    )


def _instance_normalisation(call: OperatorCall) -> None:
    shape = call.shape(0)
    _emit_grouped(call, shape[1] if len(shape) > 1 else 0)


def _group_normalisation(call: OperatorCall) -> None:
    """As of opset 21; ONNX has withdrawn the one before."""
    _emit_grouped(call, call.integer("num_groups"))


def _emit_grouped(call: OperatorCall, count: int) -> None:
    """Emit (x - mean) / sqrt(variance + epsilon) * scale + bias with statistics per batch and group of channels."""
    x, scale, bias = (call.value(position) for position in range(3))
    float_operands(call, x, scale, bias)
    shape = call.shape(0)
    if len(shape) < 3 or count < 1 or shape[1] % count:
        call.reject(f"has {count} groups for an input of shape {list(shape)}")
    coefficients = shape[1:2]
    if call.shape(1) != coefficients or call.shape(2) != coefficients:
        call.reject(f"has coefficients of shapes {list(call.shape(1))}, {list(call.shape(2))}")
    parts = groups(call, x, count)
    mean = parts.mean()
    deviation = parts.square_mean(mean, "deviation", inverse_deviation(call.number("epsilon", 1e-5)))
    axes = output_axes(shape)
    batch, channel = at(axes)[:2]
    group = channel if count == shape[1] else channel // (shape[1] // count)
    centred = apply("sub", Load(x, at(axes)), Load(mean, (batch, group)))
    scaled = apply("mul", apply("mul", centred, Load(deviation, (batch, group))), Load(scale, (channel,)))
    call.emit(Compute(axes, (), None, apply("add", scaled, Load(bias, (channel,)))))


def _mean_variance_normalisation(call: OperatorCall) -> None:
    """Emit (x - mean) / (deviation + 1e-9)."""
    float_operands(call, call.value(0))
    axes = call.ints("axes")
    over = distinct_axes(call, [0, 2, 3] if axes is None else axes, len(call.shape(0)))
    parts = along(call, call.value(0), over)
    mean = parts.mean()

    def inverse(variance: Expr) -> Expr:
        return apply("div", Const(1.0), apply("add", apply("sqrt", variance), Const(1e-9)))

    _emit_normalised(call, mean, parts.square_mean(mean, "deviation", inverse))


def _local_response(call: OperatorCall) -> None:
    """Emit x / (bias + alpha / size * sum of the squares of the `size` channels around) ** beta."""
    x, shape, size = call.value(0), call.shape(0), call.integer("size")
    float_operands(call, x)
    if len(shape) < 3 or not 1 <= size < 1 << 31:
        call.reject(f"has size {size} for an input of shape {list(shape)}")
    before = (size - 1) // 2
    around = Window(shape[1], size, 1, 1, before, size - 1 - before, shape[1])
    axes, inner = output_axes(shape), ReduceAxes()
    batch, channel, *places = at(axes)
    image = [(Window(n, 1, 1, 1, 0, 0, n), i, ZERO) for n, i in zip(shape[2:], places, strict=True)]
    near = windowed_load(x, (batch,), [(around, channel, inner.index(size)), *image], Const(0.0))
    squares = call.intermediate(reduced(axes, inner, "sum", apply("mul", near, near)), "squares")
    alpha, beta = call.number("alpha", 1e-4), call.number("beta", 0.75)
    spread = apply("mul", Load(squares, at(axes)), Const(alpha / size))
    base = apply("add", spread, Const(call.number("bias", 1.0)))
    call.emit(Compute(axes, (), None, apply("mul", Load(x, at(axes)), power(base, -beta))))


def _lp_normalisation(call: OperatorCall) -> None:
    """Emit x / (sum of |x|^p along one axis)^(1/p); 0 where that is 0."""
    float_operands(call, call.value(0))
    p = call.integer("p", 2)
    if p not in (1, 2):
        call.reject(f"has p {p}, which is neither 1 nor 2")
    parts = along(call, call.value(0), [positive_axis(call, call.integer("axis", -1), len(call.shape(0)))])
    x, zero = parts.element(), Const(0.0)

    def inverse(total: Expr) -> Expr:
        norm = total if p == 1 else apply("sqrt", total)
        return apply("select", apply("less", zero, norm), apply("div", Const(1.0), norm), zero)

    body = apply("abs", x) if p == 1 else apply("mul", x, x)
    _emit_scaled(call, parts.total("sum", body, "norm", inverse))


def _emit_scaled(call: OperatorCall, factor: str) -> None:
    axes = output_axes(call.shape(0))
    x, scale = (broadcast_load(call, v, axes) for v in (call.value(0), factor))
    call.emit(Compute(axes, (), None, apply("mul", x, scale)))


LOWERINGS: Mapping[str, Lowering] = {
    "LayerNormalization": _layer_normalisation,
    "RMSNormalization": _rms_normalisation,
    "InstanceNormalization": _instance_normalisation,
    "GroupNormalization": _group_normalisation,
    "MeanVarianceNormalization": _mean_variance_normalisation,
    "LRN": _local_response,
    "LpNormalization": _lp_normalisation,
}
