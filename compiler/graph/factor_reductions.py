"""Factor reductions: parts of a group are reduced by themselves first, where much is reduced within each of them.

    y[a0, a1] = sum(r0 < 4, r1 < 65536) x[a0, a1*4 + r0, r1]
                                →   t[a0, a1] = sum(r0 < 65536) x[a0, a1, r0]; y[a0, a1] = sum(r0 < 4) t[a0, a1*4 + r0]

Group normalisation reduces so. Where its channels lie side by side, a group fills a part of a vector; all channels
together fill whole ones, and the second reduction is small. Where they lie one behind the other, a group is one long
row, which mean, variance and what is normalised share (compiler/workload/chains.py): it stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.assign_layouts import assign_layouts
from compiler.graph.ir import Compute, Graph, Node
from compiler.graph.layout import Layout
from compiler.graph.rename import fresh_names, with_canonical_axes
from compiler.index import Index
from compiler.scalar import Load, loads, map_indices
from compiler.symbol import Axis, axis

_FEWEST = 64
"""Elements of a part; fewer are not worth a value of their own."""
_REDUCERS = ("sum", "max", "min")


@dataclass(frozen=True, slots=True)
class FactorReductions:
    """Static extents, types that sums are computed in, and parts that lie side by side in memory."""

    name: str = "factor-reductions"

    def run(self, graph: Graph) -> Graph:
        """Every node by itself."""
        nodes: list[Node] = []
        layouts = assign_layouts(graph)
        for node in graph.nodes:
            found = _group(node.compute, layouts)
            nodes += [node] if found is None else _factored(graph, node, *found)
        return graph if len(nodes) == len(graph.nodes) else graph.with_nodes(tuple(nodes))


def _group(compute: Compute, layouts: Mapping[str, Layout]) -> tuple[Axis, Axis] | None:
    """The axis that counts groups and the reduced one that counts within a group."""
    if compute.reducer not in _REDUCERS or not compute.is_static or compute.dtype.is_stored_only:
        return None
    for part in compute.reduce_axes:
        if prod(a.size for a in compute.reduce_axes if a is not part) < _FEWEST:
            continue
        for group in compute.axes:
            several = group.size > 1 and part.size > 1
            if several and _is_grouped(compute, group, part) and _side_by_side(compute, group, part, layouts):
                return group, part
    return None


def _is_grouped(compute: Compute, group: Axis, part: Axis) -> bool:
    """Whether the part occurs only as a place in its group, and something of the group's is so read."""
    place, own = _place(group, part), {group.name, part.name}
    found: set[Index] = set()

    def keep(index: Index) -> Index:
        found.add(index)
        return index

    map_indices(compute.body, keep)
    return place in found and all(
        index == place or index.name == group.name for index in found if own & index.names()
    )


def _side_by_side(compute: Compute, group: Axis, part: Axis, layouts: Mapping[str, Layout]) -> bool:
    """Whether parts are neighbours in a value that is read."""
    place = _place(group, part)
    return any(
        load.buffer in layouts and load.indices[layouts[load.buffer].order[-1]] == place
        for load in loads(compute.body)
        if load.indices
    )


def _place(group: Axis, part: Axis) -> Index:
    return Index.of(group.name) * part.size + part.name


def _factored(graph: Graph, node: Node, group: Axis, part: Axis) -> list[Node]:
    compute, place = node.compute, _place(group, part)
    whole = axis(group.name, group.size * part.size)
    parts = next(fresh_names(graph, f"{node.output}.parts"))

    def of_part(index: Index) -> Index:
        if index == place:
            return Index.of(whole.name)
        return Index.of(whole.name) // part.size if index.name == group.name else index

    first = replace(
        compute,
        axes=tuple(whole if a is group else a for a in compute.axes),
        reduce_axes=tuple(a for a in compute.reduce_axes if a is not part),
        body=map_indices(compute.body, of_part),
    )
    places = tuple(place if a is group else Index.of(a.name) for a in compute.axes)
    second = replace(compute, reduce_axes=(part,), body=Load(parts, places))
    return [
        replace(node, output=parts, compute=with_canonical_axes(first)),
        replace(node, compute=with_canonical_axes(second)),
    ]
