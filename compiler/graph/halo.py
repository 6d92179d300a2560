"""Halo: which border of zeros around a value would spare its readers a test.

A padded convolution reads `Guard(0 <= h < H and 0 <= w < W, x[h, w], 0)`. Where x is stored with a border of zeros that
is wide enough, the guard can go and the load stays:

    (x[a2 + r1 - 1, ...] if 0 <= a2 + r1 - 1 < 56 and ... else 0.0)   →   x[a2 + r1 - 1, ...]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.graph.ir import ComputeKind, Graph, Node, TensorType
from compiler.graph.layout import Layout
from compiler.graph.layout_votes import votes
from compiler.index import Ranges
from compiler.scalar import Bound, Const, Expr, Guard, Load, rewrite, walk

Halo = tuple[tuple[int, ...], tuple[int, ...]]
"""Zeros before and after, per logical dimension."""


def zero_halos(graph: Graph) -> dict[str, Halo]:
    """The halo that each value should have: those which a contraction reads padded with zeros.

    Other reductions that pad the same value with zeros (average pooling) widen it; alone they do not ask for one. An
    input of the model would have to be copied for it: only where a contraction with reuse wants another layout of it.
    """
    types = graph.types()
    found: dict[str, Halo] = {}
    asked: set[str] = set()
    for node in graph.nodes:
        if node.compute.reducer is None:
            continue
        for expr in walk(node.compute.body):
            load = zero_padded(expr, types)
            if load is None or load.buffer in graph.constants:
                continue
            need = _reach(load, types[load.buffer].sizes, node.compute.ranges)
            found[load.buffer] = _widest(found.get(load.buffer, need), need)
            if node.compute.kind is ComputeKind.CONTRACTION and (
                load.buffer not in graph.inputs or _turned(node, load.buffer, types, graph.constants)
            ):
                asked.add(load.buffer)
    return {value: halo for value, halo in found.items() if value in asked and any(map(any, halo))}


def _turned(node: Node, value: str, types: Mapping[str, TensorType], constants: Mapping[str, Any]) -> bool:
    """Whether a row-major value lacks the innermost dimension that a node with reuse wants."""
    last = len(types[value].shape) - 1
    return any(v.strong and v.value == value and v.dim != last for v in votes(node, constants))


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
    """Replace every zero-padded load by the plain load where the value's halo covers all that it reaches."""

    def rule(e: Expr) -> Expr | None:
        load = zero_padded(e, types)
        if load is None or load.buffer not in layouts:
            return None
        layout = layouts[load.buffer]
        before, after = _reach(load, types[load.buffer].sizes, ranges)
        covered = all(n <= have for n, have in zip(before, layout.zeros_before, strict=True)) and all(
            n <= have for n, have in zip(after, layout.zeros_after, strict=True)
        )
        return load if covered else None

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


def _widest(a: Halo, b: Halo) -> Halo:
    return tuple(map(max, a[0], b[0])), tuple(map(max, a[1], b[1]))
