"""Nodes that draw random numbers get the seed of a run: an input of the model, and of each of them its last.

Iterations of a loop, and elements of a sequence, would all draw the same: models with such nodes in bodies are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import AttributeProto, NodeProto, TensorProto, helper

from compiler.errors import ModelError, UnsupportedModel
from compiler.seed import SEED

DRAWING = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
"""Operators of the standard domain whose result is drawn."""


def with_seed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its seed; itself where it draws nothing, or has a seed written into each node.

    Raises:
        ModelError: a value of the model has the seed's name.
        UnsupportedModel: the body of what repeats draws, with a seed of its own or not.
    """
    _refuse_repeated(model.graph)
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
    """Whether a model draws random numbers, with a seed of its own or not."""
    return next(_drawing(model.graph), None) is not None


def _drawing(graph: onnx.GraphProto) -> Iterator[NodeProto]:
    """Nodes that draw, of the graph and of what it may choose to run."""
    for node in graph.node:
        if _draws(node):
            yield node
        if node.op_type == "If":
            for body in _bodies(node):
                yield from _drawing(body)


def _refuse_repeated(graph: onnx.GraphProto, inside: str = "") -> None:
    """`inside`: the operator that repeats the graph, if one does."""
    for node in graph.node:
        if inside and _draws(node):
            msg = (
                f"node {node.name!r} ({node.op_type}) draws random numbers in the body of a {inside}, where they are "
                "unsupported: each time it would draw the same; draw them outside and pass them in"
            )
            raise UnsupportedModel(msg)
        for body in _bodies(node):
            _refuse_repeated(body, inside if node.op_type == "If" else node.op_type)


def _draws(node: NodeProto) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in DRAWING


def _bodies(node: NodeProto) -> list[onnx.GraphProto]:
    return [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]


def _needs_seed(node: NodeProto) -> bool:
    return all(a.name != "seed" for a in node.attribute)
