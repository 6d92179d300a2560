"""Dead code elimination: nodes and constants that no output needs go.

t = relu(x); y = neg(x); output y   →   y = neg(x); output y
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.graph.ir import Graph


@dataclass(frozen=True, slots=True)
class EliminateDeadCode:
    """Inputs stay: they belong to the model's interface."""

    name: str = "dce"

    def run(self, graph: Graph) -> Graph:
        """Keep what the outputs reach."""
        live = set(graph.outputs)
        kept = []
        for node in reversed(graph.nodes):
            if node.output in live:
                live.update(node.compute.reads)
                kept.append(node)
        constants = {name: array for name, array in graph.constants.items() if name in live}
        if len(kept) == len(graph.nodes) and len(constants) == len(graph.constants):
            return graph
        return graph.with_nodes(tuple(reversed(kept)), constants)
