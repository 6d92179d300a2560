"""Widening: what a contraction converts to f32 for each product is converted once, where it is made.

    h[m, k] = f16(e); y[m, n] = sum k of f32(h[m, k]) * f32(w[k, n])        w: const f16

    →  h[m, k] = f16(e); h.wide[m, k] = f32(h[m, k])          w.wide: const f32
       y[m, n] = sum k of h.wide[m, k] * w.wide[k, n]

No number changes: each is rounded to f16 as before, and lies in memory as f32. It costs twice the memory and saves a
conversion per product, so it is done for what a contraction reads again and again, with all who convert the same value,
and through what only moves it. Types with an Instruction that multiplies them stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from compiler.dtype import DType
from compiler.graph.ir import Compute, ComputeKind, Graph, Node, TensorType
from compiler.graph.rename import fresh_names
from compiler.index import Index
from compiler.instruction import INSTRUCTIONS
from compiler.scalar import Cast, Const, Expr, Guard, Load, rewrite, walk
from compiler.symbol import Axis

_NARROW = frozenset({DType.F16, DType.BF16}) - {i.left for i in INSTRUCTIONS.values()}
_LEAST_READS = 8
"""Of each element, on average. A constant from memory is read in half the time as f16, which few rows gain from."""


@dataclass(frozen=True, slots=True)
class Widen:
    """Runs before constants are folded, which converts them."""

    name: str = "widen"

    def run(self, graph: Graph) -> Graph:
        """Widen all that contractions read often enough."""
        wanted = _wanted(graph)
        if not wanted:
            return graph
        fresh = {value: next(fresh_names(graph, f"{value}.wide")) for value in wanted}
        types = graph.types()
        given = [value for value in (*graph.inputs, *graph.constants) if value in wanted]
        nodes = [_conversion(value, fresh[value], types[value]) for value in given]
        for node in graph.nodes:
            nodes.append(_reading(node, fresh))
            if node.output in wanted:
                moves = _only_moves(node.compute, types)
                wide = (
                    _moving(node, fresh)
                    if moves
                    else _conversion(node.output, fresh[node.output], node.compute.type)
                )
                nodes.append(wide)
        return graph.with_nodes(tuple(nodes))


def _wanted(graph: Graph) -> frozenset[str]:
    """Values to widen: those that contractions convert often, and those that are only moved on their way there."""
    types, found = graph.types(), set[str]()
    for node in reversed(graph.nodes):
        compute = node.compute
        if compute.kind is ComputeKind.CONTRACTION:
            read = [load.buffer for load in _converted(compute.body) if types[load.buffer].dtype in _NARROW]
            found |= {name for name in read if graph.open_values or _are_many(compute, types[name])}
        elif node.output in found and _only_moves(compute, types):
            found |= set(compute.reads)
    return frozenset(found)


def _converted(body: Expr) -> Iterator[Load]:
    for expr in walk(body):
        match expr:
            case Cast(Load() as load, DType.F32) | Cast(Guard(_, Load() as load, Const()), DType.F32):
                yield load
            case _:
                pass


def _are_many(compute: Compute, read: TensorType) -> bool:
    """Whether each element of a tensor is read often enough, on average; also where that is not known yet."""
    extents = [a.extent.constant for a in (*compute.axes, *compute.reduce_axes)]
    sizes = [extent.constant for extent in read.shape]
    points = prod(extent for extent in extents if extent is not None)
    elements = prod(size for size in sizes if size is not None)
    return None in extents or None in sizes or points >= _LEAST_READS * elements


def _only_moves(compute: Compute, types: Mapping[str, TensorType]) -> bool:
    """Whether it does nothing but move elements of one type, also beside literals."""
    moves = compute.kind is ComputeKind.MOVEMENT
    parts = all(isinstance(expr, Load | Guard | Const) for expr in walk(compute.body))
    return moves and parts and all(types[value].dtype is compute.dtype for value in compute.reads)


def _reading(node: Node, fresh: Mapping[str, str]) -> Node:
    """The node with conversions of widened values gone."""

    def rule(expr: Expr) -> Expr | None:
        match expr:
            case Cast(Load(name) as load, DType.F32) if name in fresh:
                return replace(load, buffer=fresh[name])
            case Cast(Guard(bounds, Load(name) as load, Const(value)), DType.F32) if name in fresh:
                return Guard(bounds, replace(load, buffer=fresh[name]), Const(value, DType.F32))
            case _:
                return None

    body = rewrite(node.compute.body, rule)
    return node if body is node.compute.body else replace(node, compute=replace(node.compute, body=body))


def _moving(node: Node, fresh: Mapping[str, str]) -> Node:
    """The same movement of what is wide."""

    def rule(expr: Expr) -> Expr | None:
        match expr:
            case Load(name):
                return replace(expr, buffer=fresh[name])
            case Const(value):
                return Const(value, DType.F32)
            case _:
                return None

    body = rewrite(node.compute.body, rule)
    return Node(node.name, fresh[node.output], replace(node.compute, body=body, dtype=DType.F32))


def _conversion(value: str, wide: str, type_: TensorType) -> Node:
    axes = tuple(Axis(f"a{i}", extent) for i, extent in enumerate(type_.shape))
    body = Cast(Load(value, tuple(Index.of(a.name) for a in axes)), DType.F32)
    return Node(value, wide, Compute(axes, (), None, body, DType.F32))
