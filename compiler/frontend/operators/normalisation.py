"""Normalisation with statistics that are known: a scale and an offset per channel."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, float_operands, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Const, Expr, Load, apply


def _batch_normalisation(call: OperatorCall) -> None:
    """Compute x * gamma / sqrt(variance + epsilon) + (beta - mean * scale) with a node per coefficient."""
    x, gamma, beta, mean, variance = (call.value(position) for position in range(5))
    float_operands(call, x, gamma, beta, mean, variance)
    shape = call.shape(0)
    if call.integer("training_mode") or not call.integer("spatial", 1):
        call.unsupported("training mode or statistics that are not per channel")
    if len(shape) < 2 or any(call.shape(position) != shape[1:2] for position in range(1, 5)):
        call.reject(f"has statistics that do not fit an input of shape {list(shape)}")
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
    call.emit(Compute(axes, (), None, apply("add", scaled, Load(offsets, channel))))


LOWERINGS: Mapping[str, Lowering] = {"BatchNormalization": _batch_normalisation}
