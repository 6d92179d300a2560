"""Fold affine maps into the contraction in front of them: batch norm, scales, and repeated biases.

    t[a0, a1] = sum r0 of x[a0, r0] * w[r0, a1]        w'[a0, a1] = w[a0, a1] * s[a1]
    y[a0, a1] = t[a0, a1] * s[a1] + b[a1]          →   t[a0, a1] = sum r0 of x[a0, r0] * w'[r0, a1]
                                                       y[a0, a1] = t[a0, a1] + b[a1]

Structure decides, not the operator that a node came from: the maps must be affine in the contraction's value with
constant coefficients, be its only readers, and scale along axes that index one of its constants directly. What is
left are nodes over constants, for constant folding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from compiler.dtype import DType
from compiler.graph.affine import ONE, ZERO, Affine, affine_in, identity_indices
from compiler.graph.ir import Compute, ComputeKind, Graph, Node
from compiler.graph.rename import fresh_names
from compiler.index import Index
from compiler.scalar import Const, Expr, Load, apply, loads, rename_buffers, substitute, walk
from compiler.scalar import Guard as ScalarGuard
from compiler.symbol import Axis


@dataclass(frozen=True, slots=True)
class FoldAffine:
    """Scales go into the constant operand, offsets are merged into one that is added afterwards."""

    name: str = "fold-affine"

    def run(self, graph: Graph) -> Graph:
        """In topological order, so that a whole chain of maps ends up in its contraction."""
        state = _State.of(graph)
        for node in graph.nodes:
            state.nodes[node.output] = node
            if all(value in state.constants for value in node.compute.reads):
                state.constants[node.output] = tuple(a.extent for a in node.compute.axes)
            else:
                state.fold(node)
        nodes = tuple(state.nodes.values())
        return graph.with_nodes(nodes) if state.changed else graph


@dataclass
class _State:
    graph: Graph
    single: frozenset[str]
    """Values with one reader, which are no outputs of the graph."""
    constants: dict[str, tuple[Index, ...]]
    """Shape of every value that depends on constants only."""
    nodes: dict[str, Node] = field(default_factory=dict)
    changed: bool = False

    @staticmethod
    def of(graph: Graph) -> _State:
        types = graph.types()
        read = graph.consumers()
        single = frozenset(v for v, nodes in read.items() if len(nodes) == 1 and v not in graph.outputs)
        return _State(graph, single, {name: types[name].shape for name in graph.constants})

    def fold(self, last: Node) -> None:
        """Fold the chain of maps that ends with this node, where there is one and it can be folded."""
        if last.compute.dtype is not DType.F32:
            return
        chain = self._chain(last)
        if chain is None:
            return
        contraction, maps, total = chain
        if total.scale == ONE and len(maps) == 1:
            return
        scaled = self._scaled(contraction, total.scale)
        if scaled is None:
            return
        for node in (contraction, *maps):
            del self.nodes[node.output]
        self.changed = True
        for node in (*scaled, *self._with_offset(scaled[-1], last, total.offset)):
            self.nodes[node.output] = node
        if total.offset == ZERO:
            del self.nodes[contraction.output]
            self.nodes[last.output] = replace(scaled[-1], output=last.output)

    def _chain(self, last: Node) -> tuple[Node, list[Node], Affine] | None:
        """The contraction, the maps after it (last first), and what they do together, over its axes."""
        maps: list[Node] = []
        steps: list[Affine] = []
        node = last
        while node.compute.kind is ComputeKind.MAP:
            found = self._step(node)
            if found is None:
                return None
            value, step = found
            maps.append(node)
            steps.append(step)
            node = self.nodes[value]
        if not maps or node.compute.kind is not ComputeKind.CONTRACTION:
            return None
        total = Affine(ONE, ZERO)
        for map_node, step in zip(reversed(maps), reversed(steps), strict=True):
            total = total.then(step.over(map_node.compute.axes, node.compute.axes))
        return node, maps, total

    def _step(self, node: Node) -> tuple[str, Affine] | None:
        """The one value of the map that is not constant, and the map as a function of it."""
        values = [value for value in node.compute.reads if value not in self.constants]
        if len(values) != 1 or values[0] not in self.single or values[0] not in self.nodes:
            return None
        source = self.nodes[values[0]].compute
        if [a.extent for a in source.axes] != [a.extent for a in node.compute.axes]:
            return None
        step = affine_in(node.compute.body, Load(values[0], identity_indices(node.compute)))
        return None if step is None else (values[0], step)

    def _scaled(self, contraction: Node, scale: Expr) -> tuple[Node, ...] | None:
        """Nodes that compute the scaled constant and the contraction with it."""
        if scale == ONE:
            return (contraction,)
        for load in loads(contraction.compute.body):
            places = self._places(load, contraction.compute, scale)
            if places is None:
                continue
            constant = self._scaled_constant(load.buffer, scale, places)
            body = rename_buffers(contraction.compute.body, {load.buffer: constant.output})
            return constant, replace(contraction, compute=replace(contraction.compute, body=body))
        return None

    def _places(self, load: Load, compute: Compute, scale: Expr) -> dict[str, int] | None:
        """Dimension of the constant that each axis of the scale indexes, where that is all there is to it."""
        uses = sum(other.buffer == load.buffer for other in loads(compute.body))
        if load.buffer not in self.constants or uses != 1:
            return None
        direct = {index.name: d for d, index in enumerate(load.indices) if index.name is not None}
        names = _names(scale)
        return {name: direct[name] for name in names} if names <= direct.keys() else None

    def _scaled_constant(self, name: str, scale: Expr, places: Mapping[str, int]) -> Node:
        axes = tuple(Axis(f"a{d}", extent) for d, extent in enumerate(self.constants[name]))
        moved = substitute(scale, {axis: Index.of(axes[d].name) for axis, d in places.items()})
        whole = Load(name, tuple(Index.of(a.name) for a in axes))
        return self._constant_node(f"{name}.scaled", Compute(axes, (), None, apply("mul", whole, moved)))

    def _with_offset(self, contraction: Node, last: Node, offset: Expr) -> Iterator[Node]:
        if offset == ZERO:
            return
        if not isinstance(offset, Load | Const):
            used = tuple(a for a in contraction.compute.axes if a.name in _names(offset))
            node = self._constant_node(f"{last.output}.bias", Compute(used, (), None, offset))
            yield node
            offset = Load(node.output, tuple(Index.of(a.name) for a in used))
        axes = contraction.compute.axes
        value = Load(contraction.output, identity_indices(contraction.compute))
        yield replace(last, compute=Compute(axes, (), None, apply("add", value, offset), last.compute.dtype))

    def _constant_node(self, base: str, compute: Compute) -> Node:
        name = next(n for n in fresh_names(self.graph, base) if n not in self.nodes)
        self.constants[name] = tuple(a.extent for a in compute.axes)
        return Node(base, name, compute)


def _names(expr: Expr) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for e in walk(expr):
        if isinstance(e, Load):
            found = found.union(*(index.names() for index in e.indices))
        elif isinstance(e, ScalarGuard):
            found = found.union(*(bound.index.names() for bound in e.bounds))
    return found
