"""Selection: the first few elements of a descending order, one after the other.

Each is the largest of those that come after the one before it, and its place the first at which that is. The work is
that of two reductions per element, and no element moves.
"""

from __future__ import annotations

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced, widened
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.scalar_type import neutral

_FAR = Const(2**31 - 1, DType.I32)


def largest_places(call: OperatorCall, value: str, axis: int, count: int) -> str:
    """Places along an axis (32 bits) of the `count` largest elements; NaN is the largest, of equal ones the first."""
    shape = call.builder.shapes[value]
    numbers = call.intermediate_constant(np.arange(shape[axis], dtype=np.int32), "numbers")
    kind = call.dtype(value)
    kind = kind.computed if kind.is_stored_only else kind
    axes = output_axes((*shape[:axis], 1, *shape[axis + 1 :]))
    found: list[str] = []
    last = ""
    for number in range(count):
        inner = ReduceAxes()
        along = inner.index(shape[axis])
        x = widened(Load(value, (*at(axes)[:axis], along, *at(axes)[axis + 1 :])), call.dtype(value))
        here = Load(numbers, (along,))
        left: Expr | None = None
        if found:
            before, place = Load(last, at(axes)), Load(found[-1], at(axes))
            behind = apply("and", _same(x, before, kind), apply("less", place, here))
            left = apply("or", _less(x, before, kind), behind)
        body = x if left is None else apply("select", left, x, neutral("max", kind))
        last = call.intermediate(reduced(axes, inner, "max", body, kind), f"largest.{number}")
        hit = _same(x, Load(last, at(axes)), kind)
        hit = hit if left is None else apply("and", left, hit)
        body = apply("select", hit, here, _FAR)
        found.append(call.intermediate(reduced(axes, inner, "min", body, DType.I32), f"place.{number}"))
    return _joined(call, found, axis, (*shape[:axis], count, *shape[axis + 1 :]))


def _less(x: Expr, y: Expr, kind: DType) -> Expr:
    """Whether x comes after y where the largest are first: NaN before all numbers."""
    less = apply("less", x, y)
    return apply("or", less, apply("and", apply("not", _is_nan(x)), _is_nan(y))) if kind.is_float else less


def _same(x: Expr, y: Expr, kind: DType) -> Expr:
    equal = apply("equal", x, y)
    return apply("or", equal, apply("and", _is_nan(x), _is_nan(y))) if kind.is_float else equal


def _is_nan(x: Expr) -> Expr:
    return apply("not", apply("equal", x, x))


def _joined(call: OperatorCall, values: list[str], axis: int, shape: tuple[int, ...]) -> str:
    axes = output_axes(shape)
    along = at(axes)[axis]
    body: Expr | None = None
    for number in reversed(range(len(values))):
        load = Load(values[number], (*at(axes)[:axis], Index.of(0), *at(axes)[axis + 1 :]))
        body = load if body is None else Guard((Bound(along, number, number + 1),), load, body)
    assert body is not None
    return call.intermediate(Compute(axes, (), None, body, DType.I32), "places")
