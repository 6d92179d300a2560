"""Quantised operators: exact against NumPy, as graphs before and after the passes and as machine code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.dtype import DType
from compiler.errors import UnsupportedOperator
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.pipeline import optimise
from compiler.pipeline import compile_program, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from luthier.backend import prepare
from tests.compiler.frontend.models import model as small_model
from tests.compiler.frontend.quantised import Array, convolved, quantised_model, saturate, whole

make = helper.make_node


def results(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    """What the graph gives before and after the passes, in float32, and what the machine code gives."""
    graph = import_model(model)
    module = compile_program(lower(graph), native_target(), 1, NoSource())
    try:
        native = module.run(inputs)["y"]
    finally:
        module.close()
    graphs = [evaluate_graph(g, inputs, np.float32)["y"] for g in (graph, optimise(graph))]
    return [*graphs, native]


def assert_all_equal(model: onnx.ModelProto, inputs: dict[str, Array], expected: Array) -> None:
    for got in results(model, inputs):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("data", [np.uint8, np.int8])
@pytest.mark.parametrize("weights", [np.uint8, np.int8])
@pytest.mark.parametrize("seed", range(3))
def test_matmul_integer(data: type, weights: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, 24, 3))
    x, w = whole(rng, data, m, k), whole(rng, weights, k, n)
    x_zero, w_zero = whole(rng, data, 1)[0], whole(rng, weights, n)
    expected = (x.astype(np.int64) - int(x_zero)) @ (w.astype(np.int64) - w_zero.astype(np.int64))
    model = quantised_model(
        [make("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])],
        {"x": x},
        {"w": w, "xz": np.asarray(x_zero), "wz": w_zero},
    )
    assert_all_equal(model, {"x": x}, expected.astype(np.int32))


def test_matmul_integer_of_two_inputs_with_a_zero_point_that_is_an_input() -> None:
    rng = np.random.default_rng(0)
    x, w, zero = whole(rng, np.uint8, 2, 5, 7), whole(rng, np.int8, 2, 7, 3), whole(rng, np.uint8, 1)
    expected = (x.astype(np.int64) - int(zero[0])) @ w.astype(np.int64)
    inputs = {"x": x, "w": w, "xz": zero}
    model = quantised_model([make("MatMulInteger", ["x", "w", "xz"], ["y"])], inputs, {})
    assert_all_equal(model, inputs, expected.astype(np.int32))


@pytest.mark.parametrize("zero", [0, 1, 255])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channels", [3, 8, 17])
def test_conv_integer_pads_with_the_zero_point(zero: int, stride: int, channels: int) -> None:
    rng = np.random.default_rng(channels)
    x, w = whole(rng, np.uint8, 1, channels, 7, 6), whole(rng, np.int8, 10, channels, 3, 3)
    expected = convolved(x.astype(np.int64) - zero, w, 1, stride).astype(np.int32)
    node = make("ConvInteger", ["x", "w", "xz"], ["y"], pads=[1, 1, 1, 1], strides=[stride, stride])
    model = quantised_model([node], {"x": x}, {"w": w, "xz": np.uint8(zero)})
    assert_all_equal(model, {"x": x}, expected)


def test_whole_numbers_added_to_a_product_of_them() -> None:
    rng = np.random.default_rng(0)
    x, w, bias = whole(rng, np.int8, 5, 7), whole(rng, np.int8, 7, 9), rng.integers(-9, 9, 9).astype(np.int32)
    nodes = [make("MatMulInteger", ["x", "w", "xz"], ["t"]), make("Add", ["t", "b"], ["y"])]
    model = quantised_model(nodes, {"x": x}, {"w": w, "xz": np.int8(3), "b": bias})
    expected = (x.astype(np.int64) - 3) @ w.astype(np.int64) + bias
    assert_all_equal(model, {"x": x}, expected.astype(np.int32))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_short_floats_are_added_in_f32_and_rounded_once(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    # Whole numbers, so that the sums are exact in f32 and the order of the additions does not matter.
    x, w = (rng.integers(-15, 16, shape).astype(dtype.numpy) for shape in ((5, 37), (37, 9)))
    model = quantised_model([make("MatMul", ["x", "w"], ["y"])], {"x": x}, {"w": w})
    expected = (x.astype(np.float32) @ w.astype(np.float32)).astype(dtype.numpy)
    module = compile_program(lower(import_model(model)), native_target(), 1, NoSource())
    try:
        np.testing.assert_array_equal(module.run({"x": x})["y"].view(np.uint16), expected.view(np.uint16))
    finally:
        module.close()


@pytest.mark.parametrize("seed", range(4))
def test_qlinear_matmul(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, 40, 3))
    x, w = whole(rng, np.uint8, m, k), whole(rng, np.int8, k, n)
    constants = {
        "xs": np.float32(0.02), "xz": np.uint8(119), "w": w, "ws": rng.uniform(0.01, 0.02, n).astype(np.float32),
        "wz": np.zeros(n, np.int8), "ys": np.float32(0.35), "yz": np.uint8(100),
    }  # fmt: skip
    sums = (x.astype(np.int64) - 119) @ w.astype(np.int64)
    # Beside a tie the type of the arithmetic decides: the multiplier is folded as float32 here as well.
    scale = (np.float64(constants["xs"]) * constants["ws"].astype(np.float64) / constants["ys"]).astype(
        np.float32
    )
    expected = saturate(sums.astype(np.float32) * scale, 100, np.uint8)
    node = make("QLinearMatMul", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    assert_all_equal(quantised_model([node], {"x": x}, constants), {"x": x}, expected)


@pytest.mark.parametrize("zero", [0, 128])
@pytest.mark.parametrize("largest", [64, 127])
def test_qlinear_conv_with_bias_and_a_scale_per_channel(zero: int, largest: int) -> None:
    rng = np.random.default_rng(zero)
    x = whole(rng, np.uint8, 1, 12, 9, 5)
    w = rng.integers(-largest, largest, (20, 12, 3, 3), endpoint=True).astype(np.int8)
    bias = rng.integers(-5000, 5000, 20).astype(np.int32)
    constants = {
        "xs": np.float32(0.5), "xz": np.uint8(zero), "w": w, "ws": (2.0 ** rng.integers(-9, -5, 20)).astype(np.float32),
        "wz": np.zeros(20, np.int8), "ys": np.float32(4.0), "yz": np.int8(-3), "b": bias,
    }  # fmt: skip
    sums = convolved(x.astype(np.int64) - zero, w, 1, 1) + bias.reshape(1, -1, 1, 1)
    scale = (constants["ws"] / np.float32(8)).reshape(1, -1, 1, 1)
    expected = saturate(sums.astype(np.float32) * scale, -3, np.int8)
    node = make("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], pads=[1, 1, 1, 1])
    assert_all_equal(quantised_model([node], {"x": x}, constants), {"x": x}, expected)


def test_quantise_rounds_half_to_even_and_saturates() -> None:
    x = np.array([-1e9, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 126.6, 3e38], np.float32)
    constants = {"s": np.float32(1.0), "z": np.int8(1)}
    model = quantised_model([make("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, constants)
    assert_all_equal(model, {"x": x}, np.array([-128, -1, -1, 1, 1, 3, 3, 127, 127], np.int8))


def test_dequantise_along_an_axis() -> None:
    rng = np.random.default_rng(0)
    x, scale = whole(rng, np.uint8, 3, 5, 4), rng.random(5).astype(np.float32)
    zero = whole(rng, np.uint8, 5)
    node = make("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)
    difference = (x.astype(np.int32) - zero.astype(np.int32).reshape(5, 1)).astype(np.float32)
    model = quantised_model([node], {"x": x}, {"s": scale, "z": zero})
    assert_all_equal(model, {"x": x}, difference * scale.reshape(5, 1))


@pytest.mark.parametrize("values", [[0.0, 2.0, -3.0, -2.5, 1.34, 0.5], [1.0, 2.0, 3.0], [0.0, 0.0]])
def test_dynamic_quantise(values: list[float]) -> None:
    x = np.array(values, np.float32)
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        make("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    step = (high - low) / 255 or 1.0
    for got in results(quantised_model(nodes, {"x": x}, {}), {"x": x}):
        assert float(np.abs(got - x).max()) <= step * 0.51


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (make("QuantizeLinear", ["f", "s"], ["y"], output_dtype=6), "output type"),
        (make("MatMulInteger", ["x", "f"], ["y"]), "operands of type float32"),
    ],
)
def test_what_is_not_supported_is_said(node: onnx.NodeProto, text: str) -> None:
    inputs = {"x": np.zeros((4, 4), np.uint8), "f": np.zeros((4, 4), np.float32)}
    model = quantised_model([node], inputs, {"s": np.float32(1)})
    with pytest.raises(UnsupportedOperator, match=text):
        import_model(model)


def qdq_model(rng: np.random.Generator) -> tuple[onnx.ModelProto, Array]:
    """Quantise, dequantise, convolve, ReLU, quantise, dequantise, as exporters of quantised networks write it."""
    x = rng.standard_normal((1, 6, 8, 8)).astype(np.float32)
    constants = {
        "xs": np.float32(0.03), "xz": np.uint8(130),
        "w": rng.integers(-64, 65, (9, 6, 3, 3)).astype(np.int8),
        "ws": rng.uniform(0.002, 0.01, 9).astype(np.float32), "wz": np.zeros(9, np.int8),
        "b": rng.standard_normal(9).astype(np.float32), "ys": np.float32(0.05), "yz": np.uint8(0),
    }  # fmt: skip
    nodes = [
        make("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        make("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        make("Conv", ["xd", "wd", "b"], ["c"], pads=[1, 1, 1, 1]),
        make("Relu", ["c"], ["r"]),
        make("QuantizeLinear", ["r", "ys", "yz"], ["q"]),
        make("DequantizeLinear", ["q", "ys", "yz"], ["y"]),
    ]
    return quantised_model(nodes, {"x": x}, constants), x


def test_a_dequantised_convolution_is_computed_in_whole_numbers() -> None:
    model, x = qdq_model(np.random.default_rng(0))
    program = lower(import_model(model))
    assert any("conv 3x3 6->9" in s.name and s.name.endswith(" i32") for s in program.subgraphs)
    plain = evaluate_graph(import_model(model), {"x": x})["y"]
    for got in results(model, {"x": x}):
        steps = np.abs(got - plain) / 0.05
        assert steps.max() < 1.01  # beside a tie the next step is as right
        assert (steps > 0.01).mean() < 0.01


@pytest.mark.parametrize(
    "dtype", [np.uint16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]
)
@pytest.mark.parametrize("scales", [np.float32, np.float16])
def test_whole_numbers_of_other_sizes(dtype: type, scales: type) -> None:
    x = np.array([-9, -0.26, 0.24, 0.26, 0.75, 1, 3.3, 6e4], np.float32).astype(scales)
    low, high = (int(n) for n in (ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max))
    nodes = [
        make("QuantizeLinear", ["x", "s", "z"], ["q"]),
        make("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    zero = np.ones((), dtype)
    proto = small_model(nodes, {}, {"s": np.array(0.5, scales), "z": zero}, ("q", "y"), 25)
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("x", kind, x.shape))
    stored, back = prepare(proto).run([x])
    wanted = np.clip(np.rint(x.astype(np.float32) / 0.5) + 1, low, high)
    np.testing.assert_array_equal(stored.astype(np.float32), wanted)
    np.testing.assert_array_equal(back, ((wanted - 1) * 0.5).astype(scales))
    assert (stored.dtype, back.dtype) == (np.dtype(dtype), np.dtype(scales))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn])
def test_tiny_floats_take_their_largest_number_for_what_is_beyond(dtype: type) -> None:
    x = np.array([-1e9, -3, 0.1, 0.7, 2.4, 1e9], np.float32)
    proto = small_model(
        [make("QuantizeLinear", ["x", "s", "z"], ["y"])],
        {"x": [6]},
        {"s": np.float32(2), "z": np.zeros((), dtype)},
        opset=25,
    )
    (actual,) = prepare(proto).run([x])
    largest = float(ml_dtypes.finfo(dtype).max)
    np.testing.assert_array_equal(actual, np.clip(x / 2, -largest, largest).astype(dtype))
