"""Sums and products of all elements up to each along an axis: work that grows with the square of the axis."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, number, output_axes, reduced
from compiler.scalar import Bound, Expr, Guard, Load


def _accumulated(reducer: str, neutral: int) -> Lowering:
    def lower(call: OperatorCall) -> None:
        value, shape = call.value(0), call.shape(0)
        (given,) = call.constant_ints(1)
        axis = positive_axis(call, given, len(shape))
        axes, inner = output_axes(shape), ReduceAxes()
        own, other = at(axes)[axis], inner.index(shape[axis])
        distance = other - own if call.integer("reverse") else own - other
        first = 1 if call.integer("exclusive") else 0
        load = Load(value, tuple(other if d == axis else index for d, index in enumerate(at(axes))))
        outside = number(neutral, call.dtype(value))
        body: Expr = Guard((Bound(distance, first, max(shape[axis], 1)),), load, outside)
        call.emit(reduced(axes, inner, reducer, body, call.dtype(value)))

    return lower


LOWERINGS: Mapping[str, Lowering] = {
    "CumSum": _accumulated("sum", 0),
    "CumProd": _accumulated("prod", 1),
}
