"""Elementary functions, normalisations and rearrangements, against the ONNX reference implementation."""

import numpy as np
import pytest
from onnx import helper

from compiler.frontend import import_model
from compiler.graph.ir import ComputeKind
from tests.compiler.frontend.cases import (
    IMAGE,
    STATISTICS,
    Case,
    case,
    floats,
    ints,
    run_case,
    run_one,
    scalar,
    weights,
)
from tests.compiler.frontend.models import model

FUNCTIONS = [
    *(case(op) for op in ("Exp", "Log", "Erf", "Tanh", "Sigmoid", "Round", "Softplus", "Softsign", "Mish")),
    *(case(op) for op in ("Elu", "Selu", "Celu", "ThresholdedRelu", "Shrink", "Gelu")),
    case("Elu", alpha=0.3),
    case("Selu", alpha=1.5, gamma=0.5),
    case("Celu", alpha=0.3),
    case("ThresholdedRelu", alpha=-0.25),
    case("Shrink", lambd=0.7, bias=0.5),
    case("Gelu", approximate="tanh"),
    case("Swish", opset=24),
    case("Swish", opset=24, alpha=0.5),
    *(case("Pow", (3, 4), scalar(e)) for e in (2, 3, 0.5, -0.5, 1.75, 0.3, -2, 0, 7)),
    case("Pow", (3, 4), ints(3)),
    case("Pow", (3, 4), ints(3, 1, 2, 0)),
    case("Pow", (3, 4), weights(1, 1, 4)),
    case("Pow", (3, 4), (3, 1)),
]
STATISTICAL = [
    case("Softmax"),
    case("Softmax", axis=1),
    case("Softmax", (2, 3, 1), axis=-1),
    case("LogSoftmax", axis=0),
    case("LayerNormalization", (2, 3, 4), weights(4), weights(4)),
    case("LayerNormalization", (2, 3, 4), weights(3, 4), axis=1, epsilon=0.01),
    case("LayerNormalization", (2, 3, 4), weights(1, 4), weights(3, 1), axis=-2, outputs=3),
    case("RMSNormalization", (2, 3, 4), weights(4), opset=23),
    case("RMSNormalization", (2, 3, 4), weights(3, 4), opset=23, axis=1, epsilon=0.1),
    case("InstanceNormalization", IMAGE, weights(4), STATISTICS[1]),
    case("InstanceNormalization", (2, 3, 5), weights(3), weights(3), epsilon=0.1),
    case("GroupNormalization", IMAGE, weights(4), STATISTICS[1], num_groups=2, opset=21),
    case("GroupNormalization", IMAGE, weights(4), STATISTICS[1], num_groups=4, opset=21),
    case("MeanVarianceNormalization", IMAGE),
    case("MeanVarianceNormalization", IMAGE, axes=[1, 3]),
    # As many batches as channels: the reference implementation mixes them up.
    case("LRN", (5, 5, 2, 3), size=3),
    case("LRN", (5, 5, 2, 3), size=4, alpha=0.1, beta=0.6, bias=2.0),
    case("LpNormalization"),
    case("LpPool", IMAGE, kernel_shape=[3, 2], pads=[1, 0, 1, 1], p=3),
    case("LpPool", IMAGE, kernel_shape=[2, 2], strides=[2, 2]),
    *(case(op) for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")),
    case("ReduceL2", (2, 3, 4), ints(1), keepdims=0),
    case("ReduceL1", (2, 3, 4), opset=13, axes=[0, -1]),
    case("ReduceLogSum", (2, 3, 4), ints(-1)),
    case("ReduceLogSumExp", (2, 3, 4), ints(0, 2), keepdims=0),
    case("ReduceLogSumExp", (2, 1, 4), ints(1)),
]
REARRANGED = [
    case("ConvTranspose", IMAGE, weights(4, 5, 3, 3)),
    case("ConvTranspose", IMAGE, weights(4, 5, 3, 2), weights(5), strides=[2, 3], pads=[1, 0, 2, 1]),
    case(
        "ConvTranspose", IMAGE, weights(4, 5, 2, 3), dilations=[2, 2], output_padding=[1, 0], strides=[2, 1]
    ),
    case("ConvTranspose", IMAGE, weights(4, 5, 3, 3), output_shape=[15, 13], strides=[2, 2]),
    case("ConvTranspose", IMAGE, weights(4, 5, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("ConvTranspose", (2, 3, 5), weights(3, 2, 4), strides=[3]),
    case("ConvTranspose", (1, 2, 3, 3), (2, 3, 2, 2), strides=[2, 2]),
    case("ConvTranspose", IMAGE, weights(4, 5, 4, 2), weights(5), strides=[2, 2]),
    case(
        "ConvTranspose",
        IMAGE,
        weights(4, 5, 6, 3),
        weights(5),
        strides=[3, 1],
        dilations=[1, 2],
        pads=[3, 1, 3, 0],
    ),
    case("DepthToSpace", (2, 8, 2, 3), blocksize=2),
    case("DepthToSpace", (2, 8, 2, 3), blocksize=2, mode="CRD"),
    case("SpaceToDepth", (2, 3, 4, 6), blocksize=2),
    case("Tile", (2, 1, 3), ints(2, 3, 1)),
    case("Gather", (2, 5, 3), np.array(-2), axis=1),
    case("Gather", (2, 5, 3), ints(1), axis=2),
    case("Gather", (2, 5, 3), ints(4, 2, 0), axis=1),
    case("Gather", (2, 5, 3), ints(1, 1), axis=0),
    case("Gather", weights(5, 3), ints(4, 0, 3)),
    case("Where", np.array([[True], [False]]), (2, 3), (3,)),
    case("Where", np.array([True, False, True]), weights(2, 3), scalar(-1)),
    case("Where", np.array([True, False, True]), weights(2, 3), (1, 1)),
]


@pytest.mark.parametrize("example", [*FUNCTIONS, *STATISTICAL, *REARRANGED], ids=str)
def test_operator(example: Case) -> None:
    run_case(example)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_of_opset_11_flattens(op: str, axis: int) -> None:
    """The reference implementation takes one axis at any opset."""
    x = weights(2, 3, 4)
    rows = x.astype(np.float64).reshape(int(np.prod(x.shape[:axis])), -1)
    expected = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    actual = run_one(helper.make_node(op, ["x"], ["y"], axis=axis), x, {}, 11)
    wanted = expected if op == "Softmax" else np.log(expected)
    np.testing.assert_allclose(actual, wanted.reshape(x.shape), rtol=1e-5)


def test_log_sum_exp_neither_overflows_nor_loses_infinities() -> None:
    x = np.array([[1000.0, 999.0], [-np.inf, -np.inf], [np.inf, 1.0], [-1000.0, -np.inf]], np.float32)
    actual = run_one(helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"]), x, {"axes": ints(1)})
    expected = [[1000 + np.log1p(np.exp(-1.0))], [-np.inf], [np.inf], [-1000]]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_softmax_of_large_numbers() -> None:
    x = floats(1000, 1001, -1000)[None]
    actual = run_one(helper.make_node("Softmax", ["x"], ["y"]), x, {})
    np.testing.assert_allclose(actual, [[0.26894142, 0.73105858, 0.0]], rtol=1e-6)


def test_what_the_reference_implementation_lacks() -> None:
    x = weights(*IMAGE)
    pooled = run_one(helper.make_node("GlobalLpPool", ["x"], ["y"], p=3), x, {})
    np.testing.assert_allclose(pooled, np.cbrt((np.abs(x) ** 3).sum((2, 3), keepdims=True)), rtol=1e-5)
    scaled = run_one(helper.make_node("LpNormalization", ["x"], ["y"], p=1, axis=0), x, {})
    np.testing.assert_allclose(scaled, x / np.abs(x).sum(0), rtol=1e-5)


def test_grouped_transposed_convolution_is_one_per_group() -> None:
    x, w = weights(*IMAGE), weights(4, 2, 3, 3)
    whole = run_one(
        helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2, strides=[2, 2]), x, {"w": w}
    )
    single = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    parts = [run_one(single, x[:, s], {"w": w[s]}) for s in (slice(2), slice(2, 4))]
    np.testing.assert_allclose(whole, np.concatenate(parts, 1), rtol=1e-5)


def test_transposed_convolution_of_whole_strides_is_one_reduction() -> None:
    for kernel, strides, sums in (
        ((2, 2), [2, 2], 1),
        ((4, 3), [2, 1], 1),
        ((3, 2), [2, 2], 2),
        ((3, 4), [1, 2], 1),
        ((3, 3), [2, 2], 4),
    ):
        node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=strides)
        given = {"w": weights(4, 5, *kernel)}
        graph = import_model(model([node], {"x": list(IMAGE)}, given))
        assert sum(n.compute.kind is ComputeKind.CONTRACTION for n in graph.nodes) == sums
