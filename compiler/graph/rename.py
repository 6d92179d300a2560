"""Renaming of values, shared by passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from compiler.graph.ir import Compute, Graph, Node
from compiler.index import Index
from compiler.scalar import map_indices, rename_buffers, rename_lookups
from compiler.symbol import Axis


def with_reads_renamed(node: Node, names: Mapping[str, str]) -> Node:
    """The node reading other values; the same object where it reads none of them."""
    if not any(value in names for value in node.compute.reads):
        return node
    return replace(node, compute=replace(node.compute, body=rename_buffers(node.compute.body, names)))


def with_canonical_axes(compute: Compute) -> Compute:
    """Axes renamed a0, a1, ... and r0, r1, ..., lookups v0, v1, ...: computes that differ only in names get equal."""
    names = {a.name: f"a{i}" for i, a in enumerate(compute.axes)}
    names |= {a.name: f"r{i}" for i, a in enumerate(compute.reduce_axes)}
    body = rename_lookups(compute.body, (f"v{i}" for i in count()))
    if all(old == new for old, new in names.items()) and body == compute.body:
        return compute
    bindings = {old: Index.of(new) for old, new in names.items()}

    def renamed(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(names[a.name], a.extent) for a in axes)

    body = map_indices(body, lambda index: index.substitute(bindings))
    return replace(compute, axes=renamed(compute.axes), reduce_axes=renamed(compute.reduce_axes), body=body)


def fresh_names(graph: Graph, base: str) -> Iterator[str]:
    """Names that no value of the graph has: base, base.1, base.2, ..."""
    taken = {*graph.inputs, *graph.constants, *(node.output for node in graph.nodes)}
    count = 0
    while True:
        name = f"{base}.{count}" if count else base
        count += 1
        if name not in taken:
            yield name
