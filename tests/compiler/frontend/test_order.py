"""Nodes of a model that are not in order are put in order."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import luthier
from compiler.frontend.order import in_order
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import load_graph
from tests.onnx_runtime import expected_outputs


def chained(count: int) -> onnx.ModelProto:
    """Node n reads what two nodes before it compute."""
    names = ["x", "x"]
    nodes = []
    for place in range(count):
        name = f"v{place}"
        nodes.append(helper.make_node("Sub", names[-2:], [name], name=name))
        names.append(name)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "chained",
        [value("x", TensorProto.FLOAT, [3])],
        [value(names[-1], TensorProto.FLOAT, [3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def shuffled(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    found = onnx.ModelProto()
    found.CopyFrom(model)
    nodes = list(model.graph.node)
    random.Random(seed).shuffle(nodes)
    found.graph.ClearField("node")
    found.graph.node.extend(nodes)
    return found


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 12), seed=st.integers(0, 1 << 30))
def test_every_node_is_behind_those_that_it_reads(count: int, seed: int) -> None:
    model = shuffled(chained(count), seed)
    seen = {"x"}
    for node in in_order(model).graph.node:
        assert set(node.input) <= seen
        seen |= set(node.output)
    assert len(seen) == count + 1


def test_what_is_in_order_is_not_touched() -> None:
    model = chained(4)
    assert in_order(model) is model


def test_a_model_in_any_order_is_the_same_model() -> None:
    model = chained(9)
    turned = shuffled(model, 1)
    kept = turned.SerializeToString()
    inputs = {"x": np.array([1.0, -2.5, 3.0], np.float32)}
    (got,) = evaluate_graph(load_graph(turned), inputs).values()
    (wanted,) = expected_outputs(model, inputs).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert turned.SerializeToString() == kept  # the caller's own is not changed


@pytest.mark.parametrize("form", ["object", "bytes"])
def test_a_branch_reads_what_a_later_node_computes(form: str) -> None:
    value = helper.make_tensor_value_info
    y = value("y", TensorProto.FLOAT, [2])
    branches = [
        helper.make_graph([helper.make_node(op, ["t"], ["y"], name=op)], op, [], [y]) for op in ("Neg", "Abs")
    ]
    choose = helper.make_node(
        "If", ["c"], ["z"], name="choose", then_branch=branches[0], else_branch=branches[1]
    )
    late = helper.make_node("Relu", ["x"], ["t"], name="late")
    graph = helper.make_graph(
        [choose, late],
        "branch",
        [value("x", TensorProto.FLOAT, [2]), value("c", TensorProto.BOOL, [])],
        [value("z", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    assert [node.name for node in in_order(model).graph.node] == ["late", "choose"]
    module = luthier.compile(model if form == "object" else model.SerializeToString(), threads=1)
    inputs = {"x": np.array([2.0, -1.0], np.float32), "c": np.array(True)}
    np.testing.assert_array_equal(module.run(inputs)["z"], [-2.0, 0.0])
