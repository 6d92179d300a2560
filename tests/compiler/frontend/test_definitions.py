"""Operators by ONNX's own definitions, against the ONNX reference implementation."""

import numpy as np
import pytest
from onnx import helper

from compiler.errors import UnsupportedOperator
from compiler.frontend import import_model
from tests.compiler.frontend.cases import Case, case, ints, run_case, run_one, weights
from tests.compiler.frontend.models import model

DEFINED = [
    case("SwiGLU", (2, 3), (2, 3), opset=28),
    case("SwiGLU", (2, 3), (2, 3), opset=28, alpha=0.5),
    case("SoftmaxCrossEntropyLoss", (3, 5), ints(1, 0, 4)),
    case("SoftmaxCrossEntropyLoss", (3, 5), ints(1, 0, 4), weights(5), reduction="sum"),
    case("NegativeLogLikelihoodLoss", (3, 5, 2), np.array([[0, 1], [4, 2], [3, 3]]), reduction="none"),
]


@pytest.mark.parametrize("example", DEFINED, ids=str)
def test_definition(example: Case) -> None:
    run_case(example)


def test_values_of_a_definition_do_not_meet_those_of_the_model() -> None:
    """`SwishGate` is what the definition of SwiGLU calls its gate."""
    nodes = [
        helper.make_node("Relu", ["x"], ["y.SwishGate"]),
        helper.make_node("SwiGLU", ["x", "y.SwishGate"], ["y"]),
    ]
    x = weights(2, 3)
    proto = model(nodes, opset=28)
    actual = run_one(helper.make_node("SwiGLU", ["x", "b"], ["y"]), x, {"b": np.maximum(x, 0)}, 28)
    graph = import_model(proto)
    assert len({node.output for node in graph.nodes}) == len(graph.nodes)
    np.testing.assert_allclose(actual, x / (1 + np.exp(-x)) * np.maximum(x, 0), rtol=1e-5)


def test_what_is_unsupported_in_a_definition_is_named_with_its_place() -> None:
    node = helper.make_node("Bernoulli", ["x"], ["y"], name="draw")
    with pytest.raises(UnsupportedOperator, match="draw/"):
        import_model(model([node], {"x": [2]}))
