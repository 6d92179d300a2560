"""Normalisation per channel, with statistics that are known, or in training those of the batch."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, broadcast_load, float_operands, output_axes
from compiler.frontend.statistics import along
from compiler.graph.ir import Compute
from compiler.index import ZERO
from compiler.scalar import Const, Expr, Load, apply


def _batch_normalisation(call: OperatorCall) -> None:
    """Compute x * gamma / sqrt(variance + epsilon) + (beta - mean * scale) with a node per coefficient."""
    x, gamma, beta, mean, variance = (call.value(position) for position in range(5))
    float_operands(call, x, gamma, beta, mean, variance)
    shape = call.shape(0)
    if not call.integer("spatial", 1):
        call.unsupported("statistics that are not per channel")
    if len(shape) < 2 or any(call.shape(position) != shape[1:2] for position in range(1, 5)):
        call.reject(f"has statistics that do not fit an input of shape {list(shape)}")
    if call.integer("training_mode"):
        return _emit_training(call)
    channels = output_axes(shape[1:2])
    epsilon = Const(call.number("epsilon", 1e-5))

    def at_channel(name: str) -> Load:
        return Load(name, at(channels))

    deviation = apply("sqrt", apply("add", at_channel(variance), epsilon))
    scale: Expr = apply("div", at_channel(gamma), deviation)
    offset = apply("sub", at_channel(beta), apply("mul", at_channel(mean), scale))
    scales = call.intermediate(Compute(channels, (), None, scale), "scale")
    offsets = call.intermediate(Compute(channels, (), None, offset), "offset")
    axes = output_axes(shape)
    channel = at(axes)[1:2]
    scaled = apply("mul", Load(x, at(axes)), Load(scales, channel))
    return call.emit(Compute(axes, (), None, apply("add", scaled, Load(offsets, channel))))


def _emit_training(call: OperatorCall) -> None:
    """Emit what the statistics of this batch normalise, and the running ones that they change."""
    shape = call.shape(0)
    parts = along(call, call.value(0), [d for d in range(len(shape)) if d != 1])
    mean = parts.mean()
    variance = parts.square_mean(mean, "variance", lambda v: v)
    axes = output_axes(shape)
    batch_mean, batch_variance = (broadcast_load(call, v, axes) for v in (mean, variance))
    channel = at(axes)[1:2]
    epsilon = Const(call.number("epsilon", 1e-5))
    centred = apply("sub", Load(call.value(0), at(axes)), batch_mean)
    normal = apply("div", centred, apply("sqrt", apply("add", batch_variance, epsilon)))
    scaled = apply("mul", normal, Load(call.value(1), channel))
    call.emit(Compute(axes, (), None, apply("add", scaled, Load(call.value(2), channel))))
    momentum = call.number("momentum", 0.9)
    channels = output_axes(shape[1:2])
    for output, (position, statistic) in enumerate(((3, mean), (4, variance)), start=1):
        if output < len(call.proto.output):
            place = tuple(at(channels)[0] if d == 1 else ZERO for d in range(len(shape)))
            old = apply("mul", Load(call.value(position), at(channels)), Const(momentum))
            new = apply("mul", Load(statistic, place), Const(1 - momentum))
            call.emit(Compute(channels, (), None, apply("add", old, new)), output)


LOWERINGS: Mapping[str, Lowering] = {"BatchNormalization": _batch_normalisation}
