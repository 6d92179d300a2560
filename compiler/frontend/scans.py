"""Scans: what a reduction gives of the elements up to each along an axis, taken in blocks, and in blocks of blocks.

    inside[b, i] = reduction of x[b * 8 + j] over j <= i
    before[b]    = scan of inside[b, 7]
    y[b * 8 + i] = before[b - 1] combined with inside[b, i]

The work is about 9 operations an element, where that over all pairs grows with the square of the axis; and sums of
floats have small errors.

The number of blocks is no polynomial of the size. An axis of open size is reduced over windows that end at each element
instead, of 8 elements, then of 8 such windows, and so on to the largest size: one form for all.
"""

from __future__ import annotations

from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.limits import LARGEST
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Guard, Load, apply
from compiler.scalar_type import neutral

_BLOCK = 8
_OPERATIONS = {"sum": "add", "prod": "mul"}


def scanned(call: OperatorCall, value: str, axis: int, reducer: str, suffix: str) -> str:
    """The reduction of the elements up to each, itself included: a value of the same shape and type."""
    if call.builder.is_open(value, [axis]):
        return _scanned_in_windows(call, value, axis, reducer, suffix)
    shape, kind = call.builder.shapes[value], call.dtype(value)
    n = shape[axis]
    blocks = -(-n // _BLOCK)
    outside = neutral(reducer, kind)
    axes, inner = output_axes((*shape[:axis], blocks, min(n, _BLOCK), *shape[axis + 1 :])), ReduceAxes()
    places = at(axes)
    block, own, other = places[axis], places[axis + 1], inner.index(min(n, _BLOCK))
    read = block * _BLOCK + other
    load = Load(value, (*places[:axis], read, *places[axis + 2 :]))
    body = Guard((Bound(own - other, 0, _BLOCK), Bound(read, 0, n)), load, outside)
    inside = call.intermediate(reduced(axes, inner, reducer, body, kind), f"{suffix}.inside")
    axes = output_axes(shape)
    places = at(axes)
    within = Load(
        inside, (*places[:axis], places[axis] // _BLOCK, places[axis] % _BLOCK, *places[axis + 1 :])
    )
    if blocks == 1:
        return call.intermediate(Compute(axes, (), None, within, kind), suffix)
    ends = output_axes((*shape[:axis], blocks, *shape[axis + 1 :]))
    end = Load(inside, (*at(ends)[: axis + 1], Index.of(_BLOCK - 1), *at(ends)[axis + 1 :]))
    totals = call.intermediate(Compute(ends, (), None, end, kind), f"{suffix}.totals")
    before = scanned(call, totals, axis, reducer, f"{suffix}.before")
    last = places[axis] // _BLOCK - 1
    earlier = Guard(
        (Bound(last, 0, blocks),),
        Load(before, (*places[:axis], last, *places[axis + 1 :])),
        outside,
    )
    whole = apply(_OPERATIONS[reducer], earlier, within)
    return call.intermediate(Compute(axes, (), None, whole, kind), suffix)


def _scanned_in_windows(call: OperatorCall, value: str, axis: int, reducer: str, suffix: str) -> str:
    shape, kind = call.builder.shapes[value], call.dtype(value)
    axes, reach = output_axes(shape), 1
    places = at(axes)
    while reach < LARGEST:
        inner = ReduceAxes()
        read = places[axis] - inner.index(_BLOCK) * reach
        load = Load(value, (*places[:axis], read, *places[axis + 1 :]))
        body = Guard((Bound(read, 0, shape[axis]),), load, neutral(reducer, kind))
        reach *= _BLOCK
        value = call.intermediate(reduced(axes, inner, reducer, body, kind), f"{suffix}.of_{reach}")
    return value
