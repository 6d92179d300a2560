"""Fusion rules: which nodes of a Graph run as one Subgraph.

    anchor → map → map        an anchor (a node with a reducer) takes the maps that follow it element by element
    map → map, movement → map no anchor: everything is inlined into one expression

Here a value inside a Subgraph has one reader and is no output of the model, so that nothing but the last value leaves,
and running all of it at the place of its last node is always possible. What may leave besides, and what has several
readers in the same Subgraph, is decided afterwards (compiler/workload/siblings.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from compiler.graph.ir import ComputeKind, Graph, Node
from compiler.graph.scalar_rules import with_tests_decided
from compiler.graph.whole_rules import with_whole_numbers
from compiler.index import Index
from compiler.scalar import Expr, Load, loads, rewrite, substitute, walk

LARGEST_BODY = 256
"""Nodes of an expression; where a value is read several times, inlining repeats its expression."""


@dataclass(frozen=True, slots=True)
class FusedOutput:
    """A value that a group stores besides that of its last node: an element, over the last node's axes."""

    node: Node
    body: Expr


@dataclass(frozen=True, slots=True)
class FusedNodes:
    """Nodes that run together; the last one's output, and `also` those of others, are what they store.

    Attributes:
        anchor: the one node with a reducer; None where all are maps.
        body: an element of the last output, over the last node's axes. The anchor's own value is loaded by name,
            with one index per axis.
    """

    nodes: tuple[Node, ...]
    anchor: Node | None
    body: Expr
    also: tuple[FusedOutput, ...] = ()

    @property
    def last(self) -> Node:
        """The node whose output is stored."""
        return self.nodes[-1]

    @property
    def outputs(self) -> tuple[FusedOutput, ...]:
        """All that is stored, the last node's output at the end."""
        return (*self.also, FusedOutput(self.last, self.body))


def fuse(graph: Graph, apart: Set[str] = frozenset()) -> tuple[FusedNodes, ...]:
    """Groups of nodes in the order of their last nodes; each node is in one, those of `apart` alone."""
    consumers = graph.consumers()
    place = {node.output: i for i, node in enumerate(graph.nodes)}
    inner = {v for v, readers in consumers.items() if len(readers) == 1} - set(graph.outputs) - apart
    done: dict[str, FusedNodes] = {}
    for node in graph.nodes:
        if node.compute.reducer is not None:
            done[node.output] = FusedNodes((node,), node, Load(node.output, _identity(node)))
            continue
        group = FusedNodes((node,), None, node.compute.body)
        offered = [
            done[v] for v in node.compute.reads if v in inner and v in done and node.output not in apart
        ]
        for producer in _by_preference(offered, place):
            joined = _join(producer, group)
            if joined is not None:
                group = joined
                del done[producer.last.output]
        done[node.output] = group
    return tuple(done.values())


def _by_preference(offered: Iterable[FusedNodes], place: dict[str, int]) -> list[FusedNodes]:
    """Producers with an anchor first, of those the one that starts last."""
    return sorted(offered, key=lambda p: (p.anchor is None, -place[p.nodes[0].output]))


def _join(producer: FusedNodes, group: FusedNodes) -> FusedNodes | None:
    """The group with its producer inlined; None where the rules forbid it."""
    value, node = producer.last.output, group.last
    if producer.anchor is None:
        fits = _inlines_freely(producer.last, node)
    else:
        fits = group.anchor is None and _continues(producer.last, node)
    if not fits:
        return None
    axes = [a.name for a in producer.last.compute.axes]

    def rule(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer != value:
            return None
        return substitute(producer.body, dict(zip(axes, expr.indices, strict=True)))

    # Of a value that is put together from several, a reader with strides may only need some.
    body = with_tests_decided(with_whole_numbers(rewrite(group.body, rule)), node.compute.ranges)
    if sum(1 for _ in walk(body)) > LARGEST_BODY:
        return None
    return FusedNodes((*producer.nodes, *group.nodes), producer.anchor or group.anchor, body)


def _continues(producer: Node, node: Node) -> bool:
    """Whether a map reads each element of the producer once, at the place where it stores its own."""
    ranges = node.compute.ranges
    sizes = tuple(a.size for a in node.compute.axes)
    if node.compute.kind is not ComputeKind.MAP or tuple(a.size for a in producer.compute.axes) != sizes:
        return False
    wanted = tuple(index.simplify(ranges) for index in _identity(node))
    read = [load.indices for load in loads(node.compute.body) if load.buffer == producer.output]
    return all(tuple(i.simplify(ranges) for i in indices) == wanted for indices in read)


def _inlines_freely(producer: Node, node: Node) -> bool:
    """Whether inlining computes no element of the producer twice (moving one costs nothing)."""
    if producer.compute.kind is ComputeKind.MOVEMENT:
        return True
    read = {load.indices for load in loads(node.compute.body) if load.buffer == producer.output}
    return len(read) == 1 and _points(node) <= _points(producer)


def _points(node: Node) -> int:
    count = 1
    for size in node.compute.ranges.values():
        count *= size
    return count


def _identity(node: Node) -> tuple[Index, ...]:
    return tuple(Index.of(a.name) for a in node.compute.axes)
