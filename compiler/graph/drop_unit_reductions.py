"""Drop unit reductions: reducing over one element is no reduction.

y[a0, a1] = sum(r0 < 1) x[a0, r0] * w[r0, a1]   →   y[a0, a1] = x[a0, 0] * w[0, a1]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.graph.ir import Graph, Node
from compiler.index import ZERO
from compiler.scalar import substitute


@dataclass(frozen=True, slots=True)
class DropUnitReductions:
    """Reduction axes of extent 1 go; a Compute that has no other becomes a map and can fuse with what precedes it."""

    name: str = "drop-unit-reductions"

    def run(self, graph: Graph) -> Graph:
        """Every node by itself."""
        nodes = tuple(_without_units(node) for node in graph.nodes)
        if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
            return graph
        return graph.with_nodes(nodes)


def _without_units(node: Node) -> Node:
    compute = node.compute
    unit = {a.name: ZERO for a in compute.reduce_axes if a.extent.constant == 1}
    if not unit:
        return node
    rest = tuple(a for a in compute.reduce_axes if a.name not in unit)
    reducer = compute.reducer if rest else None
    body = substitute(compute.body, unit)
    return replace(node, compute=replace(compute, reduce_axes=rest, reducer=reducer, body=body))
