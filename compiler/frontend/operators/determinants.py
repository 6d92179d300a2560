"""Determinants: of small matrices by cofactors, of larger ones by elimination with pivots (Gauss).

One step of elimination takes the row whose first element is largest, and what is left is a matrix one smaller:

    p = row of the largest |A[i, 0]|,  det *= A[p, 0],  negative where p is not 0
    A'[i, j] = A[i, j] - A[i, 0] * A[p, j] / A[p, 0]        for i other than p, which row 0 takes the place of
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Const, Expr, Load, Lookup, apply

_BY_COFACTORS = 3
_LARGEST = 64
"""Steps of elimination, each of a few kernels."""
Element = Callable[[int, int], Expr]


def _det(call: OperatorCall) -> None:
    value, shape = call.value(0), call.shape(0)
    float_operands(call, value)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        call.reject(f"has an input of shape {list(shape)} instead of square matrices")
    if shape[-1] > _LARGEST:
        call.unsupported(f"matrices of more than {_LARGEST} rows")
    axes, dtype = output_axes(shape[:-2]), call.dtype(value)
    factors: list[Expr] = []
    for size in range(shape[-1], _BY_COFACTORS, -1):
        value, factor = _eliminated(call, value, shape[:-2], size, dtype)
        factors.append(Load(factor, at(axes)))
    left = min(shape[-1], _BY_COFACTORS)

    def element(row: int, column: int) -> Expr:
        return Load(value, (*at(axes), Index.of(row), Index.of(column)))

    body: Expr = _minor(element, tuple(range(left)), tuple(range(left))) if left else Const(1.0, dtype)
    for pivot in factors:
        body = apply("mul", body, pivot)
    call.emit(Compute(axes, (), None, body, dtype))


def _minor(element: Element, rows: tuple[int, ...], columns: tuple[int, ...]) -> Expr:
    """The determinant of some rows and columns, along the first of the rows."""
    row, *rest = rows
    if not rest:
        return element(row, columns[0])
    total: Expr | None = None
    for place, column in enumerate(columns):
        others = (*columns[:place], *columns[place + 1 :])
        term = apply("mul", element(row, column), _minor(element, tuple(rest), others))
        total = term if total is None else apply("sub" if place % 2 else "add", total, term)
    assert total is not None
    return total


def _eliminated(
    call: OperatorCall, value: str, batch: tuple[int, ...], size: int, dtype: DType
) -> tuple[str, str]:
    """Matrices one smaller, and what their determinants are to be multiplied by."""
    around, inner = output_axes(batch), ReduceAxes()
    row = inner.index(size)
    numbers = call.intermediate_constant(np.arange(size, dtype=np.int32), "numbers")
    length = apply("abs", Load(value, (*at(around), row, Index.of(0))))
    largest = call.intermediate(reduced(around, inner, "max", length, dtype), "largest")
    hit = apply("equal", length, Load(largest, at(around)))
    chosen = apply("select", hit, Load(numbers, (row,)), Const(size - 1, DType.I32))
    pivot = call.intermediate(reduced(around, inner, "min", chosen, DType.I32), "pivot")

    def of_pivot(places: tuple[Index, ...], column: Index, name: str) -> Expr:
        found = LookedUp(f"@{pivot}.{name}", size)
        return Lookup(found, Load(pivot, places), Load(value, (*places, Index.of(found), column)))

    places = at(around)
    first = of_pivot(places, Index.of(0), "first")
    moved = apply("equal", Load(pivot, places), Const(0, DType.I32))
    signed = apply("select", moved, first, apply("neg", first))
    factor = call.intermediate(Compute(around, (), None, signed, dtype), "factor")

    axes = output_axes((*batch, size - 1))
    places, behind = at(axes)[:-1], at(axes)[-1] + 1
    below = of_pivot(places, Index.of(0), "below")
    share = apply("div", of_pivot(places, behind, "along"), below)
    none = Const(0.0, dtype)
    # Where the largest is 0, all of the column are: nothing is taken off, and the determinant is 0.
    share = apply("select", apply("equal", below, none), none, share)
    shares = call.intermediate(Compute(axes, (), None, share, dtype), "shares")

    axes = output_axes((*batch, size - 1, size - 1))
    places, i, j = at(axes)[:-2], at(axes)[-2] + 1, at(axes)[-1]
    taken = apply("equal", Load(pivot, places), Load(numbers, (i,)))

    def left(column: Index) -> Expr:
        return apply(
            "select", taken, Load(value, (*places, Index.of(0), column)), Load(value, (*places, i, column))
        )

    less = apply("mul", left(Index.of(0)), Load(shares, (*places, j)))
    smaller = Compute(axes, (), None, apply("sub", left(j + 1), less), dtype)
    return call.intermediate(smaller, "smaller"), factor


LOWERINGS: Mapping[str, Lowering] = {"Det": _det}
