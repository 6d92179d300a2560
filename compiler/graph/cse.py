"""Common subexpression elimination: equal computes are computed once, equal constants are kept once.

s[i] = relu(x[i]); t[j] = relu(x[j]); y = s + t   →   s[a0] = relu(x[a0]); y = s + s
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.graph.ir import Compute, Graph, Node
from compiler.graph.rename import with_canonical_axes, with_reads_renamed

_PROBE = 16
"""Elements that are compared first, so that different constants are told apart without reading all of them."""


@dataclass(frozen=True, slots=True)
class EliminateCommonSubexpressions:
    """Computes are compared up to the names of their axes. Outputs of the graph stay computed."""

    name: str = "cse"

    def run(self, graph: Graph) -> Graph:
        """Let readers of a repeated value read its first copy."""
        names = _repeated_constants(graph.constants)
        constants = {n: a for n, a in graph.constants.items() if n not in names}
        first: dict[Compute, str] = {}
        kept: list[Node] = []
        for old in graph.nodes:
            node = with_reads_renamed(old, names)
            value = first.setdefault(with_canonical_axes(node.compute), node.output)
            if value != node.output and node.output not in graph.outputs:
                names[node.output] = value
                continue
            kept.append(node)
        return graph.with_nodes(tuple(kept), constants) if names else graph


def _repeated_constants(constants: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, str]:
    names: dict[str, str] = {}
    groups: dict[object, list[str]] = {}
    for name, array in constants.items():
        key = (array.shape, array.dtype.str, array.reshape(-1)[:_PROBE].tobytes())
        same = next((n for n in groups.get(key, ()) if _same_bytes(constants[n], array)), None)
        if same is None:
            groups.setdefault(key, []).append(name)
        else:
            names[name] = same
    return names


def _same_bytes(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> bool:
    """Bits, not values: zeros of different sign differ, equal NaNs do not."""
    return bool(np.array_equal(_bits(a), _bits(b)))


def _bits(array: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
