"""Evaluated: a segment for values that may never come again, evaluated by NumPy instead of compiled.

Code for a few kernels takes a thousand times as long as they run. Where sizes differ from call to call and there is no
form for all of them (the mask of each object that is found has the size of its box), it is made for those that come
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Compute, Graph
from compiler.scalar import walk
from luthier.values import Array

_MOST_OPERATIONS = 1 << 22
"""Of a segment that is evaluated: NumPy takes about as long for them as the compiler for a kernel."""


class Evaluated:
    """A segment's graph, of static sizes. Floats are computed in float64."""

    def __init__(self, graph: Graph) -> None:
        """`graph`: one that `is_cheap`."""
        self.graph, self.used = graph, False
        self._types = graph.types()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.graph.inputs)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Values by input name to values by output name, each of its own type."""
        self.used = True
        found = evaluate_graph(self.graph, inputs)
        return {name: array.astype(self._types[name].dtype.numpy) for name, array in found.items()}


def is_cheap(graph: Graph) -> bool:
    """Whether evaluating a graph takes no longer than compiling it."""
    return sum(_operations(node.compute) for node in graph.nodes) <= _MOST_OPERATIONS


def _operations(compute: Compute) -> int:
    elements = prod(a.size for a in (*compute.axes, *compute.reduce_axes))
    return elements * sum(1 for _ in walk(compute.body))
