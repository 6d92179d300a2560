"""Inline movements: whoever reads a reshaped, transposed, sliced or padded value reads the original instead.

    t[a0, a1] = x[a1, a0]; y[a0, a1] = neg(t[a0, a1])   →   y[a0, a1] = neg(x[a1, a0])

Only where it costs nothing: indices get no new quotients, and no test enters a loop that had none, except zero padding
in front of a reduction, which layouts and schedules know how to remove. Outputs of the graph stay computed. Reductions
over what a reshape made one axis are split where all readers of the reshape can do without it:

    t[a0, a1] = x[a0, a1 // 9, a1 % 9]; y[a0] = sum(r0 < 81) t[a0, r0]   →   y[a0] = sum(r0 < 9, r1 < 9) x[a0, r0, r1]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.graph.ir import Compute, ComputeKind, Graph, Node
from compiler.graph.scalar_rules import simplified
from compiler.graph.split_reductions import with_reductions_split
from compiler.index import Atom
from compiler.scalar import Const, Expr, Guard, Load, rewrite, substitute, walk


@dataclass(frozen=True, slots=True)
class InlineMovements:
    """Movements that nobody reads any more are left for dead code elimination."""

    name: str = "inline-movements"

    def run(self, graph: Graph) -> Graph:
        """In topological order, so that chains of movements collapse."""
        movements: dict[str, Node] = {}
        nodes: list[Node] = []
        # A value of the interface is computed anyway: no reader of it needs to do without.
        readers = {v: nodes for v, nodes in graph.consumers().items() if v not in graph.outputs}
        for old in graph.nodes:
            node = _with_movements_inlined(old, movements, readers)
            if node.compute.kind is ComputeKind.MOVEMENT and node.compute.is_static:
                movements[node.output] = node
            nodes.append(node)
        if all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
            return graph
        return graph.with_nodes(tuple(nodes))


def _with_movements_inlined(
    node: Node, movements: Mapping[str, Node], readers: Mapping[str, tuple[Node, ...]]
) -> Node:
    for value in node.compute.reads:
        if value in movements and node.compute.is_static:
            movement = movements[value].compute
            found = _as_cheap(node.compute, value, movement)
            splits = found is not None and len(found.reduce_axes) > len(node.compute.reduce_axes)
            if found is not None and (not splits or _all_as_cheap(readers.get(value, ()), value, movement)):
                node = replace(node, compute=found)
    return node


def _all_as_cheap(readers: tuple[Node, ...], value: str, movement: Compute) -> bool:
    every = all(r.compute.is_static and _as_cheap(r.compute, value, movement) is not None for r in readers)
    return every and bool(readers)


def _as_cheap(compute: Compute, value: str, movement: Compute) -> Compute | None:
    """The Compute reading what a movement reads, its reductions split where that helps; None where that costs more."""
    inlined = _inlined(compute, value, movement)
    if _is_as_cheap(inlined, compute):
        return inlined
    split = with_reductions_split(inlined)
    return split if split is not inlined and _is_as_cheap(split, compute) else None


def _inlined(compute: Compute, value: str, movement: Compute) -> Compute:
    def rule(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer != value:
            return None
        names = (a.name for a in movement.axes)
        return substitute(movement.body, dict(zip(names, expr.indices, strict=True)))

    return replace(compute, body=simplified(rewrite(compute.body, rule), compute.ranges, {}))


def _is_as_cheap(inlined: Compute, before: Compute) -> bool:
    if inlined.kind is not before.kind or not _quotients(inlined.body) <= _quotients(before.body):
        return False
    guards = _guards(inlined.body)
    if guards == _guards(before.body):
        return True
    # One guarded load per factor, with a literal outside: what padding in front of a window looks like.
    plain = all(
        isinstance(e.inside, Load) and isinstance(e.outside, Const)
        for e in walk(inlined.body)
        if isinstance(e, Guard)
    )
    return before.reducer is not None and plain


def _guards(body: Expr) -> int:
    return sum(isinstance(e, Guard) for e in walk(body))


def _quotients(body: Expr) -> set[Atom]:
    """The terms of indices and tests that are not linear."""
    indices = [i for e in walk(body) if isinstance(e, Load) for i in e.indices]
    indices += [b.index for e in walk(body) if isinstance(e, Guard) for b in e.bounds]
    return {atom for i in indices if not i.is_linear() for atom, _ in i.terms if not isinstance(atom, str)}
