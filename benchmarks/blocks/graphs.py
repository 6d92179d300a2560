"""Layers of graph networks: what edges carry is gathered at their sources, and combined where they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from benchmarks.blocks.network import Network
from benchmarks.blocks.vision import Make

_HEADS = 8
_STEPS = 65536.0
"""In which numbers are told apart, a power of two."""


def convolved(nodes: int, edges: int, width: int) -> onnx.ModelProto:
    """A graph convolution: the sum over the edges that end at a node."""
    n = Network({"x": (nodes, width), "from": (edges,), "to": (edges,)})
    h = n.linear("x", width, width, bias=False)
    messages = n.op("Gather", h, _places(n, "from", nodes))
    added = _combined(n, messages, _places(n, "to", nodes), (nodes, width), edges, "add")
    return n.model(n.op("Relu", n.op("Add", added, n.weights(width))))


def attended(nodes: int, edges: int, width: int) -> onnx.ModelProto:
    """Graph attention: shares of the edges that end at a node, by their largest and their sum, of eight heads."""
    n = Network({"x": (nodes, width), "from": (edges,), "to": (edges,)})
    h = n.linear("x", width, width, bias=False)
    source, target = _places(n, "from", nodes), _places(n, "to", nodes)
    scores = n.linear(h, width, _HEADS, bias=False)
    score = n.op(
        "LeakyRelu", n.op("Add", n.op("Gather", scores, source), n.op("Gather", scores, target)), alpha=0.2
    )
    largest = _combined(n, score, target, (nodes, _HEADS), edges, "max")
    power = n.op("Exp", n.op("Sub", score, n.op("Gather", largest, target)))
    total = _combined(n, power, target, (nodes, _HEADS), edges, "add")
    share = n.op("Div", power, n.op("Gather", total, target))
    parts = n.reshape(n.op("Gather", h, source), edges, _HEADS, width // _HEADS)
    messages = n.reshape(n.op("Mul", parts, n.op("Unsqueeze", share, n.integers(-1))), edges, width)
    return n.model(_combined(n, messages, target, (nodes, width), edges, "add"))


def largest_at_each(nodes: int, edges: int, width: int) -> onnx.ModelProto:
    """Of the edges of a node the largest of each channel, from scores of the edges' own."""
    n = Network({"x": (edges, width), "to": (edges,)})
    return n.model(_combined(n, "x", _places(n, "to", nodes), (nodes, width), edges, "max"))


def written(rows: int, width: int, count: int) -> onnx.ModelProto:
    """Some rows of a table replaced."""
    n = Network({"x": (rows, width), "u": (count, width), "to": (count,)})
    places = n.op("Unsqueeze", _places(n, "to", rows), n.integers(-1))
    return n.model(n.op("ScatterND", "x", places, "u"))


def _places(n: Network, value: str, count: int) -> str:
    """Places among so many, that nobody knows before a run; exact, so that all precisions have the same."""
    whole = n.op("Cast", n.op("Floor", n.op("Mul", value, n.number(_STEPS))), to=onnx.TensorProto.INT64)
    return n.op("Mod", whole, n.integers(count))


def _combined(
    n: Network, messages: str, places: str, shape: tuple[int, int], edges: int, reduction: str
) -> str:
    spread = n.op("Expand", n.op("Unsqueeze", places, n.integers(-1)), n.integers(edges, shape[1]))
    start = n.constant(np.full(shape, -1e30 if reduction == "max" else 0.0, np.float32))
    return n.op("ScatterElements", start, spread, messages, axis=0, reduction=reduction)


BLOCKS: Mapping[Make, Sequence[tuple[object, ...]]] = {
    convolved: ((2708, 10556, 64), (20000, 90000, 32)),
    attended: ((2708, 10556, 64),),
    largest_at_each: ((1000, 10000, 64),),
    written: ((4096, 64, 512),),
}
"""The first sizes are those of the citation graph Cora."""
