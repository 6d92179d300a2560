"""Absorb movements: read through transposes, squeezes and broadcasts, and reduce over nothing that has one element.

    y[a0, a1] = x[a0, a1, 0, 0]; z[a0, a1] = sum(r0) y[a0, r0] * w[r0, a1]  →  z[a0, a1] = sum(r0) x[a0, r0, 0, 0] * ...

Only movements whose every index is a name or a number are absorbed: they cost nothing to read through. A reshape that
needs quotients stays where it is.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.graph.ir import Compute, Graph, Node
from compiler.index import ZERO, Index
from compiler.scalar import Expr, Load, rewrite, substitute


def absorb_movements(graph: Graph) -> Graph:
    """Let readers of free movements read what the movement reads; movements without a reader left are dropped."""
    free: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        kept = _read_through(drop_unit_reductions(node), free)
        nodes.append(kept)
        if _is_free(kept.compute):
            free[kept.output] = kept
    read = {value for node in nodes for value in node.compute.reads} | set(graph.outputs)
    return graph.with_nodes(tuple(n for n in nodes if n.output in read or n.output not in free))


def drop_unit_reductions(node: Node) -> Node:
    """Remove reduction axes of extent 1; what reduces over nothing else is a map."""
    compute = node.compute
    unit = {a.name: ZERO for a in compute.reduce_axes if a.extent.constant == 1}
    if not unit:
        return node
    rest = tuple(a for a in compute.reduce_axes if a.name not in unit)
    body = substitute(compute.body, unit)
    reducer = compute.reducer if rest else None
    return replace(node, compute=replace(compute, reduce_axes=rest, reducer=reducer, body=body))


def _is_free(compute: Compute) -> bool:
    body = compute.body
    if compute.reducer is not None or not isinstance(body, Load):
        return False
    return all(index.name is not None or index.constant is not None for index in body.indices)


def _read_through(node: Node, free: dict[str, Node]) -> Node:
    def rule(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in free:
            return None
        moved = free[expr.buffer].compute
        bindings: dict[str, Index] = {
            a.name: index for a, index in zip(moved.axes, expr.indices, strict=True)
        }
        return substitute(moved.body, bindings)

    body = rewrite(node.compute.body, rule)
    return node if body is node.compute.body else replace(node, compute=replace(node.compute, body=body))
