"""Assign layouts: how each value of a Graph lies in memory.

What is innermost is voted on (compiler.graph.innermost). In a convolutional network every activation becomes
channels-last. Inputs and outputs of the model stay row-major.
"""

from __future__ import annotations

from collections.abc import Set

from compiler.graph.halo import zero_halos
from compiler.graph.innermost import innermost_dimensions
from compiler.graph.ir import Graph
from compiler.graph.layout import Layout
from compiler.index import Index


def assign_layouts(graph: Graph) -> dict[str, Layout]:
    """The Layout of every value that is not a constant.

    Raises:
        InputError: an extent is symbolic.
    """
    return _layouts(graph, {*graph.inputs, *graph.outputs})


def wished_layouts(graph: Graph) -> dict[str, Layout]:
    """The layouts that values would have if outputs of the model could have any (compiler.graph.insert_copies)."""
    return _layouts(graph, set(graph.inputs))


def _layouts(graph: Graph, pinned: Set[str]) -> dict[str, Layout]:
    types = graph.types()
    halos = zero_halos(graph)
    innermost = innermost_dimensions(graph, pinned)
    found: dict[str, Layout] = {}
    for value in (*graph.inputs, *(node.output for node in graph.nodes)):
        shape = types[value].shape
        plain = Layout.plain(len(shape))
        if value in pinned:
            found[value] = plain
            continue
        before, after = halos.get(value, (plain.before, plain.after))
        found[value] = Layout(_order(shape, innermost.get(value)), before, after)
    return found


def _order(shape: tuple[Index, ...], innermost: int | None) -> tuple[int, ...]:
    """Row-major, but for one dimension that goes last; row-major too where that changes no address."""
    plain = tuple(range(len(shape)))
    if innermost is None or len(shape) <= 2:
        return plain
    order = (*(d for d in plain if d != innermost), innermost)
    extended = [d for d in order if shape[d].constant != 1]
    return plain if extended == sorted(extended) else order
