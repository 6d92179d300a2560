"""Reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall, distinct_axes
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.scalar import Const, Load, apply


def _reduce(reducer: str, axes_input_since: int) -> Lowering:
    def lower(call: OperatorCall) -> None:
        axes = _axes(call, axes_input_since)
        if axes:
            call.emit(_reduction(call, axes, reducer))
        else:
            call.emit_same(call.value(0))

    return lower


def _reduce_mean(call: OperatorCall) -> None:
    """A sum, then a map: the sum is what takes time."""
    axes = _axes(call, 18)
    if not axes:
        return call.emit_same(call.value(0))
    total = call.intermediate(_reduction(call, axes, "sum"), "sum")
    outer = output_axes(call.builder.shapes[total])
    count = math.prod(call.shape(0)[a] for a in axes)
    return call.emit(Compute(outer, (), None, apply("mul", Load(total, at(outer)), Const(1.0 / count))))


def _axes(call: OperatorCall, input_since: int) -> list[int]:
    """The axes to reduce; none given means all of them, or none at all where the node says so."""
    float_operands(call, call.value(0))
    rank = len(call.shape(0))
    if call.opset >= input_since:
        axes = call.constant_ints(1) if call.has(1) else []
        if not axes and call.integer("noop_with_empty_axes"):
            return []
    else:
        axes = call.ints("axes") or []
    return distinct_axes(call, axes, rank) or list(range(rank))


def _reduction(call: OperatorCall, axes: list[int], reducer: str) -> Compute:
    shape = call.shape(0)
    keep = bool(call.integer("keepdims", 1))
    sizes = [1 if d in axes else n for d, n in enumerate(shape) if keep or d not in axes]
    outer = output_axes(sizes)
    places = iter(at(outer))
    inner = ReduceAxes()
    indices = []
    for d, size in enumerate(shape):
        if d in axes:
            indices.append(inner.index(size))
        if keep or d not in axes:
            place = next(places)
            if d not in axes:
                indices.append(place)
    return reduced(outer, inner, reducer, Load(call.value(0), tuple(indices)))


LOWERINGS: Mapping[str, Lowering] = {
    "ReduceSum": _reduce("sum", 13),
    "ReduceMax": _reduce("max", 18),
    "ReduceMin": _reduce("min", 18),
    "ReduceProd": _reduce("prod", 18),
    "ReduceMean": _reduce_mean,
}
