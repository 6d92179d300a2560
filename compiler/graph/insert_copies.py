"""Insert copies: values of the model's interface that the inside wants to lie differently in memory.

    conv(guard(image))         →  image@stored = image; conv(guard(image@stored))       (a halo, the inside's layout)
    logits = conv(...)         →  logits@stored = conv(...); logits = logits@stored     (the interface is row-major)

An output that is a constant (all of it was folded) becomes a copy of that constant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from compiler.graph.assign_layouts import wished_layouts
from compiler.graph.halo import zero_halos, zero_padded
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.index import Index
from compiler.scalar import Load, rename_buffers, walk
from compiler.symbol import axis


def insert_copies(graph: Graph) -> Graph:
    """Add the copies; the same object comes back when none is needed."""
    return _copy_outputs(_copy_inputs(graph))


def fresh_name(base: str, taken: Collection[str]) -> str:
    """`base`, or `base` with the first number that makes it new."""
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}{number}"
    return name


def _copy_inputs(graph: Graph) -> Graph:
    types = graph.types()
    wanted = [value for value in zero_halos(graph) if value in graph.inputs]
    if not wanted:
        return graph
    names = {value: fresh_name(f"{value}@stored", types) for value in wanted}
    copies = [_copy(value, new, types[value]) for value, new in names.items()]
    nodes = [_rename_reads(node, _padded(node, types, names)) for node in graph.nodes]
    return graph.with_nodes((*copies, *nodes))


def _padded(node: Node, types: Mapping[str, TensorType], names: Mapping[str, str]) -> dict[str, str]:
    if node.compute.reducer is None:
        return {}
    padded = [zero_padded(expr, types) for expr in walk(node.compute.body)]
    return {load.buffer: names[load.buffer] for load in padded if load is not None and load.buffer in names}


def _copy_outputs(graph: Graph) -> Graph:
    types, wishes = graph.types(), wished_layouts(graph)
    moved = [
        value
        for value in graph.outputs
        if value not in graph.inputs and (value in graph.constants or not wishes[value].is_plain)
    ]
    if not moved:
        return graph
    names = {value: fresh_name(f"{value}@stored", types) for value in moved}
    nodes = [_rename_reads(node, names) for node in graph.nodes]
    renamed = [replace(node, output=names.get(node.output, node.output)) for node in nodes]
    constants = {names.get(value, value): array for value, array in graph.constants.items()}
    copies = [_copy(new, value, types[value]) for value, new in names.items()]
    return graph.with_nodes((*renamed, *copies), constants)


def _copy(source: str, target: str, kind: TensorType) -> Node:
    axes = tuple(axis(f"a{i}", extent) for i, extent in enumerate(kind.shape))
    body = Load(source, tuple(Index.of(a.name) for a in axes))
    return Node(f"copy of {source}", target, Compute(axes, (), None, body, kind.dtype))


def _rename_reads(node: Node, names: Mapping[str, str]) -> Node:
    body = rename_buffers(node.compute.body, names)
    return node if body == node.compute.body else replace(node, compute=replace(node.compute, body=body))
