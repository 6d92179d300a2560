"""Chains: which groups of fused nodes run as one Subgraph because they work along the same rows.

    m[i] = max(j) x[i, j]  →  e[i, j] = exp(x[i, j] - m[i])  →  t[i] = sum(j) e[i, j]  →  y[i, j] = e[i, j] / t[i]

A chain ends in one group, which is no mere copy; a value inside has no reader outside and is no output of the model.
All its reductions have the same rows (the axes of their results) and read each element once (no contractions, no
overlapping windows), every map has those rows among its axes, and what is read inside is read at the reader's own
place. A schedule may compute a row at a time, or each stage as a phase of its own: joining is never a loss.

    y[c, j] = (x[c, j] - mean[c // 8]) * ...        rows of 8 channels each: c is two axes, of which one is the rows'

An axis of the last group is two where it reads what is inside by a quotient of it, and is stored outside of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import prod

from compiler.graph.ir import Compute, ComputeKind, Graph
from compiler.graph.layout import Layout
from compiler.index import FloorDiv, Index
from compiler.scalar import Expr, Load, loads, substitute
from compiler.symbol import Axis
from compiler.workload.fusion import FusedNodes, fuse

MOST_MEMBERS = 8


@dataclass(frozen=True, slots=True)
class Chain:
    """Groups that run together, in order; the last one's output is what is stored.

    Attributes:
        names: per member, the name that each axis of its stages has in the chain; equal names run together.
        divided: axes of the last member that are two, and the extent of the inner one; `names` has both (`halves`).
    """

    members: tuple[FusedNodes, ...]
    names: tuple[Mapping[str, str], ...]
    divided: Mapping[str, int] = field(default_factory=dict)

    @property
    def last(self) -> FusedNodes:
        """The group whose output is stored."""
        return self.members[-1]


def chains(graph: Graph, layouts: Mapping[str, Layout], apart: Set[str] = frozenset()) -> tuple[Chain, ...]:
    """All nodes of a Graph in chains, in the order of their last nodes; most have one member.

    `layouts`: of what is stored; `apart`: nodes that stay alone.
    """
    groups = fuse(graph, apart)
    home = {node.output: i for i, group in enumerate(groups) for node in group.nodes}
    readers: dict[int, set[int]] = {i: set() for i in range(len(groups))}
    for value, nodes in graph.consumers().items():
        if value in home:
            readers[home[value]] |= {home[node.output] for node in nodes} - {home[value]}
    kept = {home[value] for value in (*graph.outputs, *apart) if value in home}
    free = set(range(len(groups)))
    found: list[Chain] = []
    for end in reversed(range(len(groups))):
        if end not in free:
            continue
        chain, own = _grown(graph, layouts, groups, end, free - kept, readers)
        free -= own
        found.append(chain)
    return tuple(reversed(found))


def member_compute(member: FusedNodes) -> Compute:
    """What gives a member's stages their axes: the reduction, or the map where there is none."""
    return (member.anchor or member.last).compute


def map_axes(member: FusedNodes) -> tuple[Axis, ...]:
    """Axes of a member's last node, named like those of its reduction wherever their extents are the same."""
    pairs = zip(member.last.compute.axes, member_compute(member).axes, strict=True)
    return tuple(b if a.extent == b.extent else Axis(f"{b.name}'", a.extent) for a, b in pairs)


def map_bodies(member: FusedNodes) -> dict[str, Expr]:
    """What a member stores by the names of the values, in terms of its map's axes."""
    pairs = zip(member.last.compute.axes, map_axes(member), strict=True)
    names = {a.name: Index.of(b.name) for a, b in pairs}
    return {output.node.output: substitute(output.body, names) for output in member.outputs}


def _grown(
    graph: Graph,
    layouts: Mapping[str, Layout],
    groups: Sequence[FusedNodes],
    end: int,
    free: set[int],
    readers: Mapping[int, set[int]],
) -> tuple[Chain, set[int]]:
    """The longest chain that ends in a group, and its members' places."""
    own = [end]
    chain = single(groups[end])
    grown = groups[end].last.compute.kind is not ComputeKind.MOVEMENT
    while grown and len(own) < MOST_MEMBERS:
        grown = False
        for place in sorted(free - set(own), reverse=True):
            if not readers[place] or not readers[place] <= set(own):
                continue
            places = sorted([*own, place])
            joined = aligned_rows(graph, layouts, [groups[i] for i in places])
            if joined is not None:
                own, chain, grown = places, joined, True
                break
    return chain, set(own)


def halves(name: str) -> tuple[str, str]:
    """What the outer and the inner part of an axis that is two are called in `Chain.names`."""
    return f"{name}/o", f"{name}/i"


def single(member: FusedNodes) -> Chain:
    """A chain of one group."""
    compute = member_compute(member)
    return Chain((member,), ({a.name: a.name for a in (*compute.axes, *compute.reduce_axes)},))


def aligned_rows(graph: Graph, layouts: Mapping[str, Layout], members: Sequence[FusedNodes]) -> Chain | None:
    """The members as a chain that works along rows; None where the rules forbid it."""
    if any(m.anchor is not None and not _reads_once(graph, m.anchor.compute) for m in members):
        return None
    axes = _joined_axes(members, _divided(members, layouts))
    if axes is None or not _share_rows(members, axes):
        return None
    return _along_what_is_read(members, axes)


def aligned(members: tuple[FusedNodes, ...]) -> Chain | None:
    """Members that read each other at their own places, whatever else they do; None where one reads elsewhere."""
    axes = _joined_axes(members, {})
    return None if axes is None else _along_what_is_read(members, axes)


def _joined_axes(members: Sequence[FusedNodes], divided: Mapping[str, int]) -> _Axes | None:
    """The axes, joined by what the members read of each other; None where one reads at another place than its own."""
    axes = _Axes(members, divided)
    inside = {m.last.output: i for i, m in enumerate(members)}
    for i, member in enumerate(members):
        for load in _member_loads(member):
            if load.buffer in inside and not axes.join_read(i, load, inside[load.buffer]):
                return None
    return axes if axes.distinct() else None


def _along_what_is_read(members: Sequence[FusedNodes], axes: _Axes) -> Chain:
    """Axes that walk along the same dimension of what the chain is given are one, but for those of products."""
    inside = {m.last.output for m in members}
    outside: dict[tuple[str, int], list[tuple[int, Axis]]] = {}
    for i, member in enumerate(members):
        for load in _member_loads(member, products=False):
            for d, index in enumerate(load.indices if load.buffer not in inside else ()):
                if index.name is not None and not axes.is_divided(i, index.name):
                    outside.setdefault((load.buffer, d), []).append((i, axes.axis(i, index.name)))
    for places in outside.values():
        axes.join_where_possible(places)
    return Chain(tuple(members), axes.names(), axes.divided)


def _reads_once(graph: Graph, compute: Compute) -> bool:
    """Whether a reduction takes each element of its largest input (constants apart) at most once."""
    types, points = graph.types(), prod(compute.ranges.values())
    read = [types[load.buffer].sizes for load in loads(compute.body) if load.buffer not in graph.constants]
    return any(prod(sizes) >= points for sizes in read)


def _member_loads(member: FusedNodes, *, products: bool = True) -> Iterator[Load]:
    """Loads of both stages, in terms of the member's axes, but for those of its own reduction's result.

    `products`: also those of a reduction that is a contraction.
    """
    contraction = member.anchor is not None and member.anchor.compute.kind is ComputeKind.CONTRACTION
    if member.anchor is not None and (products or not contraction):
        yield from loads(member.anchor.compute.body)
    own = member.anchor.output if member.anchor is not None else None
    for body in map_bodies(member).values():
        yield from (load for load in loads(body) if load.buffer != own)


def _share_rows(members: Sequence[FusedNodes], axes: _Axes) -> bool:
    reduced = [axes.outer(i) for i, m in enumerate(members) if m.anchor is not None]
    if not reduced or any(rows != reduced[0] for rows in reduced):
        return False
    return all(reduced[0] <= axes.outer(i) for i in range(len(members)))


def _divided(members: Sequence[FusedNodes], layouts: Mapping[str, Layout]) -> dict[str, int]:
    """Axes of the last member, if that is a map, that read what is inside by quotients; and the divisors.

    Only those that are stored outside of all but rows, so that the elements of a row are neighbours.
    """
    last, inside = members[-1], {m.last.output for m in members}
    if last.anchor is not None:
        return {}
    read = [index for load in _member_loads(last) if load.buffer in inside for index in load.indices]
    quotients = dict(pair for pair in map(_quotient, read) if pair is not None)
    plain = {index.name for index in read}
    found, axes = {}, member_compute(last).axes
    for a in (axes[d] for d in layouts[last.last.output].order if axes[d].size > 1):
        if a.name in quotients and a.size % quotients[a.name] == 0:
            found[a.name] = quotients[a.name]
        elif a.name not in plain:
            break
    return found


def _quotient(index: Index) -> tuple[str, int] | None:
    """The axis that an index is a quotient of, and the divisor."""
    match index:
        case Index(((FloorDiv(value, int() as divisor), 1),), 0) if value.name is not None:
            return value.name, divisor
        case _:
            return None


_Key = tuple[int, str]


class _Axes:
    """Disjoint sets of the members' axes: those of one set run together. `divided`: see Chain."""

    def __init__(self, members: Sequence[FusedNodes], divided: Mapping[str, int]) -> None:
        self._members, self.divided = members, divided
        self._sizes: dict[_Key, int] = {}
        for i, member in enumerate(members):
            compute = member_compute(member)
            for a in (*compute.axes, *compute.reduce_axes):
                inner = divided[a.name] if self.is_divided(i, a.name) else 0
                parts = (
                    zip(halves(a.name), (a.size // inner, inner), strict=True)
                    if inner
                    else [(a.name, a.size)]
                )
                self._sizes |= {(i, name): size for name, size in parts}
        self._parent = {key: key for key in self._sizes}

    def is_divided(self, member: int, name: str) -> bool:
        """Whether an axis is two."""
        return member == len(self._members) - 1 and name in self.divided

    def axis(self, member: int, name: str) -> Axis:
        """An axis of a member."""
        compute = member_compute(self._members[member])
        return next(a for a in (*compute.axes, *compute.reduce_axes) if a.name == name)

    def join_read(self, reader: int, load: Load, producer: int) -> bool:
        """Join what a read inside the chain connects; False where it reads at another place than its own."""
        outputs = member_compute(self._members[producer]).axes
        sizes = {a.name: a.size for a in map_axes(self._members[reader])}
        sizes |= {name: size for (member, name), size in self._sizes.items() if member == reader}
        for index, a in zip(load.indices, outputs, strict=True):
            if a.size == 1:
                # Under a guard the index may be any, where nothing is read.
                if index.bounds(sizes) != (0, 0):
                    return False
                continue
            name = self._name(reader, index)
            if name is None or self._sizes[(reader, name)] != a.size:
                return False
            self._join((reader, name), (producer, a.name))
        return True

    def _name(self, reader: int, index: Index) -> str | None:
        """The axis that an index is; of one that is two, the outer where it is that quotient. None where it is none."""
        found = _quotient(index)
        if found is not None and self.is_divided(reader, found[0]) and self.divided[found[0]] == found[1]:
            return halves(found[0])[0]
        return None if index.name is None or self.is_divided(reader, index.name) else index.name

    def join_where_possible(self, places: Sequence[tuple[int, Axis]]) -> None:
        """Join axes that walk along the same dimension of the same value, where each stage's stay distinct."""
        (first, a), *others = places
        for member, b in others:
            if a.size != b.size or a.size == 1:
                continue
            before = dict(self._parent)
            self._join((first, a.name), (member, b.name))
            if not self.distinct():
                self._parent = before

    def distinct(self) -> bool:
        """Whether no two axes of one member are in the same set."""
        return all(
            len({self._find(key) for key in keys}) == len(keys)
            for i in range(len(self._members))
            if (keys := [key for key in self._sizes if key[0] == i])
        )

    def outer(self, member: int) -> frozenset[_Key]:
        """The sets of a member's own output, axes of extent 1 left out."""
        outputs = (a for a in member_compute(self._members[member]).axes if a.size > 1)
        names = (halves(a.name) if self.is_divided(member, a.name) else (a.name,) for a in outputs)
        return frozenset(self._find((member, name)) for each in names for name in each)

    def names(self) -> tuple[dict[str, str], ...]:
        """Per member the name of each axis: one per set."""
        fresh: dict[_Key, str] = {}
        for key in self._sizes:
            fresh.setdefault(self._find(key), f"a{len(fresh)}")
        return tuple(
            {name: fresh[self._find((i, name))] for j, name in self._sizes if j == i}
            for i in range(len(self._members))
        )

    def _find(self, key: _Key) -> _Key:
        while self._parent[key] != key:
            key = self._parent[key]
        return key

    def _join(self, a: _Key, b: _Key) -> None:
        self._parent[self._find(a)] = self._find(b)
