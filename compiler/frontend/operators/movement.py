"""Transposes, slices and repetition: each element of the result is one of the input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.frontend.call import Lowering, OperatorCall, distinct_axes
from compiler.frontend.computes import at, broadcast, broadcast_load, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Load


def _transpose(call: OperatorCall) -> None:
    value, shape = call.value(0), call.shape(0)
    order = call.ints("perm") or list(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        call.reject(f"has perm {order} for a tensor of {len(shape)} dimensions")
    axes = output_axes(shape[d] for d in order)
    indices = at(axes)
    body = Load(value, tuple(indices[order.index(d)] for d in range(len(shape))))
    call.emit(Compute(axes, (), None, body, call.dtype(value)))


def _expand(call: OperatorCall) -> None:
    value = call.value(0)
    shape = broadcast(call, [call.shape(0), tuple(call.constant_ints(1))])
    if shape == call.shape(0):
        return call.emit_same(value)
    axes = output_axes(shape)
    return call.emit(Compute(axes, (), None, broadcast_load(call, value, axes), call.dtype(value)))


def _slice(call: OperatorCall) -> None:
    shape = call.shape(0)
    starts, ends, axes, steps = _slice_arguments(call)
    spans = [range(n) for n in shape]
    for start, end, axis, step in zip(
        starts, ends, distinct_axes(call, axes, len(shape)), steps, strict=True
    ):
        if step == 0:
            call.reject("has a step of 0")
        spans[axis] = range(*slice(start, _end(end, step), step).indices(shape[axis]))
    _emit_spans(call, spans)


def _end(end: int, step: int) -> int | None:
    """Exporters write the smallest integer for "to the front"; Python's slices count that from the back."""
    return None if step < 0 and end <= -(2**31) else end


def _slice_arguments(call: OperatorCall) -> tuple[list[int], list[int], list[int], list[int]]:
    if call.opset < 10:
        starts, ends = call.ints("starts") or [], call.ints("ends") or []
        axes, steps = call.ints("axes"), None
    else:
        starts, ends = call.constant_ints(1), call.constant_ints(2)
        axes = call.constant_ints(3) if call.has(3) else None
        steps = call.constant_ints(4) if call.has(4) else None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        call.reject("has starts, ends, axes and steps of different lengths")
    return starts, ends, axes, steps


def _emit_spans(call: OperatorCall, spans: list[range]) -> None:
    value = call.value(0)
    if value in call.builder.constants and not call.is_open():
        picked = call.builder.constants[value][np.ix_(*(list(span) for span in spans))]
        return call.emit_constant(picked)
    axes = output_axes(len(span) for span in spans)
    body = Load(value, tuple(i * span.step + span.start for i, span in zip(at(axes), spans, strict=True)))
    return call.emit(Compute(axes, (), None, body, call.dtype(value)))


LOWERINGS: Mapping[str, Lowering] = {
    "Transpose": _transpose,
    "Expand": _expand,
    "Slice": _slice,
}
