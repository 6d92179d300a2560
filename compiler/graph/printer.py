"""Text of a Graph, stable across platforms: for people, dumps and golden tests. Values of constants are left out."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.scalar import expr_text
from compiler.symbol import Axis


def graph_text(graph: Graph) -> str:
    """One line per input and constant, two per node, one per output."""
    types = graph.types()
    lines = [f"graph {graph.name}"]
    lines += [f"symbol {s.name} in {s.low}..{s.high}" for s in graph.symbols]
    lines += [f"input  {name}: {type_text(kind)}" for name, kind in graph.inputs.items()]
    lines += [f"const  {name}: {type_text(types[name])}" for name in graph.constants]
    for node in graph.nodes:
        lines += [_heading(node), f"    {compute_text(node.compute, node.output)}"]
    lines += [f"output {name}" for name in graph.outputs]
    return "\n".join(lines) + "\n"


def type_text(kind: TensorType) -> str:
    """Such as `f32[1, 64, 56, 56]`."""
    return f"{kind.dtype.value}[{', '.join(map(str, kind.shape))}]"


def compute_text(compute: Compute, output: str) -> str:
    """Such as `y[a0, a1] = sum r0<64 of mul(x[a0, r0], w[r0, a1])`."""
    left = f"{output}[{', '.join(a.name for a in compute.axes)}]"
    right = expr_text(compute.body)
    if compute.reducer is None:
        return f"{left} = {right}"
    return f"{left} = {compute.reducer} {_axes_text(compute.reduce_axes)} of {right}"


def _heading(node: Node) -> str:
    label = f' "{node.name}"' if node.name else ""
    return f"node   {node.output}: {type_text(node.compute.type)} {node.compute.kind.value}{label}"


def _axes_text(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{a.name}<{a.extent}" for a in axes)
