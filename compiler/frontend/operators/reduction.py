"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, distinct_axes
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced, share
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.single import in_bytes
from compiler.frontend.statistics import Finish
from compiler.graph.ir import Compute
from compiler.index import ZERO
from compiler.scalar import Const, Expr, Load, apply

_LARGEST = {DType.F32: float(np.finfo(np.float32).max), DType.F64: float(np.finfo(np.float64).max)}


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
    body = apply("mul", Load(total, at(outer)), share(call, call.value(0), axes))
    return call.emit(Compute(outer, (), None, body))


def _composed(reducer: str, body: Finish, finish: Finish | None = None) -> Lowering:
    """`body` of each element reduced, then `finish`."""

    def lower(call: OperatorCall) -> None:
        axes = _composed_axes(call)
        total = _reduction(call, axes, reducer, body)
        if finish is None:
            return call.emit(total)
        value = call.intermediate(total, "total")
        return call.emit(Compute(total.axes, (), None, finish(Load(value, at(total.axes)))))

    return lower


def _composed_axes(call: OperatorCall) -> list[int]:
    axes = _axes(call, 18)
    if not axes and call.shape(0):
        call.unsupported("noop_with_empty_axes")
    return axes


def _log_sum_exp(call: OperatorCall) -> None:
    """Emit log(sum exp(x - max)) + max, which never overflows; an infinite max counts as the largest number."""
    axes = _composed_axes(call)
    kept = [1 if d in axes else n for d, n in enumerate(call.shape(0))]
    largest = _LARGEST.get(call.dtype(call.value(0)))
    if largest is None:
        call.unsupported(f"element type {call.builder.dtype(call.value(0))}")
    top = _reduction(call, axes, "max", keep=True)
    outer = output_axes(kept)
    bounded = apply("max", Load(call.intermediate(top, "max"), at(outer)), Const(-largest))
    limit = call.intermediate(Compute(outer, (), None, apply("min", bounded, Const(largest))), "limit")

    def distance(x: Expr) -> Expr:
        assert isinstance(x, Load)
        places = tuple(ZERO if d in axes else i for d, i in enumerate(x.indices))
        return apply("exp", apply("sub", x, Load(limit, places)))

    total = _reduction(call, axes, "sum", distance)
    value = Load(call.intermediate(total, "total"), at(total.axes))
    shape = tuple(a.size for a in total.axes)
    back = Load(limit, reshaped_indices(tuple(kept), shape, at(total.axes)))
    call.emit(Compute(total.axes, (), None, apply("add", apply("log", value), back)))


def _axes(call: OperatorCall, input_since: int) -> list[int]:
    """The axes to reduce; none given means all of them, or none at all where the node says so."""
    rank = len(call.shape(0))
    if call.opset >= input_since:
        axes = call.constant_ints(1) if call.has(1) else []
        if not axes and call.integer("noop_with_empty_axes"):
            return []
    else:
        axes = call.ints("axes") or []
    return distinct_axes(call, axes, rank) or list(range(rank))


def _reduction(
    call: OperatorCall,
    axes: list[int],
    reducer: str,
    body: Finish = lambda x: x,
    *,
    keep: bool | None = None,
) -> Compute:
    """`body` of the elements along the axes, reduced; `keep`: as the node says unless given."""
    shape = call.shape(0)
    keep = bool(call.integer("keepdims", 1)) if keep is None else keep
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
    return reduced(outer, inner, reducer, body(Load(call.value(0), tuple(indices))))


LOWERINGS: Mapping[str, Lowering] = {
    "ReduceSum": _reduce("sum", 13),
    **in_bytes({"ReduceMax": _reduce("max", 18), "ReduceMin": _reduce("min", 18)}),
    "ReduceProd": _reduce("prod", 18),
    "ReduceMean": _reduce_mean,
    "ReduceL1": _composed("sum", lambda x: apply("abs", x)),
    "ReduceL2": _composed("sum", lambda x: apply("mul", x, x), lambda s: apply("sqrt", s)),
    "ReduceSumSquare": _composed("sum", lambda x: apply("mul", x, x)),
    "ReduceLogSum": _composed("sum", lambda x: x, lambda s: apply("log", s)),
    "ReduceLogSumExp": _log_sum_exp,
}
