"""Halo: which border of zeros around a value would spare its readers a test.

A padded convolution reads `Guard(0 <= h < H and 0 <= w < W, x[h, w], 0)`. Where x is stored with a border of zeros that
is wide enough, the guard can go and the load stays:

    (x[a2 + r1 - 1, ...] if 0 <= a2 + r1 - 1 < 56 and ... else 0.0)   →   x[a2 + r1 - 1, ...]

What is read from a border is multiplied for nothing. Along the innermost dimension, where the elements of a tile lie,
that is cheaper than a test of each, unless whole tiles lie in the border; along the others a test can stand around any
tile (compiler.loop.skip). So a border that would be a large part of what is read (dilations near the extent) is left to
the test.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from compiler.graph.innermost import innermost_dimensions
from compiler.graph.ir import Compute, ComputeKind, Graph, Node, TensorType
from compiler.graph.layout import Layout
from compiler.graph.layout_votes import votes
from compiler.index import Index, Ranges
from compiler.scalar import Bound, Const, Expr, Guard, Load, loads, rewrite, walk

Halo = tuple[tuple[int, ...], tuple[int, ...]]
"""Zeros before and after, per logical dimension."""

_MOST_WASTED = 0.1
"""Of a contraction's reads along one dimension, the share that may lie in the border."""
_WIDE, _MOST_WASTED_INSIDE = 4, 0.15
"""Along the innermost of them: elements between neighbouring taps from which on they may lie in the border for a whole
tile, and the share that may then; a test that differs inside of a tile costs more than multiplying zeros."""
_COUNTED = 1 << 20
"""Places of an index that are counted; one with more is taken for one that hardly reads its border."""


def zero_halos(graph: Graph) -> dict[str, Halo]:
    """The halo that each value should have: those which a contraction reads padded with zeros.

    Other reductions that pad the same value with zeros (average pooling) widen it; alone they do not ask for one. An
    input of the model would have to be copied for it: only where a contraction with reuse wants another layout of it.
    """
    types = graph.types()
    innermost = innermost_dimensions(graph, set(graph.inputs))
    found: dict[str, Halo] = {}
    asked: set[str] = set()
    for node in graph.nodes:
        if node.compute.reducer is None:
            continue
        for expr in walk(node.compute.body):
            load = zero_padded(expr, types)
            if load is None or load.buffer in graph.constants:
                continue
            need = _worth(load, types[load.buffer].sizes, node.compute)
            found[load.buffer] = _widest(found.get(load.buffer, need), need)
            if node.compute.kind is ComputeKind.CONTRACTION and (
                load.buffer not in graph.inputs or _turned(node, load, graph, innermost)
            ):
                asked.add(load.buffer)
    return {value: halo for value, halo in found.items() if value in asked and any(map(any, halo))}


def _turned(node: Node, load: Load, graph: Graph, innermost: Mapping[str, int]) -> bool:
    """Whether a row-major value lacks the innermost dimension that a node with reuse wants: its own, or its result."""
    voted = list(votes(graph, node))
    value, last = load.buffer, len(load.indices) - 1
    if any(v.strong and v.value == value and v.dim != last for v in voted):
        return True
    placed = any(v.value == node.output and v.dim == len(node.compute.axes) - 1 for v in voted)
    return placed and innermost.get(node.output, last) != last and _sums_channels(node, value)


def _sums_channels(node: Node, value: str) -> bool:
    """Whether a product, not a sum of squares, sums over a whole dimension of a value."""
    read = set(loads(node.compute.body))
    summed = {a.name for a in node.compute.reduce_axes if a.size > 1}
    return len(read) > 1 and any(
        i.name in summed for load in read if load.buffer == value for i in load.indices
    )


def zero_padded(expr: Expr, types: Mapping[str, TensorType]) -> Load | None:
    """The load, where the expression is one that is 0 exactly outside of the value's own extents."""
    match expr:
        case Guard(bounds, Load() as load, Const(value)) if value == 0 and load.buffer in types:
            shape = types[load.buffer].sizes
            return load if all(_is_extent(bound, load, shape) for bound in bounds) else None
        case _:
            return None


def drop_guards(
    expr: Expr, types: Mapping[str, TensorType], layouts: Mapping[str, Layout], ranges: Ranges
) -> Expr:
    """Drop those tests of every zero-padded load whose dimension has a halo that covers all that it reaches."""

    def rule(e: Expr) -> Expr | None:
        load = zero_padded(e, types)
        if load is None or load.buffer not in layouts:
            return None
        layout = layouts[load.buffer]
        before, after = _reach(load, types[load.buffer].sizes, ranges)
        reached = zip(load.indices, before, layout.zeros_before, after, layout.zeros_after, strict=True)
        uncovered = {index for index, low, zeros, high, more in reached if low > zeros or high > more}
        assert isinstance(e, Guard)
        tested = tuple(bound for bound in e.bounds if bound.index in uncovered)
        return Guard(tested, load, e.outside) if tested else load

    return rewrite(expr, rule)


def _is_extent(bound: Bound, load: Load, shape: tuple[int, ...]) -> bool:
    return bound.low == 0 and any(
        bound.index == index and bound.high == size for index, size in zip(load.indices, shape, strict=True)
    )


def _reach(load: Load, shape: tuple[int, ...], ranges: Ranges) -> Halo:
    bounds = [index.bounds(ranges) for index in load.indices]
    before = tuple(max(0, -low) for low, _ in bounds)
    after = tuple(max(0, high - size + 1) for (_, high), size in zip(bounds, shape, strict=True))
    return before, after


def _worth(load: Load, shape: tuple[int, ...], compute: Compute) -> Halo:
    """What the load reaches, but where it is too much and a test can stand around a tile."""
    ranges = compute.ranges
    before, after = _reach(load, shape, ranges)
    padded = [d for d, (low, high) in enumerate(zip(before, after, strict=True)) if low or high]
    for d in padded:
        index = load.indices[d]
        if d == padded[-1]:
            worth = (
                _dilation(index, compute) < _WIDE or _wasted(index, shape[d], ranges) <= _MOST_WASTED_INSIDE
            )
        else:
            worth = _wasted(index, shape[d], ranges) <= _MOST_WASTED
        if not worth:
            before, after = _without(before, d), _without(after, d)
    return before, after


def _dilation(index: Index, compute: Compute) -> int:
    """Elements between neighbouring taps."""
    return max((abs(index.coefficient(a.name)) for a in compute.reduce_axes), default=0)


def _wasted(index: Index, size: int, ranges: Ranges) -> float:
    """The share of an index's places that lie outside of the extent."""
    names = sorted(index.names())
    extents = [ranges[name] for name in names]
    if prod(extents) > _COUNTED:
        return 0.0
    places = index.evaluate(dict(zip(names, np.indices(extents, sparse=True), strict=True)))
    return 1.0 - float(np.mean((places >= 0) & (places < size)))


def _without(zeros: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*zeros[:dim], 0, *zeros[dim + 1 :])


def _widest(a: Halo, b: Halo) -> Halo:
    return tuple(map(max, a[0], b[0])), tuple(map(max, a[1], b[1]))
