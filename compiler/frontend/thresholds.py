"""Some of the largest elements of a long axis: by the smallest one that is wanted, which is found bit by bit.

    key[i]      a whole number in the order of the elements
    t           the largest number that `count` keys reach: 32 times, how many reach t with one more bit set
    before[i]   how many up to i are wanted: keys above t, and the first few of those that are t
    place[j]    the first i with before[i] > j
    rank[j]     how many of the wanted ones come before that one

The work is that of some fifty reads of the axis and of `count` squared comparisons, where a sort in whole has
n * log(n)^2 reads at places that are looked up.
"""

from __future__ import annotations

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.keys import key
from compiler.frontend.scans import scanned
from compiler.frontend.searches import largest
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply
from compiler.symbol import Axis

MOST = 1024
"""Elements that are compared with each other in the end."""
_BITS = 32
_ZERO, _ONE = Const(0, DType.I32), Const(1, DType.I32)
_LEAST = Const(-(2**31), DType.I32)
_LEVEL_BITS = 20
"""Bits for how many keys are the smallest wanted, in a number of 32 bits: MOST has room in the others."""


def places_by_threshold(call: OperatorCall, value: str, axis: int, count: int, *, descending: bool) -> str:
    """Places along an axis (32 bits) of the first `count` elements in order, of equal ones the first.

    NaN is the largest. The type of the elements has keys; there are more of them than `count`, which is at most MOST.
    """
    return _Selection(call, value, axis, count).places(descending=descending)


class _Selection:
    def __init__(self, call: OperatorCall, value: str, axis: int, count: int) -> None:
        self._call, self._value, self._axis, self._count = call, value, axis, count
        self._shape = call.builder.shapes[value]
        self._size = self._shape[axis]

    def places(self, *, descending: bool) -> str:
        """See `places_by_threshold`."""
        keys = self._keys(descending=descending)
        before = self._counted(keys, self._threshold(keys))
        return self._ranked(keys, self._wanted(before))

    def _keys(self, *, descending: bool) -> str:
        axes = output_axes(self._shape)
        element = Load(self._value, at(axes))
        return self._stored(axes, key(element, self._call.dtype(self._value), descending=descending), "keys")

    def _threshold(self, keys: str) -> str:
        """The largest number that at least `count` keys reach."""
        axes = self._axes(1)
        bits = self._call.intermediate_constant(1 << np.arange(_BITS - 1, dtype=np.int32), "bits")
        found = ""
        for bit in reversed(range(_BITS)):
            # Above the least number there is 0, and then what the bits below the sign add.
            now: Expr = Load(found, at(axes)) if found else _LEAST
            more = apply("add", now, Load(bits, (Index.of(bit),))) if found else _ZERO
            inner = ReduceAxes()
            own = Load(keys, self._at(axes, inner.index(self._size)))
            reaches = apply("select", apply("less_equal", more, own), _ONE, _ZERO)
            reach = self._call.intermediate(reduced(axes, inner, "sum", reaches, DType.I32), f"reach.{bit}")
            enough = apply("less_equal", Const(self._count, DType.I32), Load(reach, at(axes)))
            found = self._stored(axes, apply("select", enough, more, now), f"threshold.{bit}")
        return found

    def _counted(self, keys: str, threshold: str) -> str:
        """How many of the elements up to each are wanted, itself included."""
        axes = output_axes(self._shape)
        own, limit = Load(keys, at(axes)), Load(threshold, self._at(axes, Index.of(0)))
        # Two counts in one number: those above the threshold in the upper bits, those at it in the lower.
        bits, kind = (_LEVEL_BITS, DType.I32) if self._size < 1 << _LEVEL_BITS else (_BITS, DType.I64)
        level = apply("select", apply("equal", own, limit), Const(1, kind), Const(0, kind))
        both = apply("select", apply("less", limit, own), Const(1 << bits, kind), level)
        counts = scanned(self._call, self._stored(axes, both, "counts", kind), self._axis, "sum", "counted")
        here, last = Load(counts, at(axes)), Load(counts, self._at(axes, Index.of(self._size - 1)))
        above, all_above = (apply("shift_right", count, Const(bits, kind)) for count in (here, last))
        at_limit = apply("and", here, Const((1 << bits) - 1, kind))
        wanted = apply(
            "add", above, apply("min", at_limit, apply("sub", Const(self._count, kind), all_above))
        )
        return self._stored(axes, Cast(wanted, DType.I32), "before")

    def _wanted(self, before: str) -> str:
        """Their places, in the order of the axis."""
        axes = self._axes(self._count)
        wanted = Load(self._numbers(), (at(axes)[self._axis],))

        def holds(place: Index, yes: Expr, no: Expr) -> Expr:
            return apply("select", apply("less_equal", Load(before, self._at(axes, place)), wanted), yes, no)

        return self._stored(axes, largest(self._call, self._size, holds, "wanted"), "wanted")

    def _ranked(self, keys: str, places: str) -> str:
        """The places in the order of the keys."""
        axes, numbers = self._axes(self._count), self._numbers()
        found = LookedUp(f"@{places}.key", self._size)
        load = Load(keys, self._at(axes, Index.of(found)))
        chosen = self._stored(axes, Lookup(found, Load(places, at(axes)), load), "chosen")
        here, inner = at(axes)[self._axis], ReduceAxes()
        other = inner.index(self._count)
        own, its = Load(chosen, at(axes)), Load(chosen, self._at(axes, other))
        tie = apply(
            "and", apply("equal", own, its), apply("less", Load(numbers, (other,)), Load(numbers, (here,)))
        )
        counts = apply("select", apply("or", apply("less", own, its), tie), _ONE, _ZERO)
        rank = self._call.intermediate(reduced(axes, inner, "sum", counts, DType.I32), "rank")
        inner = ReduceAxes()
        other = inner.index(self._count)
        hit = apply("equal", Load(rank, self._at(axes, other)), Load(numbers, (here,)))
        body = apply("select", hit, Load(places, self._at(axes, other)), _ZERO)
        return self._call.intermediate(reduced(axes, inner, "sum", body, DType.I32), "places")

    def _numbers(self) -> str:
        return self._call.intermediate_constant(np.arange(self._count, dtype=np.int32), "numbers")

    def _stored(self, axes: tuple[Axis, ...], body: Expr, suffix: str, kind: DType = DType.I32) -> str:
        return self._call.intermediate(Compute(axes, (), None, body, kind), suffix)

    def _axes(self, length: int) -> tuple[Axis, ...]:
        return output_axes((*self._shape[: self._axis], length, *self._shape[self._axis + 1 :]))

    def _at(self, axes: tuple[Axis, ...], place: Index) -> tuple[Index, ...]:
        """Indices with another one along the axis."""
        return (*at(axes)[: self._axis], place, *at(axes)[self._axis + 1 :])
