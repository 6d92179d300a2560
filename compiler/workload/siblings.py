"""Siblings: groups that belong together although a value between them has several readers, or none.

    t = conv(x); y = relu(t); t is read elsewhere too      one group that stores t and y
    y = f(t), z = g(t), t a contraction                    one group that stores y and z; t never reaches memory
    y = f(x), z = g(x)                                     one group that reads x once
    y = f(t[j], t[j + n], ...), t a contraction            one group: the blocks of t are computed where they are read
    y = f(t), t the last group of a chain                  the last group of that chain

Two groups become one where no other group must run between them. What other groups or the model itself need is stored
as an output of its own, element by element at the same place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from compiler.graph.ir import ComputeKind, Graph, Node
from compiler.graph.layout import Layout
from compiler.index import Index
from compiler.scalar import Expr, Load, loads, rewrite, substitute, walk
from compiler.workload.blocks import find_blocks
from compiler.workload.chains import Chain, aligned_rows, single
from compiler.workload.fusion import LARGEST_BODY, FusedNodes, FusedOutput

Whole = tuple[tuple[int, ...], Load]
"""A value that is read whole: the reader's extents, and where, its axes named by their places."""


def merge_siblings(
    chains: tuple[Chain, ...], graph: Graph, layouts: Mapping[str, Layout]
) -> tuple[Chain, ...]:
    """Chains of one group may store several outputs; again in an order in which each runs after what it reads."""
    return _Merging(chains, graph, layouts).run()


class _Merging:
    def __init__(self, chains: tuple[Chain, ...], graph: Graph, layouts: Mapping[str, Layout]) -> None:
        self._chains = dict(enumerate(chains))
        self._graph, self._layouts = graph, layouts
        self._kept = set(graph.outputs)
        self._constants = graph.constants.keys()
        self._readers = graph.consumers()
        self._place = {node.output: i for i, node in enumerate(graph.nodes)}
        self._found_reads: dict[int, frozenset[str]] = {}
        self._found_wholes: dict[int, frozenset[Whole]] = {}
        self._owner = {
            node.output: i
            for i, chain in self._chains.items()
            for group in chain.members
            for node in group.nodes
        }
        # The highest number among a group and all that it needs: what is below another's does not need that one.
        self._highest: dict[int, int] = {}
        for number in self._order():
            self._highest[number] = max([number, *(self._highest[n] for n in self._before(number))])

    def run(self) -> tuple[Chain, ...]:
        for number in list(self._chains):
            while (found := next(self._joinable(number), None)) is not None:
                other, joined = found
                del self._chains[other]
                self._chains[number] = joined
                self._found_reads.pop(number, None)
                self._found_wholes.pop(number, None)
                self._owner |= {node.output: number for member in joined.members for node in member.nodes}
                self._raise(number, self._highest[other])
        return tuple(self._chains[number] for number in self._order())

    def _raise(self, number: int, highest: int) -> None:
        """Keep `_highest` of a group that another has become part of, and of those that need it."""
        self._highest[number] = max(self._highest[number], highest)
        open_ = [number]
        while open_:
            changed = open_.pop()
            for reader in self._after(changed):
                if self._highest[reader] < self._highest[changed]:
                    self._highest[reader] = self._highest[changed]
                    open_.append(reader)

    def _after(self, number: int) -> set[int]:
        """The groups that read what a group computes."""
        made = [node.output for group in self._chains[number].members for node in group.nodes]
        return {self._owner[reader.output] for value in made for reader in self._readers.get(value, ())} - {
            number
        }

    def _joinable(self, number: int) -> Iterator[tuple[int, Chain]]:
        """Groups that may become one with this one, and what they become."""
        chain = self._chains[number]
        if len(chain.members) > 1:
            return
        for other in self._neighbours(number):
            joined = self._join(self._chains[other].last, chain.last)
            found = None if joined is None else self._behind(self._chains[other], joined)
            if found is not None and not self._between(other, number):
                yield other, found

    def _behind(self, chain: Chain, joined: FusedNodes) -> Chain | None:
        """A chain whose last group has become another one; None where it is none."""
        if len(chain.members) == 1:
            return single(joined)
        return (
            None if joined.also else aligned_rows(self._graph, self._layouts, (*chain.members[:-1], joined))
        )

    def _neighbours(self, number: int) -> list[int]:
        """Groups before this one that it reads, the last first; then those that read what it reads."""
        producers, wholes = self._before(number), self._wholes(number)
        readers = {
            self._owner[node.output] for v in {load.buffer for _, load in wholes} for node in self._readers[v]
        }
        earlier = (n for n in readers - producers if n < number and self._wholes(n) & wholes)
        found = [*sorted(producers, reverse=True), *sorted(earlier, reverse=True)]
        return [n for n in found if len(self._chains[n].members) == 1 or self._chains[n].last.anchor is None]

    def _between(self, first: int, last: int) -> bool:
        """Whether another group must run between the two."""
        return self._needs(self._before(last) - {first}, first, {last}) or self._needs({first}, last, set())

    def _needs(self, groups: set[int], other: int, seen: set[int]) -> bool:
        """Whether one of the groups, or anything that they need, is the other one; nothing is asked of those `seen`."""
        open_ = list(groups)
        while open_:
            number = open_.pop()
            if number == other:
                return True
            if number not in seen and self._highest[number] >= other:
                seen.add(number)
                open_ += self._before(number)
        return False

    def _before(self, number: int) -> set[int]:
        return {self._owner[v] for v in self._reads(number) if v in self._owner} - {number}

    def _reads(self, number: int) -> frozenset[str]:
        """The values that a group reads."""
        if number not in self._found_reads:
            nodes = [node for group in self._chains[number].members for node in group.nodes]
            read = {value for node in nodes for value in node.compute.reads}
            self._found_reads[number] = frozenset(read - {node.output for node in nodes})
        return self._found_reads[number]

    def _wholes(self, number: int) -> frozenset[Whole]:
        """What a group of maps reads whole, each element once and at its own place; constants do not count."""
        if number not in self._found_wholes:
            chain = self._chains[number]
            anchored = len(chain.members) > 1 or chain.last.anchor is not None
            found = () if anchored else self._loads_of_wholes(chain.last)
            self._found_wholes[number] = frozenset(found)
        return self._found_wholes[number]

    def _loads_of_wholes(self, group: FusedNodes) -> Iterator[Whole]:
        axes = group.last.compute.axes
        numbered = {a.name: Index.of(f"#{place}") for place, a in enumerate(axes)}
        names = {a.name for a in axes if a.size > 1}
        for load in (load for output in group.outputs for load in loads(output.body)):
            if load.buffer not in self._constants and names <= {n for i in load.indices for n in i.names()}:
                indices = tuple(index.substitute(numbered) for index in load.indices)
                yield _sizes(group.last), Load(load.buffer, indices)

    def _order(self) -> list[int]:
        """Every group after those that it reads, otherwise by number."""
        done: dict[int, None] = {}
        waiting = sorted(self._chains, reverse=True)
        while waiting:
            number = waiting[-1]
            missing = [] if number in done else sorted(self._before(number) - done.keys(), reverse=True)
            if missing:
                waiting += missing
            else:
                done[waiting.pop()] = None
        return list(done)

    # --- what two groups become

    def _join(self, first: FusedNodes, second: FusedNodes) -> FusedNodes | None:
        if first.anchor is not None and second.anchor is not None:
            return None
        if {second.last.compute.kind, first.last.compute.kind} & {ComputeKind.MOVEMENT}:
            return None
        values = {output.node.output for output in first.outputs}
        if second.anchor is not None and values & set(second.anchor.compute.reads):
            return None
        joined = self._united(first, second)
        fits = joined is not None and self._fits(joined) and _in_place(first, second)
        return joined if fits else None

    def _united(self, first: FusedNodes, second: FusedNodes) -> FusedNodes | None:
        nodes = tuple(sorted((*first.nodes, *second.nodes), key=lambda n: self._place[n.output]))
        own = {node.output for node in nodes}
        needed = {
            v
            for v in own
            if v in self._kept or any(node.output not in own for node in self._readers.get(v, ()))
        }
        inlined = {output.node.output: output for output in first.outputs}
        bodies = {
            o.node.output: FusedOutput(o.node, _inlined(o.body, inlined, first)) for o in second.outputs
        }
        for value in sorted(needed - bodies.keys(), key=lambda v: self._place[v]):
            if _sizes(inlined[value].node) != _sizes(second.last):
                return None
            here = dict(zip(_names(first.last), _identity(second.last), strict=True))
            bodies[value] = FusedOutput(inlined[value].node, substitute(inlined[value].body, here))
        last = bodies.pop(second.last.output)
        if nodes[-1] is not second.last:
            return None
        also = tuple(output for value, output in bodies.items() if value in needed)
        return FusedNodes(nodes, first.anchor or second.anchor, last.body, also)

    def _fits(self, joined: FusedNodes) -> bool:
        """One type, one order of dimensions in memory, and a body of bounded size."""
        nodes = [output.node for output in joined.outputs]
        orders = {self._layouts[node.output].order for node in nodes}
        size = sum(1 for output in joined.outputs for _ in walk(output.body))
        anchored = () if joined.anchor is None else joined.nodes
        types = {node.compute.dtype for node in (*nodes, *anchored)}
        return len(orders) == 1 and len(types) == 1 and size <= LARGEST_BODY


def _in_place(first: FusedNodes, second: FusedNodes) -> bool:
    """Whether the second group reads each element of the first at one place only."""
    values = {output.node.output for output in first.outputs}
    ranges = second.last.compute.ranges
    read = {
        tuple(index.simplify(ranges) for index in load.indices)
        for output in second.outputs
        for load in loads(output.body)
        if load.buffer in values
    }
    whole = tuple(index.simplify(ranges) for index in _identity(second.last))
    if _sizes(first.last) == _sizes(second.last):
        return read <= {whole}
    return first.anchor is not None and _block_by_block(first, second, read)


def _block_by_block(first: FusedNodes, second: FusedNodes, read: Iterable[tuple[Index, ...]]) -> bool:
    """Whether one dimension is read in blocks (compiler/workload/blocks.py), and the others at their own axes."""
    sizes, own = _sizes(first.last), _sizes(second.last)
    anchored = first.anchor is not None and _sizes(first.anchor) == sizes
    differ = [d for d, (a, b) in enumerate(zip(sizes, own, strict=False)) if a != b]
    if not anchored or len(sizes) != len(own) or len(differ) != 1:
        return False
    (dim,), ranges = differ, second.last.compute.ranges
    whole = tuple(index.simplify(ranges) for index in _identity(second.last))
    rest = {(*indices[:dim], *indices[dim + 1 :]) for indices in read}
    if rest != {(*whole[:dim], *whole[dim + 1 :])}:
        return False
    blocks = find_blocks([indices[dim] for indices in read], sizes[dim], ranges)
    return blocks is not None and blocks.axis == _names(second.last)[dim]


def _inlined(body: Expr, values: Mapping[str, FusedOutput], group: FusedNodes) -> Expr:
    names = _names(group.last)

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in values:
            return None
        return substitute(values[e.buffer].body, dict(zip(names, e.indices, strict=True)))

    return rewrite(body, rule)


def _names(node: Node) -> list[str]:
    return [a.name for a in node.compute.axes]


def _identity(node: Node) -> tuple[Index, ...]:
    return tuple(Index.of(name) for name in _names(node))


def _sizes(node: Node) -> tuple[int, ...]:
    return tuple(a.size for a in node.compute.axes)
