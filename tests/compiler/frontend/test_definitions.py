"""Operators by ONNX's own definitions, against the ONNX reference implementation."""

import numpy as np
import pytest
from onnx import helper

from compiler.errors import UnsupportedOperator
from compiler.frontend import import_model
from luthier.backend import prepare
from tests.compiler.frontend.cases import Case, case, ints, run_case, run_one, weights
from tests.compiler.frontend.models import model, value

DEFINED = [
    case("SwiGLU", (2, 3), (2, 3), opset=28),
    case("SwiGLU", (2, 3), (2, 3), opset=28, alpha=0.5),
    case("RotaryEmbedding", (2, 3, 4, 8), weights(2, 4, 4), weights(2, 4, 4), opset=23, interleaved=1),
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
    body = helper.make_graph(
        [helper.make_node("MaxRoiPool", ["a", "a"], ["b"], pooled_shape=[1, 1])],
        "body",
        [value("a", None)],
        [value("b", None)],
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["all"]),
        helper.make_node("SequenceMap", ["all"], ["found"], name="map", body=body),
        helper.make_node("ConcatFromSequence", ["found"], ["y"], axis=0, new_axis=1),
    ]
    with pytest.raises(UnsupportedOperator, match="map/MaxRoiPool"):
        import_model(model(nodes, {"x": [2, 2]}))


@pytest.mark.parametrize("masked", ["nothing", "a row", "everything"])
def test_attention_with_a_mask_for_each_head(masked: str) -> None:
    """What is masked everywhere is 0. The mask's own maxima run along the columns of the scores, in one Subgraph."""
    q, k, v = weights(2, 3, 4, 8), weights(2, 3, 6, 8), weights(2, 3, 6, 8)
    mask = weights(2, 3, 4, 6)
    mask[{"nothing": (slice(0),), "a row": (1, 2, 0), "everything": ()}[masked]] = -np.inf
    node = helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])
    given = {"q": q, "k": k, "v": v, "mask": mask}
    proto = model([node], {name: list(a.shape) for name, a in given.items()}, opset=23)
    (actual,) = prepare(proto).run(list(given.values()))
    scores = np.einsum("bhqd,bhkd->bhqk", q, k).astype(np.float64) / np.sqrt(8) + mask
    power = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    total = power.sum(-1, keepdims=True)
    np.testing.assert_allclose(actual, power / np.where(total == 0, 1, total) @ v, rtol=1e-5, atol=1e-6)
