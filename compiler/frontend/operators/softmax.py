"""Softmax and its logarithm: exponentials of the distance to the largest element, which never overflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import broadcast_load, float_operands, output_axes
from compiler.frontend.statistics import Parts, along
from compiler.graph.ir import Compute
from compiler.scalar import Const, Expr, apply


def _parts(call: OperatorCall) -> Parts:
    """Before opset 13 all axes from `axis` on are one."""
    float_operands(call, call.value(0))
    rank = len(call.shape(0))
    if call.opset >= 13:
        return along(call, call.value(0), [positive_axis(call, call.integer("axis", -1), rank)])
    first = call.integer("axis", 1)
    axis = rank if first == rank else positive_axis(call, first, rank)
    return along(call, call.value(0), range(axis, rank))


def _below(x: Expr, largest: Expr) -> Expr:
    """X - largest, with the upper bound said: shorter code for its exponential than for any number's."""
    return apply("min", apply("sub", x, largest), Const(0.0))


def _softmax(call: OperatorCall) -> None:
    """Emit exp(x - max) as a value of its own, and that times 1 / its sum: fusion decides whether it is stored."""
    parts = _parts(call)
    largest = parts.total("max", parts.element(), "max")
    axes = output_axes(call.shape(0))
    x, top = (broadcast_load(call, v, axes) for v in (parts.value, largest))
    power = call.intermediate(Compute(axes, (), None, apply("exp", _below(x, top))), "power")
    raised = replace(parts, value=power)
    weight = raised.total("sum", raised.element(), "weight", lambda total: apply("div", Const(1.0), total))
    e, scale = (broadcast_load(call, v, axes) for v in (power, weight))
    call.emit(Compute(axes, (), None, apply("mul", e, scale)))


def _log_softmax(call: OperatorCall) -> None:
    parts = _parts(call)
    largest = parts.total("max", parts.element(), "max")
    weight = parts.total(
        "sum",
        apply("exp", _below(parts.element(), parts.of(largest))),
        "weight",
        lambda total: apply("log", total),
    )
    axes = output_axes(call.shape(0))
    x, top, offset = (broadcast_load(call, v, axes) for v in (parts.value, largest, weight))
    call.emit(Compute(axes, (), None, apply("sub", apply("sub", x, top), offset)))


LOWERINGS: Mapping[str, Lowering] = {"Softmax": _softmax, "LogSoftmax": _log_softmax}
