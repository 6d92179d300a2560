"""Joins: values that are put together along one dimension are stored where they end up, and are not copied.

    j[a0, a1] = p[a0, a1] if a1 < 64 else q[a0, a1 - 64]     →  p is stored in the first 64 columns of j's memory,
                                                                q in those behind them, and nobody computes j

A part has the Layout of the whole, with what surrounds it as a border, which says along which dimensions it
holds other parts instead of zeros. A whole may itself be a part of another. What else is joined with a part (an input,
one value that is spread over a plane, the half of another) is copied to its place by a node of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from compiler.graph.ir import Compute, ComputeKind, Graph, Node, TensorType
from compiler.graph.layout import Layout
from compiler.graph.rename import fresh_names
from compiler.index import Index
from compiler.scalar import Bound, Expr, Guard, Load, substitute
from compiler.symbol import axis


@dataclass(frozen=True, slots=True)
class Side:
    """What takes some places of a join: an expression of the join's axes."""

    places: range
    body: Expr


@dataclass(frozen=True, slots=True)
class Join:
    """A node that puts its sides together along dimension `dim`, in their order."""

    node: Node
    dim: int
    sides: tuple[Side, ...]

    def value_of(self, side: Side) -> str | None:
        """The value whose elements a side has, each at its own place; None where it has anything else."""
        load = side.body
        return load.buffer if isinstance(load, Load) and load == self._read(load.buffer, side) else None

    def copy(self, side: Side, output: str) -> Node:
        """A node that computes a side alone."""
        axes = list(self.node.compute.axes)
        moved = axes[self.dim].name
        axes[self.dim] = axis(moved, len(side.places))
        body = substitute(side.body, {moved: Index.of(moved) + side.places.start})
        return Node(self.node.name, output, Compute(tuple(axes), (), None, body, self.node.compute.dtype))

    def of(self, values: Sequence[str]) -> Node:
        """The node, each of whose sides is a value."""
        along = Index.of(self.node.compute.axes[self.dim].name)
        *firsts, last = (self._read(value, side) for value, side in zip(values, self.sides, strict=True))
        body: Expr = last
        for side, load in reversed(list(zip(self.sides, firsts, strict=False))):
            body = Guard((Bound(along, side.places.start, side.places.stop),), load, body)
        return replace(self.node, compute=replace(self.node.compute, body=body))

    def _read(self, value: str, side: Side) -> Load:
        here = [Index.of(a.name) for a in self.node.compute.axes]
        here[self.dim] -= side.places.start
        return Load(value, tuple(here))


@dataclass(frozen=True, slots=True)
class Placement:
    """The graph, with what is copied to its place; layouts of all values; the value of which each part is one."""

    graph: Graph
    layouts: Mapping[str, Layout]
    wholes: Mapping[str, str]


def place_parts(graph: Graph, layouts: Mapping[str, Layout]) -> Placement:
    """Store the sides of every join in its memory where one of them at least needs no copy; static extents only.

    Such a one is computed by a node, and not for the outside; it is a side of one join only, once, and with all its
    elements; its dimensions lie in the order of the whole's, and it has no wider border of zeros.
    """
    found, wholes, types = dict(layouts), dict[str, str](), graph.types()
    computed = {node.output for node in graph.nodes} - set(graph.outputs)
    free = set(computed)
    nodes: list[Node] = []
    # Backwards: a whole that is a part of another gets its place before its own parts do.
    for node in reversed(graph.nodes):
        join = find_join(node) if node.output in computed else None
        parts = {} if join is None else _parts(join, found, types, free)
        if join is None or not parts:
            nodes.append(node)
            continue
        fresh = fresh_names(graph, f"{node.output}.part")
        names = [parts[number] if number in parts else next(fresh) for number in range(len(join.sides))]
        named = list(zip(names, join.sides, strict=True))
        copies = [join.copy(side, name) for number, (name, side) in enumerate(named) if number not in parts]
        nodes += [join.of(names), *copies]
        found |= {name: _inside(found[node.output], join, side) for name, side in named}
        wholes |= dict.fromkeys(names, node.output)
        free -= set(names)
    return Placement(graph.with_nodes(tuple(reversed(nodes))) if wholes else graph, found, wholes)


def find_join(node: Node) -> Join | None:
    """What a node joins; None where it does anything else."""
    body, axes = node.compute.body, [Index.of(a.name) for a in node.compute.axes]
    if node.compute.kind is not ComputeKind.MOVEMENT or not isinstance(body, Guard):
        return None
    dim = next((d for d, index in enumerate(axes) if index == body.bounds[0].index), None)
    if dim is None:
        return None
    start, end, sides = 0, node.compute.axes[dim].size, list[Side]()
    while isinstance(body, Guard):
        (bound, *others) = body.bounds
        if others or bound.index != axes[dim] or not bound.low <= start < bound.high < end:
            break
        sides.append(Side(range(start, bound.high), body.inside))
        start, body = bound.high, body.outside
    return Join(node, dim, (*sides, Side(range(start, end), body))) if sides else None


def _parts(
    join: Join, layouts: Mapping[str, Layout], types: Mapping[str, TensorType], free: Set[str]
) -> dict[int, str]:
    """The sides that need no copy, by number: the values that they are."""
    found: dict[int, str] = {}
    sizes = [a.size for a in join.node.compute.axes]
    for number, side in enumerate(join.sides):
        value = join.value_of(side)
        if value is None or value not in free or value in found.values():
            continue
        sizes[join.dim] = len(side.places)
        same = types[value].sizes == tuple(sizes) and types[value].dtype is join.node.compute.dtype
        if same and _fits(layouts[value], _inside(layouts[join.node.output], join, side)):
            found[number] = value
    return found


def _inside(whole: Layout, join: Join, side: Side) -> Layout:
    """The layout of a side inside of the whole."""
    before, after = list(whole.before), list(whole.after)
    before[join.dim] += side.places.start
    after[join.dim] += join.node.compute.axes[join.dim].size - side.places.stop
    return replace(whole, before=tuple(before), after=tuple(after), inside=whole.inside | {join.dim})


def _fits(own: Layout, inside: Layout) -> bool:
    """Whether dimensions lie in the order in which a value's own do, behind borders of zeros as wide as its own."""
    borders = zip((*own.before, *own.after), (*inside.zeros_before, *inside.zeros_after), strict=True)
    return own.order == inside.order and all(need <= have for need, have in borders)
