"""The graph: tensors and the index expressions that compute them.

    graph   ::= Graph(inputs, outputs, constants, nodes, symbols)
    node    ::= Node(name, output, compute)
    compute ::= Compute(axes, reduce_axes, reducer, body, dtype)

A Compute says what one element of its output is, for every operator alike:

    output[axes] = reducer over reduce_axes of body(axes, reduce_axes)

`body` loads from other values of the graph by name. There is one axis per output dimension, in the order of the ONNX
tensor; how a value lies in memory is its Layout (compiler.graph.layout), not part of the Compute. Values are in SSA
form and nodes in topological order. Everything is immutable: a pass returns a new Graph, or the same object when it
has nothing to do.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from compiler.dtype import DType
from compiler.index import Index
from compiler.scalar import Apply, Cast, Const, Expr, Guard, Load, children, loads
from compiler.symbol import Axis, Symbol, static


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape (constant or symbolic extents) and element type."""

    shape: tuple[Index, ...]
    dtype: DType

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as numbers; raises InputError where it is symbolic."""
        return tuple(static(extent, "a tensor") for extent in self.shape)


class ComputeKind(enum.Enum):
    """What the structure of a Compute makes of it; nothing depends on the operator it came from."""

    CONTRACTION = "contraction"  # a sum over products of two or more loads
    REDUCTION = "reduction"  # any other reduction (pooling windows among them)
    MAP = "map"  # no reduction, some arithmetic
    MOVEMENT = "movement"  # no reduction and no arithmetic: elements only change place


@dataclass(frozen=True, slots=True)
class Compute:
    """`output[axes] = reducer over reduce_axes of body`; `reducer` is a name of REDUCERS, or None for a map."""

    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    reducer: str | None
    body: Expr
    dtype: DType = DType.F32

    @property
    def type(self) -> TensorType:
        """Type of the output."""
        return TensorType(tuple(a.extent for a in self.axes), self.dtype)

    @property
    def kind(self) -> ComputeKind:
        """Structure of the body."""
        if self.reducer is None:
            return ComputeKind.MOVEMENT if _only_moves(self.body) else ComputeKind.MAP
        if self.reducer == "sum" and product_factors(self.body) is not None:
            return ComputeKind.CONTRACTION
        return ComputeKind.REDUCTION

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the values it loads, without repeats, in order of appearance."""
        return tuple(dict.fromkeys(load.buffer for load in loads(self.body)))

    @property
    def is_static(self) -> bool:
        """Whether every extent is a number."""
        return all(a.extent.constant is not None for a in (*self.axes, *self.reduce_axes))

    @property
    def ranges(self) -> dict[str, int]:
        """Extent of each axis by name (static extents only)."""
        return {a.name: a.size for a in (*self.axes, *self.reduce_axes)}


@dataclass(frozen=True, slots=True)
class Node:
    """One value and how it is computed. `name` is for people: the ONNX node it came from."""

    name: str
    output: str
    compute: Compute


@dataclass(frozen=True, eq=False)
class Graph:
    """A whole model. `constants` holds read-only arrays.

    `open_values`: those whose shape depends on an open size of the model; they are computed, also from constants alone.
    """

    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    nodes: tuple[Node, ...]
    symbols: tuple[Symbol, ...] = ()
    open_values: frozenset[str] = field(default=frozenset(), kw_only=True)
    name: str = field(default="graph", kw_only=True)

    def with_nodes(self, nodes: tuple[Node, ...], constants: Mapping[str, np.ndarray] | None = None) -> Graph:
        """The same graph with other nodes (and constants)."""
        return replace(self, nodes=nodes, constants=self.constants if constants is None else constants)

    def types(self) -> Mapping[str, TensorType]:
        """Type of every value."""
        return self._types

    @cached_property
    def _types(self) -> Mapping[str, TensorType]:
        found = dict(self.inputs)
        for name, array in self.constants.items():
            found[name] = TensorType(
                tuple(Index.of(int(d)) for d in array.shape), DType.from_numpy(array.dtype)
            )
        for node in self.nodes:
            found[node.output] = node.compute.type
        return found

    def producers(self) -> dict[str, Node]:
        """The node that computes each value."""
        return {node.output: node for node in self.nodes}

    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read each value, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for value in node.compute.reads:
                found.setdefault(value, []).append(node)
        return {value: tuple(nodes) for value, nodes in found.items()}


def product_factors(body: Expr) -> tuple[Load | Guard, ...] | None:
    """The factors, where the body is a product of two or more loads, else None.

    Each may be guarded with a literal, and cast to the type of the product and there moved by a whole number, which the
    answer leaves out.
    """
    factors = _factors(body)
    return factors if factors is not None and len(factors) >= 2 else None


def _factors(expr: Expr) -> tuple[Load | Guard, ...] | None:
    match expr:
        case Load():
            return (expr,)
        case Guard(_, Load(), Const()):
            return (expr,)
        case Cast(value, _) | Apply("add", (Cast() as value, Const(_, DType.I32))):
            inner = _factors(value)
            return inner if inner is not None and len(inner) == 1 else None
        case Apply("mul", args):
            parts = [_factors(arg) for arg in args]
            known = [part for part in parts if part is not None]
            return tuple(f for part in known for f in part) if len(known) == len(parts) else None
        case _:
            return None


def _only_moves(body: Expr) -> bool:
    """Whether there are only loads and guards, besides what stands outside of the guards."""
    stack, literals, outsides = [body], set[Const](), set[Const]()
    while stack:
        match stack.pop():
            case Guard(_, inside, outside):
                stack.append(inside)
                if isinstance(outside, Const):
                    outsides.add(outside)
                elif isinstance(outside, Load | Guard):
                    stack.append(outside)
                else:
                    stack.extend(children(outside))
            case Const() as literal:
                literals.add(literal)
            case Load():
                pass
            case _:
                return False
    return literals <= outsides
