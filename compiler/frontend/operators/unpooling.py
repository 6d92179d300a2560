"""MaxUnpool: elements back at the places that MaxPool took them from, 0 elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.limits import checked_shape
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.windows import numbers
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Guard, Load, Lookup, apply

_MOST_COMPARISONS = 1 << 36


def _max_unpool(call: OperatorCall) -> None:
    value, indices, shape = call.value(0), call.value(1), call.shape(0)
    rank = len(shape) - 2
    if rank < 1 or call.shape(1) != shape or call.dtype(indices) is not DType.I64:
        call.reject(f"has indices of shape {list(call.shape(1))} for an input of shape {list(shape)}")
    kernel = call.ints("kernel_shape") or []
    if len(kernel) != rank:
        call.reject(f"has kernel_shape {kernel} for an image of {rank} dimensions")
    strides, pads = numbers(call, "strides", rank, 1), numbers(call, "pads", 2 * rank, 0)
    image = [(shape[2 + d] - 1) * strides[d] + kernel[d] - pads[d] - pads[rank + d] for d in range(rank)]
    whole = checked_shape((*shape[:2], *image), f"the output of node {call.label!r}")
    wanted = tuple(call.constant_ints(2)) if call.has(2) else whole
    if len(wanted) != len(whole) or any(n < m for n, m in zip(wanted, whole, strict=True)):
        call.reject(f"puts an image of shape {list(whole)} into {list(wanted)}")
    axes = output_axes(wanted)
    source = _sources(call, indices, whole)
    dtype = call.dtype(value)
    zero = Const(0.0 if dtype.is_float else 0, dtype)
    last = Load(source, at(axes))
    found = LookedUp(f"@{source}", prod(shape))
    flat = call.intermediate(_flat(call, value), "flat")
    element = Load(flat, (Index.of(found),))
    body = apply("select", apply("less", last, Const(0, DType.I32)), zero, Lookup(found, last, element))
    bounds = tuple(Bound(i, 0, m) for i, n, m in zip(at(axes), wanted, whole, strict=True) if n > m)
    call.emit(Compute(axes, (), None, Guard(bounds, body, zero) if bounds else body, dtype))


def _flat(call: OperatorCall, value: str) -> Compute:
    shape = call.builder.shapes[value]
    axes = output_axes((prod(shape),))
    return Compute(
        axes, (), None, Load(value, reshaped_indices(shape, (prod(shape),), at(axes))), call.dtype(value)
    )


def _sources(call: OperatorCall, indices: str, whole: tuple[int, ...]) -> str:
    """For each element of the image the last element of the input that goes there, -1 for none."""
    count = prod(call.builder.shapes[indices])
    if count * prod(whole) > _MOST_COMPARISONS:
        call.unsupported(f"{count} elements that are compared with {prod(whole)} places each")
    flat = call.intermediate(_flat(call, indices), "places")
    axes, inner = output_axes(whole), ReduceAxes()
    step = inner.index(count)
    order = call.intermediate_constant(np.arange(prod(whole)).reshape(whole), "order")
    steps = call.intermediate_constant(np.arange(count, dtype=np.int32), "steps")
    hit = apply("equal", Load(flat, (step,)), Load(order, at(axes)))
    body = apply("select", hit, Load(steps, (step,)), Const(-1, DType.I32))
    return call.intermediate(reduced(axes, inner, "max", body, DType.I32), "sources")


LOWERINGS: Mapping[str, Lowering] = {"MaxUnpool": _max_unpool}
