"""Every operator against the ONNX reference implementation, before and after the graph passes."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.pipeline import optimise
from tests.compiler.frontend.cases import (
    IMAGE,
    STATISTICS,
    Case,
    Shape,
    case,
    compare,
    floats,
    ints,
    run_case,
    run_one,
    scalar,
    weights,
)
from tests.compiler.frontend.models import OPSET, model

CONVOLUTIONS = [
    case("Conv", IMAGE, weights(5, 4, 3, 3)),
    case("Conv", IMAGE, weights(5, 4, 1, 1), weights(5)),
    case(
        "Conv", IMAGE, weights(5, 4, 3, 2), weights(5), strides=[2, 1], pads=[1, 0, 2, 1], kernel_shape=[3, 2]
    ),
    case("Conv", IMAGE, weights(5, 4, 3, 3), dilations=[2, 1], pads=[2, 1, 2, 1]),
    case("Conv", IMAGE, weights(5, 4, 3, 3), dilations=[9, 4], pads=[9, 4, 9, 4]),
    case("Conv", IMAGE, weights(5, 4, 3, 2), weights(5), dilations=[8, 3], pads=[1, 9, 20, 0]),
    case("Conv", IMAGE, weights(5, 4, 3, 2), dilations=[9, 3], pads=[30, 0, 0, 0], strides=[2, 1]),
    case("Conv", IMAGE, weights(4, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    case("Conv", IMAGE, weights(8, 1, 3, 3), weights(8), group=4, strides=[2, 2]),
    case("Conv", IMAGE, weights(4, 1, 1, 1), group=4),
    case("Conv", IMAGE, weights(6, 2, 3, 3), group=2, pads=[1, 1, 1, 1]),
    case("Conv", IMAGE, weights(2, 2, 3, 3), group=2),
    case("Conv", IMAGE, weights(5, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    case("Conv", IMAGE, weights(5, 4, 2, 2), auto_pad="SAME_LOWER"),
    case("Conv", IMAGE, weights(5, 4, 3, 3), auto_pad="VALID", strides=[3, 2]),
    case("Conv", (2, 3, 9), weights(4, 3, 3), weights(4), pads=[1, 1]),
    case("Conv", (1, 2, 4, 5, 3), weights(3, 2, 2, 3, 2), strides=[1, 2, 1], pads=[0, 1, 1, 0, 1, 0]),
    case("Conv", IMAGE, (3, 4, 3, 3), (3,)),
]
PRODUCTS = [
    case("MatMul", (3, 4), (4, 5)),
    case("MatMul", (3, 4), weights(4, 5)),
    case("MatMul", (4,), (4, 5)),
    case("MatMul", (3, 4), (4,)),
    case("MatMul", (4,), (4,)),
    case("MatMul", (2, 1, 3, 4), (5, 4, 2)),
    case("MatMul", (6, 3, 4), (1, 4, 2)),
    case("MatMul", (3, 1), (1, 5)),
    case("Gemm", (3, 4), weights(4, 5)),
    case("Gemm", (4, 3), weights(5, 4), weights(5), transA=1, transB=1),
    case("Gemm", (3, 4), weights(5, 4), weights(3, 1), transB=1, alpha=0.5, beta=2.0),
    case("Gemm", (3, 4), (4, 5), (3, 5), alpha=-1.5),
    case("Gemm", (3, 4), (4, 5), scalar(0.25), beta=0.0),
    case("Gemm", (3, 4), (4, 5), scalar(0.25)),
]
POOLS = [
    case("MaxPool", IMAGE, kernel_shape=[3, 2]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("MaxPool", IMAGE, kernel_shape=[2, 2], dilations=[2, 3], strides=[2, 1]),
    case("MaxPool", IMAGE, kernel_shape=[2, 3], auto_pad="SAME_UPPER", strides=[2, 2]),
    case("MaxPool", IMAGE, kernel_shape=[1, 1], strides=[2, 2]),
    case("MaxPool", (1, 2, 8), kernel_shape=[3], opset=9),
    case("AveragePool", IMAGE, kernel_shape=[3, 2], strides=[2, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("AveragePool", IMAGE, kernel_shape=[2, 2], dilations=[2, 2], pads=[1, 0, 0, 1]),
    case("AveragePool", IMAGE, kernel_shape=[3, 3], auto_pad="SAME_LOWER"),
    # Windows that are larger than the image.
    case("AveragePool", IMAGE, kernel_shape=[9, 3], strides=[9, 1], pads=[1, 1, 1, 1], ceil_mode=1),
    case("MaxPool", IMAGE, kernel_shape=[96, 3], strides=[96, 2], ceil_mode=1),
    # Large windows: one dimension after the other.
    case("MaxPool", (1, 2, 12, 11), kernel_shape=[9, 9], pads=[4, 4, 4, 4]),
    case("MaxPool", (1, 2, 30, 19), kernel_shape=[8, 9], strides=[2, 1], dilations=[1, 2], pads=[3, 4, 0, 7]),
    case("MaxPool", (1, 2, 12, 9, 10), kernel_shape=[5, 5, 5]),
    case("AveragePool", (2, 3, 17, 14), kernel_shape=[9, 9], pads=[4, 4, 4, 4]),
    case("AveragePool", (2, 3, 17, 14), kernel_shape=[9, 9], pads=[4, 4, 4, 4], count_include_pad=1),
    case("GlobalAveragePool", IMAGE),
    case("GlobalMaxPool", IMAGE),
    case("GlobalAveragePool", (2, 3, 4)),
]
REDUCTIONS = [
    case("ReduceSum", (2, 3, 4), ints(1)),
    case("ReduceSum", (2, 3, 4), ints(0, -1), keepdims=0),
    case("ReduceSum", (2, 3, 4)),
    case("ReduceSum", (2, 3, 4), noop_with_empty_axes=1),
    case("ReduceSum", (2, 1, 4), ints(1), keepdims=0),
    case("ReduceSum", (2, 3, 4), opset=11, axes=[2]),
    case("ReduceMean", (2, 3, 4), ints(-1, -2)),
    case("ReduceMean", (2, 3, 4), opset=13, axes=[0], keepdims=0),
    case("ReduceMax", (2, 3, 4), ints(0)),
    case("ReduceMax", (2, 3, 4), opset=13, axes=[1, 2]),
    case("ReduceMin", (2, 3, 4), opset=13, keepdims=0),
    case("ReduceProd", (2, 3, 4), ints(2), keepdims=0),
]
MAPS = [
    *(
        case(op)
        for op in ("Relu", "Neg", "Abs", "Floor", "Ceil", "HardSwish", "HardSigmoid", "LeakyRelu", "Identity")
    ),
    case("HardSigmoid", alpha=0.3, beta=0.1),
    case("LeakyRelu", alpha=1.5),
    case("LeakyRelu", alpha=-0.5),
    case("PRelu", (2, 3, 4), weights(3, 1)),
    case("PRelu", (2, 3, 4), (4,)),
    case("Clip", (2, 3, 4), scalar(-0.5), scalar(0.5)),
    case("Clip", (2, 3, 4), None, scalar(0.5)),
    case("Clip", (2, 3, 4), scalar(0.0)),
    case("Clip", (2, 3, 4)),
    case("Clip", (2, 3, 4), opset=10, min=-0.25),
    case("Sqrt", (3, 4)),
    case("Reciprocal", (3, 4)),
    *(case(op, (2, 3, 4), (3, 1)) for op in ("Add", "Sub", "Mul", "Div")),
    case("Add", (2, 1, 4), (3, 1)),
    case("Mul", (2, 3), scalar(3.0)),
    case("Add", (3,), (2, 3)),
    *(case(op, (2, 3), (3,), (1, 1)) for op in ("Max", "Min", "Sum", "Mean")),
    case("Max", (2, 3)),
    case("BatchNormalization", IMAGE, *STATISTICS),
    case("BatchNormalization", (2, 4), *STATISTICS, epsilon=0.01, opset=15),
    case("Dropout", (2, 3)),
    case("Dropout", (2, 3), opset=10, ratio=0.3),
    case("Dropout", (2, 3), scalar(0.3), np.array(False), opset=12),
]
MOVEMENTS = [
    case("Reshape", (2, 3, 4), ints(4, 6)),
    case("Reshape", (2, 3, 4), ints(0, -1)),
    case("Reshape", (2, 6, 4), ints(4, 3, 2, 2)),
    case("Reshape", (1, 6, 1, 4), ints(6, 1, 4)),
    case("Reshape", (6, 4), ints(8, 3)),
    case("Reshape", (2, 3), ints(6, 1, 1)),
    case("Reshape", (1, 1), ints()),
    case("Flatten", (2, 3, 4)),
    case("Flatten", (2, 3, 4), axis=0),
    case("Flatten", (2, 3, 4), axis=-1),
    case("Squeeze", (1, 3, 1, 2), ints(0, 2)),
    case("Squeeze", (1, 3, 1, 2)),
    case("Squeeze", (1, 3, 1, 2), opset=11, axes=[-2]),
    case("Unsqueeze", (3, 2), ints(0, -1)),
    case("Unsqueeze", (3, 2), opset=11, axes=[1]),
    case("Transpose", (2, 3, 4)),
    case("Transpose", (2, 3, 4), perm=[1, 2, 0]),
    case("Slice", (5, 6), ints(1, 0), ints(4, 6), ints(0, 1), ints(2, 3)),
    case("Slice", (5, 6), ints(-1), ints(-(2**63) + 1), ints(1), ints(-1)),
    case("Slice", (5, 6), ints(4), ints(0), ints(0), ints(-2)),
    case("Slice", (5, 6), ints(-3), ints(2**31 - 1), ints(-1)),
    case("Slice", (5, 6), opset=9, starts=[1], ends=[-1], axes=[1]),
    case("Slice", (5, 6), opset=9, starts=[1, 2], ends=[3, 99]),
    case("Pad", (3, 4), ints(1, 0, 2, 3)),
    case("Pad", (3, 4), ints(0, 1, 0, 1), scalar(-1.5)),
    case("Pad", (3, 4), ints(2, 1), None, ints(-1)),
    *(case("Pad", (3, 4, 5), ints(0, 2, 1, 1, 3, 4), mode=mode) for mode in ("edge", "reflect", "wrap")),
    *(case("Pad", (3, 4), ints(0, 7, 0, 9), mode=mode) for mode in ("edge", "reflect", "wrap")),
    case("Pad", (3, 1), ints(0, 2, 0, 1), mode="edge"),
    case("Concat", (2, 3), (2, 1), (2, 4), axis=1),
    case("Concat", (2, 3), weights(4, 3), axis=-2),
    case("Concat", (2, 3), axis=0),
    case("Concat", ints(), ints(2, 768), ints(), axis=0),
    case("Concat", weights(2, 0), (2, 3), weights(2, 0), axis=1),
    case("Split", (6, 4), outputs=3, num_outputs=3),
    case("Split", (7, 4), outputs=3, num_outputs=3),
    case("Split", (6, 4), ints(1, 3), axis=1, outputs=2),
    case("Split", (6, 4), opset=11, axis=0, split=[2, 4], outputs=2),
    case("Split", (6, 4), opset=11, axis=1, outputs=2),
    case("Expand", (3, 1), ints(2, 1, 4)),
    case("Expand", (2, 3), ints(1)),
]
CASES = [*CONVOLUTIONS, *PRODUCTS, *POOLS, *REDUCTIONS, *MAPS, *MOVEMENTS]


@pytest.mark.parametrize("example", CASES, ids=str)
def test_operator(example: Case) -> None:
    run_case(example)


def test_batch_norm_of_opset_9_is_inference() -> None:
    """The reference implementation takes it for training."""
    node = helper.make_node("BatchNormalization", ["x", *"gomv"], ["y"], epsilon=0.01)
    x, (g, o, m, v) = weights(2, 4), STATISTICS
    actual = run_one(node, x, dict(zip("gomv", STATISTICS, strict=True)), 9)
    np.testing.assert_allclose(actual, (x - m) / np.sqrt(v + 0.01) * g + o, rtol=1e-5)


def test_a_constant_around_nothing() -> None:
    """As of a sequence of one token, where each takes in the one after it."""
    nodes = [
        helper.make_node("Slice", ["x", "one", "end"], ["none"]),
        helper.make_node("Pad", ["none", "pads", "value"], ["y"]),
    ]
    constants = {"one": ints(0, 1), "end": ints(3, 9), "pads": ints(0, 0, 0, 2), "value": scalar(-1.5)}
    graph = import_model(model(nodes, {"x": [3, 1]}, constants))
    x = np.zeros((3, 1), np.float32)
    np.testing.assert_array_equal(evaluate_graph(graph, {"x": x})["y"], np.full((3, 2), -1.5))
    nodes[1].attribute.append(helper.make_attribute("mode", "edge"))
    with pytest.raises(ModelError, match="cuts everything off"):
        import_model(model(nodes, {"x": [3, 1]}, constants))


def test_one_window_that_is_larger_than_the_image_averages_all_of_it() -> None:
    """As EfficientNet is exported; the reference implementation divides nothing by nothing."""
    x = weights(2, 4, 7, 6)
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[960] * 2, strides=[960] * 2, ceil_mode=1
    )
    np.testing.assert_allclose(run_one(node, x, {}), x.mean((2, 3), keepdims=True), rtol=1e-5)


def test_negative_padding_crops() -> None:
    """The reference implementation has none."""
    x = weights(3, 4)
    node = helper.make_node("Pad", ["x", "pads", "value"], ["y"])
    actual = run_one(node, x, {"pads": ints(-1, 0, 1, -2), "value": scalar(9.0)})
    np.testing.assert_array_equal(actual, np.pad(x[1:, :2], ((0, 1), (0, 0)), constant_values=9.0))


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        (floats(1, 2, 0.25), floats(1, 1.25, 1.5, 1.75)),
        (ints(5, 0, -2), ints(5, 3, 1)),
        (ints(0, 6, 3), ints(0, 3)),
    ],
)
def test_range_of_known_limits(numbers: np.ndarray, wanted: np.ndarray) -> None:
    nodes = [
        helper.make_node("Range", ["start", "limit", "delta"], ["range"]),
        helper.make_node("Gather", ["range", "x"], ["y"]),
    ]
    constants = dict(zip(("start", "limit", "delta"), numbers, strict=True))
    constants["x"] = np.arange(len(wanted))
    graph = import_model(model(nodes, {}, constants))
    np.testing.assert_array_equal(evaluate_graph(graph, {})["y"], wanted)


def test_shape_arithmetic_is_constant() -> None:
    """Flatten, as exporters write it: Shape, Gather, Mul, Concat, Reshape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Gather", ["shape", "one"], ["rows"]),
        helper.make_node("Shape", ["x"], ["last"], start=-1),
        helper.make_node("Squeeze", ["last"], ["columns"]),
        helper.make_node("Mul", ["rows", "columns"], ["rest"]),
        helper.make_node("Div", ["rest", "two"], ["half"]),
        helper.make_node("Cast", ["half"], ["half32"], to=6),
        helper.make_node("Cast", ["half32"], ["half64"], to=7),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        helper.make_node("Unsqueeze", ["half64", "axes"], ["half1"]),
        helper.make_node("Concat", ["batch1", "half1", "two1"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
    ]
    constants = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "two": np.array(2, np.int64),
        "two1": ints(2),
        "axes": ints(0),
    }
    proto = model(nodes, {"x": [2, 3, 4]}, constants)
    compare(proto, {"x": weights(2, 3, 4)})
    assert [n.name for n in import_model(proto).nodes] == ["Reshape_12"]


@pytest.mark.parametrize(
    "attributes",
    [
        {"value": helper.make_tensor("t", 1, [2, 3], [1.0, 2, 3, 4, 5, 6])},
        {"value_float": 2.5},
        {"value_floats": [1.0, 2.0, 3.0]},
    ],
)
def test_constant_nodes(attributes: dict[str, Any]) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], **attributes),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    compare(model(nodes), {"x": weights(2, 3)})


@pytest.mark.parametrize("fill", [1.5, 3, True], ids=["float", "whole", "bool"])
@pytest.mark.parametrize("shape", [(2, 3), (400, 300)])
def test_constant_of_shape(shape: Shape, fill: float) -> None:
    kind = {float: 1, int: 7, bool: 9}[type(fill)]
    nodes = [
        helper.make_node(
            "ConstantOfShape", ["shape"], ["c"], value=helper.make_tensor("t", kind, [1], [fill])
        ),
        helper.make_node("Cast", ["c"], ["d"], to=1),
        helper.make_node("Mul", ["x", "d"], ["y"]),
    ]
    compare(model(nodes, {"x": list(shape)}, {"shape": ints(*shape)}), {"x": weights(*shape)})


def test_outputs_that_only_repeat_a_value() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["y"]),
        helper.make_node("Relu", ["x"], ["t"]),
        helper.make_node("Identity", ["t"], ["z"]),
        helper.make_node("Identity", ["c"], ["w"]),
        helper.make_node("Constant", [], ["v"], value_floats=[1.0, 2.0]),
    ]
    compare(
        model(nodes, constants={"c": weights(3)}, outputs=("y", "t", "z", "w", "v")), {"x": weights(2, 3)}
    )


def test_an_unused_optional_output_may_be_named() -> None:
    nodes = [helper.make_node("Dropout", ["x"], ["y", "mask"])]
    compare(model(nodes), {"x": weights(2, 3)})


def test_model_local_functions_are_inlined() -> None:
    opset = [helper.make_opsetid("", OPSET)]
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], opset
    )
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], functions=[function])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    compare(proto, {"x": weights(2, 3)})


def test_batch_norm_goes_into_the_convolution() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "g", "o", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    constants = dict(zip("gomv", STATISTICS, strict=True)) | {"w": weights(4, 4, 3, 3), "b": weights(4)}
    proto = model(nodes, {"x": list(IMAGE)}, constants)
    compare(proto, {"x": weights(*IMAGE)})
    assert len(optimise(import_model(proto)).nodes) == 3
