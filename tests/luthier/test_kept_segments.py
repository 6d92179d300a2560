"""Which segments of a model with changing sizes are kept, where there is no room for all."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.errors import UnsupportedModel
from compiler.frontend.segment import checked_model
from compiler.graph.ir import Graph
from compiler.runtime.module import Module
from luthier.dynamic import DynamicModule
from tests.luthier.test_dynamic import compiled, module, reshaping, tensor


@pytest.mark.parametrize("patience_s", [0.0, 1e9])
def test_what_took_longest_to_compile_is_kept_longest(patience_s: float) -> None:
    """The first segment is used once in a run, and more others than are kept."""
    nodes = [
        *(helper.make_node("MatMul", [f"a{i}", "w"], [f"a{i + 1}"]) for i in range(12)),
        helper.make_node("Add", ["a12", "f"], ["b"]),
        helper.make_node("NonZero", ["b"], ["z"]),
        helper.make_node("Cast", ["z"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["c"], ["y"]),
    ]
    inputs = [tensor("a0", [8, 8]), tensor("f", [8, 8])]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [8, 8], np.zeros(64, np.float32))
    graph = helper.make_graph(nodes, "g", inputs, [tensor("y", None)], [weights])
    made: list[int] = []

    def make(graph: Graph) -> Module:
        made.append(len(graph.nodes))
        return compiled(graph)

    def for_all(*_: object) -> Module:
        message = "each size has code of its own"
        raise UnsupportedModel(message)

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    found = DynamicModule(checked_model(model), make, for_all, 4, patience_s=patience_s)
    for count in [*range(3, 12)] * 3:
        f = (np.arange(64) < count).astype(np.float32).reshape(8, 8)
        y = found.run({"a0": np.ones((8, 8), np.float32), "f": f})["y"]
        np.testing.assert_allclose(y**2, f.nonzero(), atol=1e-5)
        assert found.segments <= 4
    assert made.count(max(made)) == 1
    assert len(made) <= 4 or not patience_s
    assert found.evaluated > 0
    found.close()


def test_what_is_kept_is_bounded_and_said(caplog: pytest.LogCaptureFixture) -> None:
    found = module(reshaping(), most=2)
    x = np.ones((2, 6), np.float32)
    with caplog.at_level(logging.WARNING, "luthier.dynamic"):
        for rows in (1, 2, 3, 4, 1):
            got = found.run({"x": x, "shape": np.array([rows, -1], np.int64)})["y"]
            assert got.shape == (rows, 12 // rows)
    assert found.segments == 2
    assert len(caplog.records) == 1
    assert "more than 2 different sizes" in caplog.text


def test_what_is_new_is_kept() -> None:
    """Where there is room for one segment, each run has its own."""
    found = module(reshaping(), most=1)
    x = np.ones((2, 6), np.float32)
    for rows in (2, 3, 4, 6, 2, 3):
        assert found.run({"x": x, "shape": np.array([rows, -1], np.int64)})["y"].shape == (rows, 12 // rows)
        assert found.segments == 1
    found.close()
