"""Some of the largest elements of a long axis: by the smallest one that is wanted, which is found bit by bit.

    key[i]      a whole number in the order of the elements
    t           the largest number that `count` keys reach: 32 times, how many reach t with one more bit set
    before[i]   how many up to i are wanted: keys above t, and the first few of those that are t
    place[j]    the first i with before[i] > j
    rank[j]     how many of the wanted ones come before that one

The work is that of some fifty reads of the axis and of `count` squared comparisons, where a sort in whole has
n * log(n)^2 reads at places that are looked up. Of a longer axis the blocks with the largest elements are found first,
in the same way: the elements that are wanted are in as many blocks as there are of them, and only these are read again.
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
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, Lookup, apply
from compiler.symbol import Axis

MOST = 1024
"""Elements that are compared with each other in the end."""
_BITS = 32
_ZERO, _ONE = Const(0, DType.I32), Const(1, DType.I32)
_LEAST = Const(-(2**31), DType.I32)
_LEVEL_BITS = 20
"""Bits for how many keys are the smallest wanted, in a number of 32 bits: MOST has room in the others."""
_LENGTHS = (4, 8, 16, 32, 64, 128)
_WORTH = 2
"""Times as many elements that are read often otherwise, from which on blocks are worth their stages."""


def places_by_threshold(call: OperatorCall, value: str, axis: int, count: int, *, descending: bool) -> str:
    """Places along an axis (32 bits) of the first `count` elements in order, of equal ones the first.

    NaN is the largest. The type of the elements has keys; there are more of them than `count`, which is at most MOST.
    """
    axes = output_axes(call.builder.shapes[value])
    element = key(Load(value, at(axes)), call.dtype(value), descending=descending)
    keys = call.intermediate(Compute(axes, (), None, element, DType.I32), "keys")
    if length := _block_length(call.builder.shapes[value][axis], count):
        return _in_blocks(call, keys, axis, count, length)
    return _Selection(call, keys, axis, count).ranked()


def _block_length(size: int, count: int) -> int:
    """Elements of a block that leave the least to read again, a power of two; 0 where blocks save less than half."""
    left = {b: -(-size // b) + count * b for b in _LENGTHS if size >= 2 * count * b}
    worthy = [b for b in left if _WORTH * left[b] <= size]
    return min(worthy, key=lambda b: left[b], default=0)


def _in_blocks(call: OperatorCall, keys: str, axis: int, count: int, length: int) -> str:
    """The places, from the blocks of so many keys that have the largest ones.

    Of equal ones the first blocks are taken, in the order of the axis: so are their elements.
    """
    shape = call.builder.shapes[keys]
    size = shape[axis]

    def axes_of(extent: int) -> tuple[Axis, ...]:
        return output_axes((*shape[:axis], extent, *shape[axis + 1 :]))

    def along(axes: tuple[Axis, ...], place: Index) -> tuple[Index, ...]:
        return (*at(axes)[:axis], place, *at(axes)[axis + 1 :])

    axes, inner = axes_of(-(-size // length)), ReduceAxes()
    place = at(axes)[axis] * length + inner.index(length)
    body: Expr = Load(keys, along(axes, place))
    if size % length:
        body = Guard((Bound(place, 0, size),), body, _LEAST)
    largest_keys = call.intermediate(reduced(axes, inner, "max", body, DType.I32), "largest")
    blocks = _Selection(call, largest_keys, axis, count, "blocks").wanted()
    axes = axes_of(count * length)
    here = at(axes)[axis]
    starts = call.intermediate_constant(np.arange(length, dtype=np.int32), "inside")
    block = apply("mul", Load(blocks, along(axes, here // length)), Const(length, DType.I32))
    tried = apply("add", block, Load(starts, (here % length,)))
    places = call.intermediate(Compute(axes, (), None, tried, DType.I32), "tried")
    found = LookedUp(f"@{places}.keys", -(-size // length) * length)
    body = Load(keys, along(axes, Index.of(found)))
    if size % length:
        # Behind the end there is what nothing is below, and in the last place: elements that are equal are before it.
        body = Guard((Bound(Index.of(found), 0, size),), body, _LEAST)
    body = Lookup(found, Load(places, at(axes)), body)
    again = call.intermediate(Compute(axes, (), None, body, DType.I32), "keys")
    chosen = _Selection(call, again, axis, count, "chosen").ranked()
    axes = axes_of(count)
    found = LookedUp(f"@{chosen}.places", count * length)
    body = Lookup(found, Load(chosen, at(axes)), Load(places, along(axes, Index.of(found))))
    return call.intermediate(Compute(axes, (), None, body, DType.I32), "places")


class _Selection:
    def __init__(self, call: OperatorCall, keys: str, axis: int, count: int, name: str = "wanted") -> None:
        """`name`: of what is looked for, which tells it from what others look for."""
        self._call, self._keys, self._axis, self._count, self._name = call, keys, axis, count, name
        self._shape = call.builder.shapes[keys]
        self._size = self._shape[axis]

    def wanted(self) -> str:
        """The places of the first `count` elements, in the order of the axis."""
        return self._wanted(self._counted(self._keys, self._threshold(self._keys)))

    def ranked(self) -> str:
        """The same in the order of the keys, largest first."""
        return self._ranked(self._keys, self.wanted())

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

        return self._stored(axes, largest(self._call, self._size, holds, self._name), self._name)

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
