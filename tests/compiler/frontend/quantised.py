"""Models of quantised operators with random shapes and parameters, and what they must give, by NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compiler.dtype import DType

Array = np.ndarray[Any, Any]
KINDS = {
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float16): TensorProto.FLOAT16,
    DType.BF16.numpy: TensorProto.BFLOAT16,
}


def quantised_model(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
) -> onnx.ModelProto:
    """A model whose inputs have the types and shapes of arrays; its output y is declared without a shape."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def whole(rng: np.random.Generator, dtype: type, *shape: int) -> Array:
    """Over the full range of a type."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def saturate(values: Array, zero: int, dtype: type) -> Array:
    """Round half to even, then move and clamp."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(values) + zero, info.min, info.max).astype(dtype)


def convolved(x: Array, w: Array, padding: int, stride: int) -> Array:
    """Sums of products of NCHW data, padded with 0, in int64."""
    spread = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    windows = np.lib.stride_tricks.sliding_window_view(spread, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], w.astype(np.int64))
