"""Sums and products of all elements up to each along an axis."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, number, output_axes
from compiler.frontend.scans import scanned
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Expr, Guard, Load


def _accumulated(reducer: str, neutral: int) -> Lowering:
    def lower(call: OperatorCall) -> None:
        value, shape = call.value(0), call.shape(0)
        (given,) = call.constant_ints(1)
        axis = positive_axis(call, given, len(shape))
        size, kind = shape[axis], call.dtype(value)
        axes = output_axes(shape)
        here = at(axes)[axis]
        step = here
        if call.integer("reverse"):
            step = here * -1 + (size - 1)
            turned = Compute(axes, (), None, Load(value, _moved(at(axes), axis, step)), kind)
            value = call.intermediate(turned, "turned")
        if call.integer("exclusive"):
            step = step - 1
        found: Expr = Load(scanned(call, value, axis, reducer, "scan"), _moved(at(axes), axis, step))
        if call.integer("exclusive"):
            found = Guard((Bound(step, 0, size),), found, number(neutral, kind))
        call.emit(Compute(axes, (), None, found, kind))

    return lower


def _moved(places: tuple[Index, ...], axis: int, index: Index) -> tuple[Index, ...]:
    return (*places[:axis], index, *places[axis + 1 :])


LOWERINGS: Mapping[str, Lowering] = {
    "CumSum": _accumulated("sum", 0),
    "CumProd": _accumulated("prod", 1),
}
