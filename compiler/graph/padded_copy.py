"""Padded copies: a value with a border of another value, for windows whose padding is known only when they run."""

from __future__ import annotations

from math import prod

from compiler.graph.ir import Compute, TensorType
from compiler.index import Index, Ranges
from compiler.scalar import Bound, Expr, Guard, Load
from compiler.symbol import axis

_GROWTH = 4
"""A copy has at most so many times the elements of its original."""


def padded_copy(
    name: str, load: Load, bounds: tuple[Bound, ...], outside: Expr, read: TensorType, ranges: Ranges
) -> tuple[Compute, Load] | None:
    """`x[i] if 0 <= i < n else outside`, for all i that occur, as a value of its own, and the load from it.

    Args:
        name: of the copy.
        load: from `x`; every bound is on one of its indices.
        bounds: within which it reads.
        outside: what stands elsewhere, the same for all elements.
        read: type of `x`.
        ranges: extents of all axes.

    None where a bound is on anything else, or the copy would be much larger than its original.
    """
    if not all(bound.index in load.indices for bound in bounds):
        return None
    places, moved, tests, sizes = list[Index](), list[Index](), list[Bound](), list[int]()
    for d, (index, size) in enumerate(zip(load.indices, read.sizes, strict=True)):
        own = [bound for bound in bounds if bound.index == index]
        low, high = index.bounds(ranges) if own else (0, size - 1)
        place = Index.of(f"a{d}") + low
        places.append(place)
        moved.append(index - low)
        tests += [Bound(place, bound.low, bound.high) for bound in own]
        sizes.append(high - low + 1)
    if prod(sizes) > _GROWTH * prod(read.sizes):
        return None
    axes = tuple(axis(f"a{d}", size) for d, size in enumerate(sizes))
    body = Guard(tuple(tests), Load(load.buffer, tuple(places)), outside)
    return Compute(axes, (), None, body, read.dtype), Load(name, tuple(moved))
