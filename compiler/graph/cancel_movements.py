"""Cancel movements: what is computed between a reshape and the one back is computed in the shape outside.

    t[a0, a1] = x[a0*4 + a1 // 9, a1 % 9]; y[a0, a1] = mul(t[a0, a1], m[a0]); z[a0, a1] = y[a0 // 4, a0 % 4*9 + a1]
                                                            →   z[a0, a1] = mul(t[a0 // 4, a0 % 4*9 + a1], m[a0 // 4])

Whoever inlines movements then finds that z reads x[a0, a1]. Quotients stay where little is read: as the mean of a group
of channels is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.graph.ir import Compute, ComputeKind, Graph, Node, TensorType
from compiler.graph.scalar_rules import simplified
from compiler.scalar import Expr, Load, loads, rewrite, substitute
from compiler.symbol import product

_SMALL = 8
"""So many times fewer elements than are computed is little."""


@dataclass(frozen=True, slots=True)
class CancelMovements:
    """Static extents. The map in between is left for dead code elimination."""

    name: str = "cancel-movements"

    def run(self, graph: Graph) -> Graph:
        """Every movement that is the only reader of a map."""
        producers, readers = graph.producers(), graph.consumers()
        types = graph.types()
        nodes: list[Node] = []
        for node in graph.nodes:
            inner = _map_of(node.compute, producers)
            found = node
            if inner is not None and readers[inner.output] == (node,) and inner.output not in graph.outputs:
                composed = _composed(node.compute, inner.compute)
                if _is_worth_it(composed, producers, types):
                    found = replace(node, compute=composed)
            nodes.append(found)
        changed = any(a is not b for a, b in zip(nodes, graph.nodes, strict=True))
        return graph.with_nodes(tuple(nodes)) if changed else graph


def _map_of(compute: Compute, producers: Mapping[str, Node]) -> Node | None:
    """The map of as many elements that a movement moves as a whole."""
    if not isinstance(compute.body, Load) or compute.reducer is not None or not compute.is_static:
        return None
    inner = producers.get(compute.body.buffer)
    if inner is None or inner.compute.kind is not ComputeKind.MAP or not inner.compute.is_static:
        return None
    return inner if _elements(inner.compute) == _elements(compute) else None


def _composed(movement: Compute, inner: Compute) -> Compute:
    assert isinstance(movement.body, Load)
    names = (a.name for a in inner.axes)
    body = substitute(inner.body, dict(zip(names, movement.body.indices, strict=True)))
    return replace(movement, body=simplified(body, movement.ranges, {}))


def _is_worth_it(composed: Compute, producers: Mapping[str, Node], types: Mapping[str, TensorType]) -> bool:
    """Whether a movement in front of the map is undone, and little is read by quotients."""
    undone = False

    def inlined(expr: Expr) -> Expr | None:
        nonlocal undone
        if not isinstance(expr, Load) or expr.buffer not in producers:
            return None
        movement = producers[expr.buffer].compute
        if movement.kind is not ComputeKind.MOVEMENT or not movement.is_static:
            return None
        undone = undone or not all(
            index.is_linear() for load in loads(movement.body) for index in load.indices
        )
        return substitute(
            movement.body, dict(zip((a.name for a in movement.axes), expr.indices, strict=True))
        )

    body = simplified(rewrite(composed.body, inlined), composed.ranges, {})
    moved = (load for load in loads(body) if not all(index.is_linear() for index in load.indices))
    sizes = (product(types[load.buffer].shape).constant for load in moved)
    few = _elements(composed) // _SMALL
    return undone and all(size is not None and size <= few for size in sizes)


def _elements(compute: Compute) -> int:
    return prod(a.size for a in compute.axes)
