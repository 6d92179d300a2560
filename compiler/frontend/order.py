"""The order of nodes: ONNX wants each behind those that it reads, and some tools that change models do not keep it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import onnx


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every node behind those that it reads, others in the order that they had.

    The same object where nothing has to move, and where no order helps: compiler.frontend.check says what is wrong.
    """
    nodes = model.graph.node
    producer = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    before = [{producer[name] for name in read_names(node) if name in producer} for node in nodes]
    if all(max(places, default=-1) < place for place, places in enumerate(before)):
        return model
    after: list[list[int]] = [[] for _ in nodes]
    for place, places in enumerate(before):
        for other in places:
            after[other].append(place)
    missing = [len(places) for places in before]
    ready = [place for place, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(place := heapq.heappop(ready))
        for other in after[place]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, other)
    if len(order) < len(nodes):
        return model
    found = onnx.ModelProto()
    found.CopyFrom(model)
    found.graph.ClearField("node")
    found.graph.node.extend(nodes[place] for place in order)
    return found


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, also inside the graphs that it has, where they may be names of its own."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            for inner in graph.node:
                yield from read_names(inner)
            yield from (output.name for output in graph.output)
