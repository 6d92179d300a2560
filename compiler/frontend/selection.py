"""Selection: the first few elements of an order, one after the other.

    key[i]     the key of element i, and below it how far the place is from the end: no two are equal
    found[0]   the largest key
    found[j]   the largest key below found[j - 1]

The work is that of one reduction per element, and no element moves. Of a long axis the largest key of each block is
found first: the first few elements are in the blocks with the largest ones, and only these are looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.keys import key
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index, LookedUp
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, Lookup, apply
from compiler.scalar_type import neutral
from compiler.symbol import Axis

_BITS = 32
_WIDE = DType.I64
_LENGTHS = (4, 8, 16, 32, 64, 128)
_WORTH = 2
"""Times as many elements that are looked at otherwise, from which on blocks are worth their stages."""


def extreme_places(call: OperatorCall, value: str, axis: int, count: int, *, descending: bool) -> str:
    """Places along an axis (32 bits) of the first `count` elements in order, of equal ones the first.

    NaN is the largest. The type of the elements has keys (compiler/frontend/keys.py).
    """
    shape = call.builder.shapes[value]
    size = shape[axis]
    order = _Order(call, value, axis, descending)
    if length := _block_length(size, count):
        largest = order.selected(order.block_keys(length), count, "block")
        keys = order.keys_of_blocks(order.places(largest), length)
    else:
        keys = order.keys()
    return order.places(order.selected(keys, count, "largest"))


def _block_length(size: int, count: int) -> int:
    """Elements of a block that leave the least to look at, a power of two; 0 where blocks save less than half.

    Blocks that are all full come first: their elements are read without a test.
    """
    looked_at = {b: size + count * -(-size // b) + count * count * b for b in _LENGTHS}
    worthy = [b for b in _LENGTHS if _WORTH * looked_at[b] <= count * size]
    return min(worthy, key=lambda b: (size % b > 0, looked_at[b]), default=0)


@dataclass(frozen=True)
class _Order:
    """The order of the elements of a value along an axis."""

    call: OperatorCall
    value: str
    axis: int
    descending: bool

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.call.builder.shapes[self.value]

    @property
    def _size(self) -> int:
        return self._shape[self.axis]

    def _axes(self, extent: int) -> tuple[Axis, ...]:
        """Those of the value, another extent along the axis."""
        return output_axes((*self._shape[: self.axis], extent, *self._shape[self.axis + 1 :]))

    def _at(self, axes: Sequence[Axis], place: Index) -> tuple[Index, ...]:
        return (*at(axes)[: self.axis], place, *at(axes)[self.axis + 1 :])

    def _key(self, element: Load) -> Expr:
        return key(element, self.call.dtype(self.value), descending=self.descending)

    def keys(self) -> str:
        """Keys of all elements, with the places below them; of equal elements the first has the largest."""
        axes = self._axes(self._size)
        numbers = np.arange(self._size, dtype=np.int64)[::-1]
        after = Load(self.call.intermediate_constant(numbers, "after"), (at(axes)[self.axis],))
        body = _with_place(self._key(Load(self.value, at(axes))), after)
        return self.call.intermediate(Compute(axes, (), None, body, _WIDE), "keys")

    def block_keys(self, length: int) -> str:
        """The largest key of each block of so many neighbours, with the place of the first of them below it."""
        axes, inner = self._axes(-(-self._size // length)), ReduceAxes()
        block = at(axes)[self.axis]
        place = block * length + inner.index(length)
        body = self._key(Load(self.value, self._at(axes, place)))
        if self._size % length:
            body = Guard((Bound(place, 0, self._size),), body, neutral("max", DType.I32))
        largest = self.call.intermediate(reduced(axes, inner, "max", body, DType.I32), "largest")
        numbers = np.arange(self._size, dtype=np.int64)[::-1][::length]
        after = Load(self.call.intermediate_constant(numbers, "after"), (block,))
        made = _with_place(Load(largest, at(axes)), after)
        return self.call.intermediate(Compute(axes, (), None, made, _WIDE), "blocks")

    def keys_of_blocks(self, places: str, length: int) -> str:
        """Keys of the elements of the blocks in which some places are; behind the end the last one again."""
        count = self.call.builder.shapes[places][self.axis]
        axes = self._axes(count * length)
        here = at(axes)[self.axis]
        inside = self.call.intermediate_constant(np.arange(length, dtype=np.int32), "inside")
        first = apply("and", Load(places, self._at(axes, here // length)), Const(-length, DType.I32))
        body = apply("add", first, Load(inside, (here % length,)))
        last = Const(self._size - 1, DType.I32)
        body = apply("min", body, last) if self._size % length else body
        tried = self.call.intermediate(Compute(axes, (), None, body, DType.I32), "tried")
        found = LookedUp(f"@{tried}.elements", self._size)
        place = Load(tried, at(axes))
        element = Load(self.value, self._at(axes, Index.of(found)))
        after = Cast(apply("sub", last, place), _WIDE)
        whole = _with_place(Lookup(found, place, self._key(element)), after)
        return self.call.intermediate(Compute(axes, (), None, whole, _WIDE), "keys")

    def selected(self, keys: str, count: int, suffix: str) -> list[str]:
        """The largest `count` of the keys along the axis."""
        axes, size = self._axes(1), self.call.builder.shapes[keys][self.axis]
        found: list[str] = []
        for number in range(count):
            inner = ReduceAxes()
            body: Expr = Load(keys, self._at(axes, inner.index(size)))
            if found:
                left = apply("less", body, Load(found[-1], at(axes)))
                body = apply("select", left, body, neutral("max", _WIDE))
            made = reduced(axes, inner, "max", body, _WIDE)
            found.append(self.call.intermediate(made, f"{suffix}.{number}"))
        return found

    def places(self, found: Sequence[str]) -> str:
        """The places of the keys that were found, side by side."""
        axes = self._axes(len(found))
        along = at(axes)[self.axis]
        body: Expr | None = None
        for number in reversed(range(len(found))):
            load = Load(found[number], self._at(axes, ZERO))
            body = load if body is None else Guard((Bound(along, number, number + 1),), load, body)
        assert body is not None
        after = apply("and", body, Const((1 << _BITS) - 1, _WIDE))
        place = Cast(apply("sub", Const(self._size - 1, _WIDE), after), DType.I32)
        return self.call.intermediate(Compute(axes, (), None, place, DType.I32), "places")


def _with_place(key: Expr, after: Expr) -> Expr:
    """A key with what tells elements apart that have it below: `after`, how many are behind."""
    return apply("add", apply("mul", Cast(key, _WIDE), Const(1 << _BITS, _WIDE)), after)
