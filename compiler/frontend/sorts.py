"""Sorts along an axis: blocks by comparing all pairs, then merges of two blocks each.

A merge writes the k-th element of what becomes of blocks A and B. It finds by a binary search how many of the first k
are of A: the largest t with B[k - t] not before A[t - 1]. Of equal elements those of A are first: the order is stable.

The work is that of n * log(n)^2 reads. Where only the first few elements are wanted, blocks do not grow beyond them. Of
types with keys the first few are selected (compiler.frontend.selection), and some of a long axis by a threshold
(compiler.frontend.thresholds).
Blocks have a dimension of their own, in front of the places in them; behind the last element there is no order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, counting, number, output_axes, reduced, widened
from compiler.frontend.keys import has_keys
from compiler.frontend.searches import largest
from compiler.frontend.selection import extreme_places
from compiler.frontend.thresholds import MOST, places_by_threshold
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index, LookedUp
from compiler.scalar import Bound, Const, Expr, Guard, Load, Lookup, apply
from compiler.symbol import Axis

_BLOCK = 64
"""Elements that are all compared with each other."""
_MOST_PAIRED = 1 << 11
"""Elements of an axis of open size that are: for any number of them that has one form."""
_FEW = 32
"""Of longer axes, so many elements at most are selected one after the other."""
_LONG = 256
"""Elements of an axis of which some are selected by a threshold."""
_SOME = 2
"""Such an axis has so many times as many as are wanted, at least."""
_ZERO, _ONE = Const(0, DType.I32), Const(1, DType.I32)

Places = tuple[Index, ...]


@dataclass(frozen=True)
class Sorted:
    """Names of values: the elements in order, and the place along the axis (32 bits) that each had."""

    elements: str
    places: str


def first_sorted(call: OperatorCall, value: str, axis: int, count: int, *, descending: bool) -> Sorted:
    """The first `count` elements along an axis in order; NaN is the largest, of equal ones the first is first."""
    size, keys = call.builder.shapes[value][axis], has_keys(call.dtype(value))
    is_open = call.builder.is_open(value, [axis]) and call.decided("pairs", size <= _MOST_PAIRED)
    if keys and count <= _FEW and size > _BLOCK and not is_open:
        places = extreme_places(call, value, axis, count, descending=descending)
        return Sorted(_at_places(call, value, axis, places), places)
    if keys and not is_open and count <= MOST and size >= max(_LONG, _SOME * count):
        places = places_by_threshold(call, value, axis, count, descending=descending)
        return Sorted(_at_places(call, value, axis, places), places)
    sort = _Sort(call, value, axis, descending=descending)
    if is_open:
        return sort.first(sort.blocks(size), count)
    most = max(_BLOCK, 1 << (count - 1).bit_length())
    blocks = sort.blocks()
    while blocks.count > 1:
        blocks = sort.merged(blocks, min(2 * blocks.length, most))
    return sort.first(blocks, count)


def _at_places(call: OperatorCall, value: str, axis: int, places: str) -> str:
    """The elements at places along an axis."""
    axes = output_axes(call.builder.shapes[places])
    found = LookedUp(f"@{places}.elements", call.builder.shapes[value][axis])
    load = Load(value, (*at(axes)[:axis], Index.of(found), *at(axes)[axis + 1 :]))
    body = Lookup(found, Load(places, at(axes)), load)
    return call.intermediate(Compute(axes, (), None, body, call.dtype(value)), "elements")


@dataclass(frozen=True)
class _Blocks:
    """Blocks of `length` places each, of which the first `size` of all are filled."""

    found: Sorted
    length: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.size // self.length)

    def filled(self, block: Index, place: Index) -> tuple[Bound, ...]:
        """That there is an element."""
        return (
            Bound(block, 0, self.count),
            Bound(place, 0, self.length),
            Bound(block * self.length + place, 0, self.size),
        )


class _Sort:
    def __init__(self, call: OperatorCall, value: str, axis: int, *, descending: bool) -> None:
        self._call, self._value, self._axis, self._descending = call, value, axis, descending
        self._shape, self._kind = call.builder.shapes[value], call.dtype(value)

    def blocks(self, most: int = _BLOCK) -> _Blocks:
        """Each block, of so many elements at most, in order."""
        call, n = self._call, self._shape[self._axis]
        length = min(n, most)
        axes = self._axes(-(-n // length), length)
        block, here = self._own(axes)
        if length == n:
            numbers = counting(call, self._value, [self._axis], DType.I32, "numbers")
        else:
            whole_blocks = np.arange(-(-n // length) * length, dtype=np.int32)
            numbers = call.intermediate_constant(whole_blocks, "numbers")

        def element(place: Index) -> Expr:
            load = Load(self._value, self._at(axes, block * length + place))
            return widened(load, self._kind)

        def whole(place: Index, inside: Expr) -> Expr:
            return Guard((Bound(block * length + place, 0, n),), inside, _ZERO)

        inner = ReduceAxes()
        other = inner.index(length)
        x, y = element(here), element(other)
        earlier = apply("less", Load(numbers, (other,)), Load(numbers, (here,)))
        tie = apply("and", apply("not", self._before(x, y)), earlier)
        counts = apply("select", apply("or", self._before(y, x), tie), _ONE, _ZERO)
        rank_body = whole(here, whole(other, counts))
        rank = call.intermediate(reduced(axes, inner, "sum", rank_body, DType.I32), "rank")
        inner = ReduceAxes()
        other = inner.index(length)
        hit = apply("equal", Load(rank, self._at(axes, block, other)), Load(numbers, (here,)))
        body = whole(other, apply("select", hit, Load(numbers, (block * length + other,)), _ZERO))
        found = call.intermediate(reduced(axes, inner, "sum", body, DType.I32), "place")
        name = LookedUp(f"@{found}.elements", n)
        load = Load(self._value, self._at(axes, Index.of(name)))
        body = Lookup(name, Load(found, at(axes)), load)
        elements = call.intermediate(Compute(axes, (), None, body, self._kind), "elements")
        return _Blocks(Sorted(elements, found), length, n)

    def merged(self, blocks: _Blocks, length: int) -> _Blocks:
        """Blocks in pairs: the first `length` elements of both."""
        call, value, old = self._call, blocks.found.elements, blocks.length
        size = blocks.size // (2 * old) * length + min(length, blocks.size % (2 * old))
        axes = self._axes(-(-size // length), length)
        pair, k = self._own(axes)
        suffix = f"merge.{old}.{blocks.size}"

        def first(place: Index) -> Expr:
            return widened(Load(value, self._at(axes, pair * 2, place)), self._kind)

        def second(place: Index) -> Expr:
            return widened(Load(value, self._at(axes, pair * 2 + 1, place)), self._kind)

        def in_second(place: Index) -> tuple[Bound, ...]:
            return blocks.filled(pair * 2 + 1, place)

        def holds(before: Index, yes: Expr, no: Expr) -> Expr:
            rest = k - before - 1
            chosen = apply("select", self._before(second(rest), first(before)), no, yes)
            test = Guard(in_second(rest), chosen, yes)
            return Guard((Bound(rest, 0, 2 * old), *blocks.filled(pair * 2, before)), test, no)

        taken = LookedUp(f"@{suffix}.taken", 2 * old)
        a = Index.of(taken)
        b = k - a
        # The place in both blocks; where nothing is, that of anything.
        table = np.clip(np.arange(-2 * old, 4 * old, dtype=np.int32), 0, 2 * old - 1)
        numbers = call.intermediate_constant(table, f"{suffix}.places")
        of_first, of_second = Load(numbers, (a + 2 * old,)), Load(numbers, (b + 3 * old,))
        compared = apply("select", self._before(second(b), first(a)), of_second, of_first)
        chosen = Guard(blocks.filled(pair * 2, a), Guard(in_second(b), compared, of_first), of_second)
        body = Lookup(taken, largest(call, old, holds, suffix), chosen)
        source = call.intermediate(Compute(axes, (), None, body, DType.I32), suffix)
        found = [self._gathered(v, source, axes, blocks) for v in (value, blocks.found.places)]
        return _Blocks(Sorted(*found), length, size)

    def _gathered(self, value: str, source: str, axes: tuple[Axis, ...], blocks: _Blocks) -> str:
        """The elements at places in pairs of blocks."""
        kind, (pair, _) = self._call.dtype(value), self._own(axes)
        found = LookedUp(f"@{source}.{value}", 2 * blocks.length)
        place = Index.of(found) - blocks.length
        first = Load(value, self._at(axes, pair * 2, Index.of(found)))
        second = Load(value, self._at(axes, pair * 2 + 1, place))
        here = Guard((Bound(Index.of(found), 0, blocks.length),), first, number(0, kind))
        body = Guard((Bound(place, 0, blocks.length), Bound(pair * 2 + 1, 0, blocks.count)), second, here)
        looked_up = Lookup(found, Load(source, at(axes)), body)
        return self._call.intermediate(Compute(axes, (), None, looked_up, kind), "sorted")

    def first(self, blocks: _Blocks, count: int) -> Sorted:
        """The first elements of the one block that is left, without its dimension."""
        axis, found = self._axis, []
        axes = output_axes((*self._shape[:axis], count, *self._shape[axis + 1 :]))
        places = (*at(axes)[:axis], ZERO, *at(axes)[axis:])
        for value in (blocks.found.elements, blocks.found.places):
            move = Compute(axes, (), None, Load(value, places), self._call.dtype(value))
            found.append(self._call.intermediate(move, "first"))
        return Sorted(*found)

    def _axes(self, count: int, length: int) -> tuple[Axis, ...]:
        return output_axes((*self._shape[: self._axis], count, length, *self._shape[self._axis + 1 :]))

    def _own(self, axes: tuple[Axis, ...]) -> tuple[Index, Index]:
        return at(axes)[self._axis], at(axes)[self._axis + 1]

    def _at(self, axes: tuple[Axis, ...], *here: Index) -> Places:
        """Indices with others for the block and the place in it."""
        return (*at(axes)[: self._axis], *here, *at(axes)[self._axis + 2 :])

    def _before(self, x: Expr, y: Expr) -> Expr:
        """Whether x comes before y."""
        x, y = (y, x) if self._descending else (x, y)
        below: Expr = apply("less", x, y)
        if not self._kind.is_float:
            return below
        return apply("or", below, apply("and", apply("equal", x, x), apply("not", apply("equal", y, y))))
