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
    """Every output, floats computed in `dtype` and whole numbers in their own types.

    Values are dropped after their last use.

    Args:
        graph: static extents only.
        inputs: an array for each input of the graph, of its shape.
        dtype: type of the arithmetic with floats, and of float outputs.
    """
    values: dict[str, Array] = {**graph.constants, **inputs}
    last = {value: node.output for node in graph.nodes for value in node.compute.reads}
    for node in graph.nodes:
        values[node.output] = evaluate_compute(node.compute, values, dtype)
        for value in node.compute.reads:
            if last[value] == node.output and value not in graph.outputs:
                del values[value]
    found = {name: np.asarray(values[name]) for name in graph.outputs}
    return {name: a if a.dtype.kind in "iub" else a.astype(dtype) for name, a in found.items()}
