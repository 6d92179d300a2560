"""Models that write attention out with plain operators."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.pipeline import load_graph, lower
from compiler.workload.ir import Workload


def attention_model(
    heads: int, rows: int, columns: int, depth: int, *, masked: bool = True, outputs: tuple[str, ...] = ("y",)
) -> onnx.ModelProto:
    """softmax(q k^T / 2 + mask) v per head; q, k and v are stored as [1, length, heads * depth]."""

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(helper.make_node("Reshape", [name, "heads"], [f"{name}_split"]))
        nodes.append(helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=order))
    nodes.append(helper.make_node("MatMul", ["q_heads", "k_heads"], ["products"]))
    scores = "products"
    if masked:
        nodes.append(helper.make_node("Mul", ["products", "half"], ["scaled"]))
        nodes.append(helper.make_node("Add", ["scaled", "mask"], ["scores"]))
        scores = "scores"
    nodes.append(helper.make_node("Softmax", [scores], ["weights"], axis=-1))
    nodes.append(helper.make_node("MatMul", ["weights", "v_heads"], ["y"]))
    width = heads * depth
    inputs = [value("q", 1, rows, width), value("k", 1, columns, width), value("v", 1, columns, width)]
    shapes = {"y": (1, heads, rows, depth), "weights": (1, heads, rows, columns)}
    constants = [
        numpy_helper.from_array(np.array([1, -1, heads, depth], np.int64), "heads"),
        numpy_helper.from_array(np.array(0.5, np.float32), "half"),
    ]
    graph = helper.make_graph(
        nodes,
        "attention",
        [*inputs, *([value("mask", 1, 1, 1, columns)] if masked else [])],
        [value(name, *shapes[name]) for name in outputs],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def attention(heads: int, rows: int, columns: int, depth: int, *, masked: bool = True) -> Workload:
    """The Workload that it becomes."""
    program = lower(load_graph(attention_model(heads, rows, columns, depth, masked=masked)))
    (subgraph,) = program.subgraphs
    return subgraph.workload


def image_attention(places: int, depth: int, channels: int) -> Workload:
    """v softmax(q^T k)^T over the places of an image, whose q, k [depth, places] and v [channels, places] are maps."""

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("Transpose", ["q"], ["queries"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["queries", "k"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("Transpose", ["weights"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["v", "turned"], ["y"]),
    ]
    inputs = [value("q", 1, depth, places), value("k", 1, depth, places), value("v", 1, channels, places)]
    graph = helper.make_graph(nodes, "image_attention", inputs, [value("y", 1, channels, places)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (subgraph,) = lower(load_graph(model)).subgraphs
    return subgraph.workload
