"""Selection: the first few elements of an order, one after the other.

    key[i]     the key of element i, and below it how far the place is from the end: no two are equal
    found[0]   the largest key
    found[j]   the largest key below found[j - 1]

The work is that of one reduction per element, and no element moves.
"""

from __future__ import annotations

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.keys import key
from compiler.graph.ir import Compute
from compiler.index import ZERO
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, apply
from compiler.scalar_type import neutral

_BITS = 32
_WIDE = DType.I64


def extreme_places(call: OperatorCall, value: str, axis: int, count: int, *, descending: bool) -> str:
    """Places along an axis (32 bits) of the first `count` elements in order, of equal ones the first.

    NaN is the largest. The type of the elements has keys (compiler/frontend/keys.py).
    """
    shape = call.builder.shapes[value]
    keys = _keys(call, value, axis, descending=descending)
    axes = output_axes((*shape[:axis], 1, *shape[axis + 1 :]))
    found: list[str] = []
    for number in range(count):
        inner = ReduceAxes()
        along = inner.index(shape[axis])
        body: Expr = Load(keys, (*at(axes)[:axis], along, *at(axes)[axis + 1 :]))
        if found:
            left = apply("less", body, Load(found[-1], at(axes)))
            body = apply("select", left, body, neutral("max", _WIDE))
        found.append(call.intermediate(reduced(axes, inner, "max", body, _WIDE), f"largest.{number}"))
    return _places(call, found, axis, (*shape[:axis], count, *shape[axis + 1 :]), shape[axis])


def _keys(call: OperatorCall, value: str, axis: int, *, descending: bool) -> str:
    """Keys of all elements, with the places below them; of equal elements the first has the largest."""
    shape = call.builder.shapes[value]
    axes = output_axes(shape)
    after = call.intermediate_constant(np.arange(shape[axis], dtype=np.int64)[::-1], "after")
    high = Cast(key(Load(value, at(axes)), call.dtype(value), descending=descending), _WIDE)
    both = apply("add", apply("mul", high, Const(1 << _BITS, _WIDE)), Load(after, (at(axes)[axis],)))
    return call.intermediate(Compute(axes, (), None, both, _WIDE), "keys")


def _places(call: OperatorCall, found: list[str], axis: int, shape: tuple[int, ...], size: int) -> str:
    """The places of the keys that were found, side by side; `size`: of the axis that they are in."""
    axes = output_axes(shape)
    along = at(axes)[axis]
    body: Expr | None = None
    for number in reversed(range(len(found))):
        load = Load(found[number], (*at(axes)[:axis], ZERO, *at(axes)[axis + 1 :]))
        body = load if body is None else Guard((Bound(along, number, number + 1),), load, body)
    assert body is not None
    after = apply("and", body, Const((1 << _BITS) - 1, _WIDE))
    place = apply("sub", Const(size - 1, _WIDE), after)
    return call.intermediate(Compute(axes, (), None, Cast(place, DType.I32), DType.I32), "places")
