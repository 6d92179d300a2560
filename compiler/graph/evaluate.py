"""Evaluation of a whole Graph with NumPy: the reference for what a Module must compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.evaluate import evaluate_compute
from compiler.graph.ir import Graph

Array = npt.NDArray[Any]


def evaluate_graph(
    graph: Graph, inputs: Mapping[str, Array], dtype: npt.DTypeLike = np.float64
) -> dict[str, Array]:
    """Every output, computed in `dtype`. Values are dropped after their last use.

    Args:
        graph: static extents only.
        inputs: an array for each input of the graph, of its shape.
        dtype: type of the arithmetic and of the outputs.
    """
    values: dict[str, Array] = {**graph.constants, **inputs}
    last = {value: node.output for node in graph.nodes for value in node.compute.reads}
    for node in graph.nodes:
        values[node.output] = evaluate_compute(node.compute, values, dtype)
        for value in node.compute.reads:
            if last[value] == node.output and value not in graph.outputs:
                del values[value]
    return {name: np.asarray(values[name], dtype) for name in graph.outputs}
