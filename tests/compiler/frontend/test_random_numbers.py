"""Random numbers: their moments, what they depend on and what they do not, and how a model gets its seed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.errors import ModelError, UnsupportedModel, UnsupportedOperator
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.seed import SEED
from tests.compiler.frontend.models import model

SHAPE = (40, 5000)
WITHIN = 5
"""Standard errors."""


def drawn(
    *nodes: onnx.NodeProto,
    seed: int | None = 1,
    shape: Sequence[int] = SHAPE,
    outputs: Sequence[str] = ("y",),
) -> list[np.ndarray]:
    graph = import_model(model(nodes, {"x": shape}, outputs=outputs))
    inputs = {"x": np.full(shape, 0.25, np.float32)}
    assert (SEED in graph.inputs) is (seed is not None)
    if seed is not None:
        inputs[SEED] = np.asarray(seed, np.int64)
    found = evaluate_graph(graph, inputs)
    return [found[name].astype(graph.types()[name].dtype.numpy) for name in outputs]


def node(op: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    inputs = ["x"] if op.endswith("Like") or op in ("Bernoulli", "Multinomial") else []
    return helper.make_node(op, inputs, [output], **attributes)


def check_moments(numbers: np.ndarray, mean: float, deviation: float) -> None:
    error = deviation / math.sqrt(numbers.size)
    assert numbers.mean(dtype=np.float64) == pytest.approx(mean, abs=WITHIN * error)
    assert numbers.std(dtype=np.float64) == pytest.approx(deviation, rel=0.02)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
@pytest.mark.parametrize("fixed", [True, False])
def test_normal_numbers(kind: int, fixed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    given = {"shape": SHAPE} if fixed else {}
    op = "RandomNormal" if fixed else "RandomNormalLike"
    (numbers,) = drawn(node(op, mean=2.0, scale=0.5, dtype=kind, **given))
    assert numbers.dtype == helper.tensor_dtype_to_np_dtype(kind)
    assert numbers.shape == SHAPE
    check_moments(numbers, 2, 0.5)
    standard = (numbers.astype(np.float64) - 2) / 0.5
    check_moments(standard**2, 1, math.sqrt(2))
    for bound, share in ((-1, 0.158655), (0, 0.5), (2, 0.977250)):
        assert (standard < bound).mean() == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_uniform_numbers(kind: int) -> None:
    (numbers,) = drawn(node("RandomUniformLike", low=-1.0, high=3.0, dtype=kind))
    check_moments(numbers, 1, 4 / math.sqrt(12))
    assert numbers.min() >= -1
    assert numbers.max() < 3
    counts = np.histogram(numbers, 64, (-1, 3))[0]
    expected = numbers.size / 64
    assert ((counts - expected) ** 2 / expected).sum() < 120, "chi squared of 63 degrees of freedom"


def test_doubles_have_all_their_bits() -> None:
    (numbers,) = drawn(node("RandomUniformLike", dtype=TensorProto.DOUBLE))
    assert (numbers * 2**53 % 2 == 1).mean() == pytest.approx(0.5, abs=0.01)
    assert len(np.unique(numbers)) == numbers.size


def test_neighbours_nodes_and_seeds_are_independent() -> None:
    nodes = [node("RandomNormalLike", "y"), node("RandomNormalLike", "z"), node("RandomUniformLike", "w")]
    first = drawn(*nodes, seed=1, outputs=("y", "z", "w"))
    others = [drawn(*nodes, seed=seed, outputs=("y", "z", "w"))[0] for seed in (2, 3, 1 << 32, 1 << 62, -1)]
    flat = [a.reshape(-1) for a in (*first, *others)]
    pairs = [(flat[0], other) for other in flat[1:]]
    pairs += [(flat[0][:-step], flat[0][step:]) for step in (1, 2, 4, 8, 16, SHAPE[1])]
    for a, b in pairs:
        assert abs(np.corrcoef(a, b)[0, 1]) < WITHIN / math.sqrt(a.size)
    assert np.array_equal(first[0], drawn(nodes[0], seed=1)[0]), "the same seed, node and place"


def test_a_place_of_a_smaller_image_has_the_same_number() -> None:
    large, small = (drawn(node("RandomNormalLike"), shape=shape)[0] for shape in ((6, 50), (4, 30)))
    assert np.array_equal(large[:4, :30], small)


def test_a_seed_in_the_node_is_the_one_that_counts() -> None:
    first, again, other = (
        drawn(node("RandomUniformLike", seed=seed), seed=None)[0] for seed in (1.0, 1.0, 2.0)
    )
    assert np.array_equal(first, again)
    assert abs(np.corrcoef(first.reshape(-1), other.reshape(-1))[0, 1]) < WITHIN / math.sqrt(first.size)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64])
def test_bernoulli(kind: int) -> None:
    (hits,) = drawn(node("Bernoulli", dtype=kind))
    assert hits.dtype == helper.tensor_dtype_to_np_dtype(kind)
    check_moments(hits.astype(np.float64), 0.25, math.sqrt(0.25 * 0.75))


def test_multinomial() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [2, 2, 0]], np.float32)  # of the second row the sum is not 1
    with np.errstate(divide="ignore"):
        logits = np.log(weights)
    graph = import_model(
        model([node("Multinomial", sample_size=20_000, dtype=TensorProto.INT64)], {"x": [2, 3]})
    )
    classes = evaluate_graph(graph, {"x": logits, SEED: np.asarray(5)})["y"]
    assert classes.dtype == np.int64
    for row, shares in zip(classes, weights / weights.sum(1, keepdims=True), strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 20_000, shares, atol=0.02)


def test_a_seed_reaches_what_a_condition_chooses() -> None:
    branches = {
        name: helper.make_graph(
            [helper.make_node("RandomNormalLike", ["x"], ["n"], mean=mean)],
            name,
            [],
            [helper.make_tensor_value_info("n", TensorProto.FLOAT, None)],
        )
        for name, mean in (("then_branch", 100.0), ("else_branch", -100.0))
    }
    proto = model([helper.make_node("If", ["c"], ["y"], **branches)], {"x": SHAPE}, {"c": np.asarray([True])})
    graph = import_model(proto)
    numbers = evaluate_graph(graph, {"x": np.zeros(SHAPE, np.float32), SEED: np.asarray(0)})["y"]
    check_moments(numbers, 100, 1)


def test_the_model_is_left_as_it_was() -> None:
    proto = model([node("RandomNormalLike")], {"x": SHAPE})
    before = proto.SerializeToString()
    import_model(proto)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("given", [{}, {"seed": 1.0}])
def test_a_loop_that_draws_is_refused(given: dict[str, float]) -> None:
    body = helper.make_graph(
        [
            helper.make_node("RandomNormalLike", ["s"], ["n"], **given),
            helper.make_node("Add", ["s", "n"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [3]),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, [3]),
        ],
    )
    loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)
    with pytest.raises(UnsupportedModel, match=r"body of a Loop.*each time it would draw the same"):
        import_model(model([loop], {"x": [3]}, {"count": np.asarray(2)}))


def test_elements_of_a_sequence_that_draw_are_refused() -> None:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a", "b")]
    body = helper.make_graph([helper.make_node("RandomNormalLike", ["a"], ["b"])], "body", ends[:1], ends[1:])
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["all"]),
        helper.make_node("SequenceMap", ["all"], ["drawn"], body=body),
        helper.make_node("ConcatFromSequence", ["drawn"], ["y"], axis=0),
    ]
    with pytest.raises(UnsupportedModel, match="body of a SequenceMap"):
        import_model(model(nodes, {"x": [3]}))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (node("RandomNormalLike", dtype=TensorProto.INT32), "random numbers of element type i32"),
        (node("RandomUniform", shape=[-2]), "negative|-2"),
        (node("Multinomial", sample_size=0), "sample_size 0"),
    ],
)
def test_what_cannot_be_drawn(bad: onnx.NodeProto, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedOperator), match=message):
        import_model(model([bad], {"x": SHAPE}))


def test_a_value_with_the_name_of_the_seed_is_refused() -> None:
    nodes = [helper.make_node("Relu", ["x"], [SEED]), node("RandomNormalLike")]
    with pytest.raises(ModelError, match="rename it"):
        import_model(model(nodes, {"x": SHAPE}))
