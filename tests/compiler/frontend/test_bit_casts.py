"""BitCast: the same bits as another type."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.errors import ModelError, UnsupportedOperator
from compiler.pipeline import load_graph, lower
from tests.compiler.frontend.models import model as network
from tests.compiler.workload.test_random_networks import run_compiled

KINDS = {
    8: "INT8 UINT8 FLOAT8E4M3FN FLOAT8E5M2FNUZ",
    16: "INT16 UINT16 FLOAT16 BFLOAT16",
    32: "INT32 UINT32 FLOAT",
    64: "INT64 UINT64 DOUBLE",
}
PAIRS = [(a, b) for names in KINDS.values() for a in names.split() for b in names.split() if a != b]


def kind(name: str) -> np.dtype:
    return helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))


def cast(x: np.ndarray, *names: str) -> np.ndarray:
    """The result of one node after the other."""
    values = ["x", *(f"v{i}" for i in range(len(names) - 1)), "y"]
    nodes = [
        helper.make_node("BitCast", [a], [b], to=getattr(TensorProto, name))
        for a, b, name in zip(values, values[1:], names, strict=False)
    ]
    kinds = {"x": helper.np_dtype_to_tensor_dtype(x.dtype), "y": getattr(TensorProto, names[-1])}
    model = network(nodes, {"x": x.shape}, {}, opset=26, kinds=kinds)
    return run_compiled(lower(load_graph(model)), {"x": x})["y"]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_all_bits_stay(source: str, target: str) -> None:
    """There and back, of any bits: infinities and NaN with their payloads, and what is below the normal range."""
    raw = np.random.default_rng(0).integers(0, 256, (3, 37 * kind(source).itemsize)).astype(np.uint8)
    x = raw.view(kind(source))
    there = cast(x, target)
    assert there.dtype == kind(target)
    np.testing.assert_array_equal(there.view(np.uint8), raw)
    np.testing.assert_array_equal(cast(x, target, source).view(np.uint8), raw)


def test_four_bits() -> None:
    codes = np.arange(16, dtype=np.uint8)
    small, numbers = codes.view(kind("FLOAT4E2M1")), codes.astype(kind("UINT4"))
    np.testing.assert_array_equal(cast(numbers, "FLOAT4E2M1").view(np.uint8), codes)
    np.testing.assert_array_equal(cast(small, "UINT4").astype(np.uint8), codes)
    np.testing.assert_array_equal(cast(small, "INT4").astype(int), [*range(8), *range(-8, 0)])
    np.testing.assert_array_equal(cast(small, "INT4", "FLOAT4E2M1").view(np.uint8), codes)


def test_bits_of_what_is_computed() -> None:
    """The exponent of a sum, as a model without Frexp would take it."""
    x = np.array([0.75, -3.0, 100.0, 1e-3], np.float32)
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("BitCast", ["twice"], ["bits"], to=TensorProto.UINT32),
        helper.make_node("BitShift", ["bits", "places"], ["y"], direction="RIGHT"),
    ]
    model = network(
        nodes, {"x": x.shape}, {"places": np.array(23, np.uint32)}, opset=26, kinds={"y": TensorProto.UINT32}
    )
    got = run_compiled(lower(load_graph(model)), {"x": x})["y"]
    np.testing.assert_array_equal(got & 255, np.floor(np.log2(np.abs(2 * x))) + 127)


def test_truth_values_are_bytes() -> None:
    x = np.array([True, False, True])
    assert cast(x, "UINT8").tolist() == cast(x, "INT8").tolist() == [1, 0, 1]
    with pytest.raises(UnsupportedOperator, match="to truth values"):
        cast(np.zeros(3, np.uint8), "BOOL")


def test_other_sizes_are_refused() -> None:
    with pytest.raises(ModelError, match="takes the bits of f32 as i16, which has another size"):
        cast(np.zeros(3, np.float32), "INT16")
