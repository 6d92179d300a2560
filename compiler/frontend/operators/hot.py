"""OneHot and Hardmax: one element that stands out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, broadcast_load, float_operands, output_axes
from compiler.frontend.limits import checked_shape
from compiler.frontend.statistics import along
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Cast, Const, Load, apply


def _one_hot(call: OperatorCall) -> None:
    """Emit values[1] where an index is the place along the new axis, values[0] elsewhere."""
    indices, which = call.value(0), call.shape(0)
    depth = int(call.constant(1).reshape(-1)[0])
    values = call.value(2)
    axis = positive_axis(call, call.integer("axis", -1), len(which) + 1)
    if call.shape(2) != (2,) or depth < 0:
        call.reject(f"has depth {depth} and values of shape {list(call.shape(2))}")
    axes = output_axes(
        checked_shape((*which[:axis], depth, *which[axis:]), f"the output of node {call.label!r}")
    )
    places = at(axes)
    kind = call.dtype(indices)
    known = DType.F64 if kind.is_float else DType.I64
    index = Load(indices, (*places[:axis], *places[axis + 1 :]))
    wide = index if kind is known else Cast(index, known)
    limit = Const(float(depth) if known.is_float else depth, known)
    zero = Const(0.0 if known.is_float else 0, known)
    from_front = apply("select", apply("less", wide, zero), apply("add", wide, limit), wide)
    numbers = call.intermediate_constant(np.arange(depth, dtype=known.numpy), "numbers")
    on, off = (Load(values, (Index.of(place),)) for place in (1, 0))
    hit = apply("equal", from_front, Load(numbers, (places[axis],)))
    call.emit(Compute(axes, (), None, apply("select", hit, on, off), call.dtype(values)))


def _hardmax(call: OperatorCall) -> None:
    """Emit 1 at the first of the largest elements along an axis (before opset 13 and those behind it), else 0."""
    value, shape = call.value(0), call.shape(0)
    float_operands(call, value)
    axis = positive_axis(call, call.integer("axis", -1 if call.opset >= 13 else 1), len(shape))
    over = [axis] if call.opset >= 13 else list(range(axis, len(shape)))
    parts = along(call, value, over)
    largest = parts.total("max", parts.element(), "max")
    sizes = tuple(n if d in over else 1 for d, n in enumerate(shape))
    order = np.arange(parts.count, dtype=np.int32).reshape(sizes)
    numbers = call.intermediate_constant(order, "numbers")
    number = Load(numbers, tuple(i if d in over else Index() for d, i in enumerate(parts.indices)))
    hit = apply("equal", parts.element(), parts.of(largest))
    none = Const(parts.count, DType.I32)
    first = parts.total("min", apply("select", hit, number, none), "first")
    axes = output_axes(shape)
    chosen = apply("equal", broadcast_load(call, numbers, axes), broadcast_load(call, first, axes))
    dtype = call.dtype(value)
    call.emit(Compute(axes, (), None, apply("select", chosen, Const(1.0, dtype), Const(0.0, dtype)), dtype))


LOWERINGS: Mapping[str, Lowering] = {"OneHot": _one_hot, "Hardmax": _hardmax}
