"""TopK: the largest or smallest elements along an axis, with their places.

The rank of an element is the number of elements before it, counted by comparing it with all of them; of equals the
first is first. What comes k-th is the element of rank k: a sum with one term.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply

_MOST_COMPARISONS = 1 << 36


def _top_k(call: OperatorCall) -> None:
    """Outputs: values and places, sorted."""
    value, shape = call.value(0), call.shape(0)
    axis = positive_axis(call, call.integer("axis", -1), len(shape))
    k = int(call.constant(1).reshape(-1)[0]) if call.opset >= 10 else call.integer("k")
    if not 0 <= k <= shape[axis]:
        call.reject(f"wants {k} of {shape[axis]} elements")
    if shape[axis] * int(np.prod(shape, dtype=np.int64)) > _MOST_COMPARISONS:
        call.unsupported(f"{shape[axis]} elements along the axis, each compared with all of them")
    rank = _ranks(call, value, axis, largest=bool(call.integer("largest", 1)))
    axes = output_axes((*shape[:axis], k, *shape[axis + 1 :]))
    places = at(axes)
    inner = ReduceAxes()
    step = inner.index(shape[axis])
    numbers = call.intermediate_constant(np.arange(shape[axis], dtype=np.int32), "numbers")
    hit = apply(
        "equal", Load(rank, (*places[:axis], step, *places[axis + 1 :])), Load(numbers, (places[axis],))
    )
    body = apply("select", hit, Load(numbers, (step,)), Const(0, DType.I32))
    place = call.intermediate(reduced(axes, inner, "sum", body, DType.I32), "places")
    found = LookedUp(f"@{place}", shape[axis])
    chosen = Load(value, (*places[:axis], Index.of(found), *places[axis + 1 :]))
    dtype = call.dtype(value)
    call.emit(Compute(axes, (), None, Lookup(found, Load(place, places), chosen), dtype))
    if len(call.proto.output) > 1:
        call.emit(Compute(axes, (), None, Cast(Load(place, places), DType.I64), DType.I64), 1)


def _ranks(call: OperatorCall, value: str, axis: int, *, largest: bool) -> str:
    """How many elements along the axis come before each; NaN counts as the largest."""
    shape, dtype = call.builder.shapes[value], call.dtype(value)
    axes, inner = output_axes(shape), ReduceAxes()
    places = at(axes)
    step = inner.index(shape[axis])
    own: Expr = Load(value, places)
    other: Expr = Load(value, (*places[:axis], step, *places[axis + 1 :]))
    if dtype.is_stored_only:
        own, other = Cast(own, dtype.computed), Cast(other, dtype.computed)
    numbers = call.intermediate_constant(np.arange(shape[axis], dtype=np.int32), "order")
    earlier = apply("less", Load(numbers, (step,)), Load(numbers, (places[axis],)))
    above, same = apply("less", own, other), apply("equal", other, own)
    below = apply("less", other, own)
    if dtype.is_float:
        nan, other_nan = (apply("not", apply("equal", x, x)) for x in (own, other))
        above = apply("or", above, apply("and", other_nan, apply("not", nan)))
        below = apply("or", below, apply("and", nan, apply("not", other_nan)))
        same = apply("or", same, apply("and", nan, other_nan))
    before = apply("or", above if largest else below, apply("and", same, earlier))
    body = apply("select", before, Const(1, DType.I32), Const(0, DType.I32))
    return call.intermediate(reduced(axes, inner, "sum", body, DType.I32), "ranks")


LOWERINGS: Mapping[str, Lowering] = {"TopK": _top_k}
