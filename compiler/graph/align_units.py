"""Align units: what a reduction computes takes the dimensions of one element from the map that reads it.

    t[a0, a1] = sum(r0) x[a0, r0] * w[r0, a1]              t[a0, a1, a2] = sum(r0) x[a1, r0] * w[r0, a2]     a0 < 1
    y[a0, a1, a2] = tanh(t[a1, a2])               →        y[a0, a1, a2] = tanh(t[0, a1, a2])                a0 < 1

The map then continues the reduction at its own place, and both can run as one Subgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.graph.ir import Compute, ComputeKind, Graph, Node
from compiler.graph.rename import with_canonical_axes
from compiler.index import ZERO, Index
from compiler.scalar import Expr, Load, loads, rewrite, substitute
from compiler.symbol import Axis, axis

_Dims = tuple[int | None, ...]
"""By new dimension, the old one that it was; None for one of one element that is new."""


@dataclass(frozen=True, slots=True)
class AlignUnits:
    """The first map that reads a value decides; outputs of the model keep their shape."""

    name: str = "align-units"

    def run(self, graph: Graph) -> Graph:
        """In topological order."""
        readers = graph.consumers()
        changed: dict[str, _Dims] = {}
        nodes: list[Node] = []
        for old in graph.nodes:
            node = _with_reads(old, changed)
            dims = None if node.output in graph.outputs else _wanted(node, readers.get(node.output, ()))
            if dims is not None:
                changed[node.output] = dims
                node = replace(node, compute=_with_dims(node.compute, dims))
            nodes.append(node)
        return graph.with_nodes(tuple(nodes)) if changed else graph


def _wanted(node: Node, readers: tuple[Node, ...]) -> _Dims | None:
    if node.compute.reducer is None:
        return None
    found = next((r.compute for r in readers if r.compute.kind is ComputeKind.MAP), None)
    if found is None or len(found.axes) == len(node.compute.axes):
        return None
    return _dims(node, found)


def _dims(node: Node, reader: Compute) -> _Dims | None:
    """Where the reader's axes come from; None where it does not read the value along its own axes, in their order."""
    sizes = [a.extent.constant for a in node.compute.axes]
    axes = [a.name for a in reader.axes]
    found: set[_Dims] = set()
    for load in loads(reader.body):
        if load.buffer != node.output:
            continue
        along = {_moving(index): d for d, index in enumerate(load.indices) if sizes[d] != 1}
        if None in along or len(along) != sum(size != 1 for size in sizes):
            return None
        found.add(tuple(along.get(name) for name in axes))
    dims = found.pop() if len(found) == 1 else ()
    kept = [d for d in dims if d is not None]
    new = [a.extent.constant for a, d in zip(reader.axes, dims, strict=False) if d is None]
    whole = len(kept) == sum(size != 1 for size in sizes) and kept == sorted(kept)
    return dims if dims and whole and set(new) <= {1} else None


def _moving(index: Index) -> str | None:
    """The one axis that an index moves with."""
    names = [str(name) for name in index.names()]
    return names[0] if len(names) == 1 and index.is_affine() else None


def _with_dims(compute: Compute, dims: _Dims) -> Compute:
    gone = {a.name: ZERO for d, a in enumerate(compute.axes) if d not in dims}
    taken = {a.name for a in (*compute.axes, *compute.reduce_axes)}
    axes: list[Axis] = []
    for place, d in enumerate(dims):
        name = f"unit{place}"
        while name in taken:
            name += "_"
        axes.append(axis(name, 1) if d is None else compute.axes[d])
    body = substitute(compute.body, gone) if gone else compute.body
    return with_canonical_axes(replace(compute, axes=tuple(axes), body=body))


def _with_reads(node: Node, changed: Mapping[str, _Dims]) -> Node:
    if not any(value in changed for value in node.compute.reads):
        return node

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in changed:
            return None
        return Load(e.buffer, tuple(ZERO if d is None else e.indices[d] for d in changed[e.buffer]))

    return replace(node, compute=replace(node.compute, body=rewrite(node.compute.body, rule)))
