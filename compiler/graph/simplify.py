"""Simplify: exact algebra inside each Compute, and no values that only repeat another.

y = max(x, 0.0); z = max(y, 0.0)   →   y = max(x, 0.0); readers of z read y
y = add(mul(x, 1.0), 0.0)          →   readers of y read x
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.graph.rename import with_reads_renamed
from compiler.graph.scalar_rules import Interval, interval, simplified
from compiler.graph.whole_rules import with_whole_numbers
from compiler.index import Index
from compiler.scalar import Const, Expr, Load, rewrite


@dataclass(frozen=True, slots=True)
class Simplify:
    """The rules are those of compiler.graph.scalar_rules and compiler.graph.whole_rules."""

    name: str = "simplify"

    def run(self, graph: Graph) -> Graph:
        """Bodies first, in topological order, then the values that became copies of others."""
        known: dict[str, Interval] = {}
        literals: dict[str, Const] = {}
        nodes: list[Node] = []
        for old in graph.nodes:
            node = _with_simple_body(old, known, literals)
            if node.compute.reducer in (None, "max", "min", "largest"):
                known[node.output] = interval(node.compute.body, known)
            if isinstance(node.compute.body, Const) and node.compute.reducer is None:
                literals[node.output] = node.compute.body
            nodes.append(node)
        if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
            return _without_copies(graph)
        return _without_copies(graph.with_nodes(tuple(nodes)))


def _with_simple_body(node: Node, known: dict[str, Interval], literals: dict[str, Const]) -> Node:
    compute = node.compute
    if not compute.is_static:
        return node

    def literal(expr: Expr) -> Expr | None:
        return literals.get(expr.buffer) if isinstance(expr, Load) else None

    body = rewrite(compute.body, literal) if compute.reducer is None else compute.body
    body = simplified(with_whole_numbers(body), compute.ranges, known)
    return node if body is compute.body else replace(node, compute=replace(compute, body=body))


def _without_copies(graph: Graph) -> Graph:
    """Readers of a copy read the original; a copy that is an output takes the place of its original, if it may."""
    types = graph.types()
    produced = graph.producers()
    reads: dict[str, str] = {}
    outputs: dict[str, str] = {}
    kept: list[Node] = []
    for old in graph.nodes:
        node = with_reads_renamed(old, reads)
        original = copied_value(node.compute, types)
        if original is None:
            kept.append(node)
        elif node.output not in graph.outputs:
            reads[node.output] = original
        elif original in produced and original not in graph.outputs and original not in outputs:
            outputs[original] = node.output
        else:
            kept.append(node)
    if not reads and not outputs:
        return graph
    return graph.with_nodes(tuple(_as_output(node, outputs) for node in kept))


def _as_output(node: Node, names: dict[str, str]) -> Node:
    renamed = with_reads_renamed(node, names)
    return replace(renamed, output=names[node.output]) if node.output in names else renamed


def copied_value(compute: Compute, types: Mapping[str, TensorType]) -> str | None:
    """The value that a Compute repeats element by element, or None."""
    body = compute.body
    if compute.reducer is not None or not isinstance(body, Load) or types[body.buffer] != compute.type:
        return None
    same = all(
        index == Index.of(a.name) or (index.constant == 0 and a.extent.constant == 1)
        for index, a in zip(body.indices, compute.axes, strict=True)
    )
    return body.buffer if same else None
