"""Nodes that draw random numbers get the seed of a run: an input of the model, and of each of them its last.

Iterations of a loop would all draw the same: in their bodies such nodes get none, and their lowering refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

from compiler.errors import ModelError
from compiler.seed import SEED

DRAWING = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
"""Operators of the standard domain whose result is drawn."""
_LOOPS = frozenset(("Loop", "Scan"))


def with_seed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its seed; itself where it draws nothing, or has a seed written into each node.

    Raises ModelError where a value of the model has the seed's name.
    """
    if not any(map(_needs_seed, _drawing(model.graph))):
        return model
    seeded = onnx.ModelProto()
    seeded.CopyFrom(model)
    graph = seeded.graph
    taken = {*(i.name for i in graph.input), *(t.name for t in graph.initializer)}
    if SEED in taken.union(name for node in graph.node for name in node.output):
        msg = f"the model has a value {SEED!r}, which is the name of the seed it draws from; rename it"
        raise ModelError(msg)
    graph.input.append(helper.make_tensor_value_info(SEED, TensorProto.INT64, []))
    for node in filter(_needs_seed, _drawing(graph)):
        node.input.append(SEED)
    return seeded


def draws(model: onnx.ModelProto) -> bool:
    """Whether a model draws random numbers outside of loops, with a seed of its own or not."""
    return next(_drawing(model.graph), None) is not None


def _drawing(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    """Nodes that draw, of the graph and of what it may choose to run."""
    for node in graph.node:
        standard = node.domain in ("", "ai.onnx")
        if standard and node.op_type in DRAWING:
            yield node
        if not (standard and node.op_type in _LOOPS):
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    yield from _drawing(attribute.g)


def _needs_seed(node: NodeProto) -> bool:
    return all(a.name != "seed" for a in node.attribute)
