"""Evaluated: a segment for values that may never come again, evaluated by NumPy instead of compiled.

Code for a few kernels takes far longer than they run. It is made for values that come back, and for all
sizes of a segment once evaluating it has taken so long that code would have paid for itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import prod

import numpy as np

from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Compute, Graph
from compiler.scalar import walk
from luthier.values import Array
from luthier.varying import Seen

_MOST_OPERATIONS = 1 << 22
"""Of a segment that is evaluated: NumPy takes about as long for them as the compiler for a kernel."""


class Evaluated:
    """A segment's graph, of static sizes. Floats are computed in float64."""

    def __init__(self, graph: Graph, seen: Seen) -> None:
        """`graph`: one that `is_cheap`; `seen`: is told how long it takes."""
        self.graph, self.used, self.seen = graph, False, seen
        self._types = graph.types()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.graph.inputs)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Values by input name to values by output name, each of its own type."""
        self.used = True
        start_s = time.perf_counter()
        found = evaluate_graph(self.graph, inputs)
        self.seen.evaluated_s += time.perf_counter() - start_s
        with np.errstate(over="ignore"):  # what is too large becomes infinite, as in compiled code
            return {name: array.astype(self._types[name].dtype.numpy) for name, array in found.items()}


def is_cheap(graph: Graph) -> bool:
    """Whether evaluating a graph takes no longer than compiling it."""
    return sum(_operations(node.compute) for node in graph.nodes) <= _MOST_OPERATIONS


def _operations(compute: Compute) -> int:
    elements = prod(a.size for a in (*compute.axes, *compute.reduce_axes))
    return elements * sum(1 for _ in walk(compute.body))
