"""Joins: values that are put together along one dimension are stored where they end up, and nothing is copied.

    j[a0, a1] = p[a0, a1] if a1 < 64 else q[a0, a1 - 64]     →  p is stored in the first 64 columns of j's memory,
                                                                q in those behind them, and nobody computes j

A part has the Layout of the whole, with what surrounds it as a border, which says along which dimensions it
holds other parts instead of zeros. A whole may itself be a part of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.graph.ir import ComputeKind, Graph, Node
from compiler.graph.layout import Layout
from compiler.index import Index
from compiler.scalar import Guard, Load


@dataclass(frozen=True, slots=True)
class Join:
    """The value of a node that puts others together along dimension `dim`; `places`: those that each of them takes."""

    value: str
    dim: int
    places: Mapping[str, range]


@dataclass(frozen=True, slots=True)
class Placement:
    """Layouts of all values, and the value of which each part is one."""

    layouts: Mapping[str, Layout]
    wholes: Mapping[str, str]


def place_parts(graph: Graph, layouts: Mapping[str, Layout]) -> Placement:
    """Store the parts of every join in its memory where that is possible; static extents only.

    A part must be computed by a node, and not for the outside; in one join only, once, and all of it; in the order of
    dimensions of the whole, and with no wider border of zeros.
    """
    found, wholes, types = dict(layouts), dict[str, str](), graph.types()
    computed = {node.output for node in graph.nodes} - set(graph.outputs)
    for node in reversed(
        graph.nodes
    ):  # a whole that is a part of another gets its place before its own parts do
        join = find_join(node) if node.output in computed else None
        if join is None or not computed - wholes.keys() >= join.places.keys():
            continue
        whole = found[join.value]
        parts = {
            part: _part(whole, found[part], join.dim, places, types[part].sizes, types[join.value].sizes)
            for part, places in join.places.items()
        }
        kept = {part: layout for part, layout in parts.items() if layout is not None}
        if kept.keys() == parts.keys() and all(types[p].dtype is types[join.value].dtype for p in parts):
            found |= kept
            wholes |= dict.fromkeys(parts, join.value)
    return Placement(found, wholes)


def find_join(node: Node) -> Join | None:
    """What a node joins; None where it does anything else."""
    body, axes = node.compute.body, tuple(Index.of(a.name) for a in node.compute.axes)
    if node.compute.kind is not ComputeKind.MOVEMENT or not isinstance(body, Guard):
        return None
    dim = next((d for d, index in enumerate(axes) if index == body.bounds[0].index), None)
    if dim is None:
        return None
    start, end, found = 0, node.compute.axes[dim].size, dict[str, range]()
    while True:
        load = body.inside if isinstance(body, Guard) else body
        here = (*axes[:dim], axes[dim] - start, *axes[dim + 1 :])
        if not isinstance(load, Load) or load.indices != here or load.buffer in found:
            return None
        if not isinstance(body, Guard):
            return Join(node.output, dim, {**found, load.buffer: range(start, end)})
        (bound, *others) = body.bounds
        if others or bound.index != axes[dim] or bound.low > start:
            return None
        found[load.buffer] = range(start, bound.high)
        start, body = bound.high, body.outside


def _part(
    whole: Layout, own: Layout, dim: int, places: range, size: tuple[int, ...], joined: tuple[int, ...]
) -> Layout | None:
    """The layout of a part inside of the whole; None where some of it is not there, or its own border of zeros."""
    if size != (*joined[:dim], len(places), *joined[dim + 1 :]):
        return None
    before, after = list(whole.before), list(whole.after)
    before[dim] += places.start
    after[dim] += joined[dim] - places.stop
    layout = replace(whole, before=tuple(before), after=tuple(after), inside=whole.inside | {dim})
    zeros = [
        *zip(own.before, layout.zeros_before, strict=True),
        *zip(own.after, layout.zeros_after, strict=True),
    ]
    return layout if own.order == whole.order and all(need <= have for need, have in zeros) else None
