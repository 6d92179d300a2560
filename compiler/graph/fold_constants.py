"""Constant folding: nodes that read only constants become constants, and constants of one element become literals.

const g, v; s = div(g, sqrt(v)); y = mul(x, s)   →   const s; y = mul(x, s)
const k: f32[]; y = mul(x, k[])                  →   y = mul(x, 0.5)
k[a0, a1] = 0.5; y = mul(x, k[a0, a1])           →   y = mul(x, 0.5)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import DType
from compiler.evaluate import evaluate_compute
from compiler.graph.ir import Compute, Graph, Node
from compiler.scalar import Const, Expr, Load, rewrite

Array = npt.NDArray[Any]

_GROWTH_ELEMENTS = 1 << 16
"""A result of at most so many elements may be larger than what it is computed from."""
_POINTS = 1 << 32
"""Most iterations that are worth doing at compile time."""


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Computed in float64, then rounded once to the type of the value. Outputs and open values stay computed."""

    name: str = "fold-constants"

    def run(self, graph: Graph) -> Graph:
        """Fold in topological order, so that chains of constant nodes go at once."""
        constants = dict(graph.constants)
        literals: dict[str, Const] = {}
        kept: list[Node] = []
        for old in graph.nodes:
            node = _with_literals(old, constants, literals)
            if isinstance(node.compute.body, Const) and node.compute.reducer is None:
                literals[node.output] = node.compute.body
            stays = node.output in graph.outputs or node.output in graph.open_values
            folded = None if stays else fold(node.compute, constants)
            if folded is None:
                kept.append(node)
            else:
                constants[node.output] = folded
        if all(a is b for a, b in zip(kept, graph.nodes, strict=False)) and len(kept) == len(graph.nodes):
            return graph
        return graph.with_nodes(tuple(kept), constants)


def fold(compute: Compute, constants: Mapping[str, Array], most: int = _GROWTH_ELEMENTS) -> Array | None:
    """The read-only value, or None where it reads anything else or is too large to be worth it.

    `most`: elements up to which it may be larger than what it is computed from.

    Integers are computed in their own types, floats in float64; numbers that a node rounds to integers in float32, as
    the machine would, so that ties fall to the same side.
    """
    if any(value not in constants for value in compute.reads) or not compute.is_static:
        return None
    sizes = [a.size for a in compute.axes]
    available = sum(constants[value].size for value in compute.reads)
    points = math.prod(compute.ranges.values())
    if math.prod(sizes) > max(most, available) or points > _POINTS:
        return None
    exact = compute.dtype.is_float or any(constants[value].dtype == np.float64 for value in compute.reads)
    precision = np.float64 if exact else np.float32
    with np.errstate(all="ignore"):
        result: Array = evaluate_compute(compute, constants, precision).astype(compute.dtype.numpy)
    result.setflags(write=False)
    return result


def _with_literals(node: Node, constants: Mapping[str, Array], literals: Mapping[str, Const]) -> Node:
    """`literals`: values all of whose elements are one number."""

    def rule(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load):
            return None
        if expr.buffer in literals:
            return literals[expr.buffer]
        array = constants.get(expr.buffer)
        if array is None or array.size != 1:
            return None
        return Const(array.item(), DType.from_numpy(array.dtype))

    # A product needs both of its loads to be a contraction.
    if node.compute.reducer is not None:
        return node
    body = rewrite(node.compute.body, rule)
    return node if body is node.compute.body else replace(node, compute=replace(node.compute, body=body))
