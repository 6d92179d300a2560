"""Innermost: which dimension of each value of a Graph its neighbours are best served by.

Anchors vote for the innermost dimension of what they read and write (compiler.graph.layout_votes). Values that maps,
windows and aligned movements connect position by position share their votes, so that nothing is transposed in between;
the majority wins. Values next to the interface that only windows, depthwise convolutions and convolutions to few
channels vote for stay row-major: these run as well along rows, and nothing has to be transposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from compiler.graph.ir import Graph, Node, TensorType
from compiler.graph.layout_votes import Vote, votes
from compiler.scalar import loads

MOST_STEP = 8
"""Elements of the innermost dimension from one lane to the next, beyond which lanes lie in lines of their own."""


def innermost_dimensions(graph: Graph, pinned: Set[str]) -> dict[str, int]:
    """The dimension that is innermost, for each value of which one is known. `pinned`: values that stay row-major."""
    leaders = _Leaders()
    cast: dict[str, list[Vote]] = {}
    ballots: list[Vote] = []
    types = graph.types()
    for node in graph.nodes:
        voted = tuple(votes(graph, node))
        ballots.extend(voted)
        if not any(vote.strong for vote in voted):
            for value in _aligned(node, types) - graph.constants.keys():
                if value not in pinned and node.output not in pinned:
                    leaders.join(node.output, value)
    for vote in ballots:
        if vote.value not in pinned:
            cast.setdefault(leaders.find(vote.value), []).append(vote)
    for vote in list(_through_permutations(graph, leaders, cast, pinned)):
        cast[leaders.find(vote.value)].append(vote)
    outside = {leaders.find(value): dim for value, dim in _beside_interface(graph)}
    winners = {
        leader: _majority(group)
        if any(vote.strong for vote in group)
        else outside.get(leader, _majority(group))
        for leader, group in cast.items()
    }
    values = [node.output for node in graph.nodes if node.output not in pinned]
    return {v: winners[leaders.find(v)] for v in values if leaders.find(v) in winners}


def _through_permutations(
    graph: Graph, leaders: _Leaders, cast: Mapping[str, list[Vote]], pinned: Set[str]
) -> Iterator[Vote]:
    """Strong votes for values that only windows have voted for, by what a map makes of them, or they of it.

    That one is sure; where both lie alike in memory there is nothing to move.
    """

    def sure(value: str) -> list[Vote]:
        return [vote for vote in cast.get(leaders.find(value), ()) if vote.strong]

    for node in graph.nodes:
        axes = [a.name for a in node.compute.axes]
        for load in loads(node.compute.body) if node.compute.reducer is None else ():
            names = [str(index.name) for index in load.indices]
            if pinned & {load.buffer, node.output} or sorted(names) != sorted(axes):
                continue
            for value, other, dims in (
                (load.buffer, node.output, {axes.index(name): d for d, name in enumerate(names)}),
                (node.output, load.buffer, {d: axes.index(name) for d, name in enumerate(names)}),
            ):
                voted = cast.get(leaders.find(value), ())
                if voted and not sure(value) and (known := sure(other)):
                    yield Vote(value, dims[_majority(known)], strong=True)


def _aligned(node: Node, types: Mapping[str, TensorType]) -> set[str]:
    """Values of the output's rank whose every dimension is indexed by the output's axis of that position.

    A value of one element there goes with all of the axis; one element of several is another place for each use.
    """
    axes = node.compute.axes
    reduced = {a.name for a in node.compute.reduce_axes}
    return {
        load.buffer
        for load in loads(node.compute.body)
        if len(load.indices) == len(axes)
        and all(
            index.names() <= {axis.name, *reduced}
            and (index.names() or 1 in (axis.extent.constant, extent.constant))
            for index, axis, extent in zip(load.indices, axes, types[load.buffer].shape, strict=True)
        )
    }


def _beside_interface(graph: Graph) -> Iterator[tuple[str, int]]:
    """Outputs of the model, and what is computed from its inputs, with the dimension that lies innermost there.

    An output is row-major; what reads an input goes along the input's last dimension in small steps, or is row-major
    where it has none, and comes later.
    """
    for value in graph.outputs:
        yield value, len(graph.types()[value].shape) - 1
    for node in graph.nodes:
        axes = [a.name for a in node.compute.axes]
        for load in loads(node.compute.body):
            if load.buffer in graph.inputs and load.indices:
                last = load.indices[-1]
                steps = {name: abs(last.coefficient(name)) for name in axes if name in last.names()}
                if steps:
                    nearest = min(steps, key=lambda name: steps[name])
                    dim = axes.index(nearest) if steps[nearest] <= MOST_STEP else len(axes) - 1
                    yield node.output, dim


def _majority(ballots: list[Vote]) -> int:
    strong = [vote for vote in ballots if vote.strong] or ballots
    return Counter(vote.dim for vote in strong).most_common(1)[0][0]


class _Leaders:
    """Disjoint sets of values; a chain of states is as long as a sequence, so that ways to a leader are shortened."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, value: str) -> str:
        leader = value
        while (parent := self._parent.get(leader, leader)) != leader:
            leader = parent
        while value != leader:
            self._parent[value], value = leader, self._parent[value]
        return leader

    def join(self, a: str, b: str) -> None:
        self._parent[self.find(a)] = self.find(b)
