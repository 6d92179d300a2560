"""Places of the largest and smallest elements: ArgMax, ArgMin, Hardmax.

A place is compared as a number, read from a constant that counts. NaN is larger than any number, and smaller as well
where the smallest is asked for, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import (
    at,
    broadcast_indices,
    counting,
    number,
    output_axes,
    widened,
)
from compiler.frontend.statistics import along
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index
from compiler.scalar import Cast, Const, Load, apply

_BEHIND = DType.I32.limits[1]


def _arg(reducer: str) -> Lowering:
    """The place of the first (or last) extreme element along an axis."""

    def lower(call: OperatorCall) -> None:
        shape = call.shape(0)
        axis = positive_axis(call, call.integer("axis"), len(shape))
        last = bool(call.integer("select_last_index"))
        found = _extreme_place(call, [axis], reducer, last=last)
        kept = bool(call.integer("keepdims", 1))
        axes = output_axes(1 if d == axis else n for d, n in enumerate(shape) if kept or d != axis)
        indices = list(at(axes))
        if not kept:
            indices.insert(axis, ZERO)
        return call.emit(Compute(axes, (), None, Cast(Load(found, tuple(indices)), DType.I64), DType.I64))

    return lower


def _extreme_place(call: OperatorCall, axes: Collection[int], reducer: str, *, last: bool) -> str:
    """Where the extreme elements are among those along the axes, which keep one element each; 32 bits."""
    value, kind = call.value(0), call.dtype(call.value(0))
    parts = along(call, value, axes)
    x = widened(parts.element(), kind)
    best = parts.of(parts.total(reducer, x, "best"))
    hit = apply("equal", x, best)
    if kind.is_float:
        hit = apply("or", hit, apply("not", apply("equal", x, x)))
    place = _places(call, axes, parts.indices)
    # What no place is: the same for every size.
    body = apply("select", hit, place, Const(-1 if last else _BEHIND, DType.I32))
    return parts.total("max" if last else "min", body, "place")


def _places(call: OperatorCall, axes: Collection[int], indices: Sequence[Index]) -> Load:
    """The place among the elements along the axes: an element of a constant that counts them."""
    shape = call.shape(0)
    if len(axes) == 1:
        (axis,) = axes
        numbers = counting(call, call.value(0), [axis], DType.I32, "places")
        return Load(numbers, (indices[axis],))
    sizes = [n if d in axes else 1 for d, n in enumerate(shape)]
    order = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
    within = tuple(index if d in axes else ZERO for d, index in enumerate(indices))
    return Load(call.intermediate_constant(order, "places"), within)


def _hardmax(call: OperatorCall) -> None:
    """1 at the first of the largest elements, 0 elsewhere; before opset 13 all axes from `axis` on are one."""
    shape, kind = call.shape(0), call.dtype(call.value(0))
    rank = len(shape)
    if call.opset >= 13:
        over: Collection[int] = [positive_axis(call, call.integer("axis", -1), rank)]
    else:
        first = call.integer("axis", 1)
        over = range(rank if first == rank else positive_axis(call, first, rank), rank)
    found = _extreme_place(call, over, "max", last=False)
    axes = output_axes(shape)
    sizes = [a.size for a in axes]
    here = _places(call, over, at(axes))
    best = Load(found, broadcast_indices(call.builder.shapes[found], at(axes), sizes))
    body = apply("select", apply("equal", here, best), number(1, kind), number(0, kind))
    call.emit(Compute(axes, (), None, body, kind))


LOWERINGS: Mapping[str, Lowering] = {
    "ArgMax": _arg("max"),
    "ArgMin": _arg("min"),
    "Hardmax": _hardmax,
}
