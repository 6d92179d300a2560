"""Transposes, slices, padding and repetition: each element of the result is one of the input, or a constant."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.frontend.call import Lowering, OperatorCall, distinct_axes
from compiler.frontend.computes import at, broadcast, broadcast_load, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Bound, Const, Expr, Guard, Load


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
    if value in call.builder.constants:
        picked = call.builder.constants[value][np.ix_(*(list(span) for span in spans))]
        return call.emit_constant(picked)
    axes = output_axes(len(span) for span in spans)
    body = Load(value, tuple(i * span.step + span.start for i, span in zip(at(axes), spans, strict=True)))
    return call.emit(Compute(axes, (), None, body, call.dtype(value)))


def _pad(call: OperatorCall) -> None:
    value, shape = call.value(0), call.shape(0)
    dtype = call.dtype(value)
    mode = call.text("mode", "constant")
    if mode != "constant":
        call.unsupported(f"mode {mode[:20]!r}")
    before, after, fill = _pad_arguments(call)
    axes = output_axes(n + a + b for n, b, a in zip(shape, before, after, strict=True))
    indices = [index - b for index, b in zip(at(axes), before, strict=True)]
    bounds = tuple(
        Bound(index, 0, n)
        for index, n, b, a in zip(indices, shape, before, after, strict=True)
        if b > 0 or a > 0
    )
    load = Load(value, tuple(indices))
    body: Expr = Guard(bounds, load, Const(fill if dtype.is_float else int(fill), dtype)) if bounds else load
    call.emit(Compute(axes, (), None, body, dtype))


def _pad_arguments(call: OperatorCall) -> tuple[list[int], list[int], float]:
    rank = len(call.shape(0))
    if call.opset < 11:
        pads, fill = call.ints("pads") or [], call.number("value", 0.0)
    else:
        pads = call.constant_ints(1)
        fill = call.constant_float(2) if call.has(2) else 0.0
    axes = distinct_axes(call, call.constant_ints(3), rank) if call.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        call.reject(f"has {len(pads)} pads for {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[len(axes) + place]
    return before, after, fill


LOWERINGS: Mapping[str, Lowering] = {
    "Transpose": _transpose,
    "Expand": _expand,
    "Slice": _slice,
    "Pad": _pad,
}
