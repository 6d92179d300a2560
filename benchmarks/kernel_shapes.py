"""The shapes of `benchmarks.kernels`: one operator with bias and ReLU each, as an ONNX model with seeded weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def matmul(m: int, k: int, n: int) -> onnx.ModelProto:
    """[m, k] x [k, n]."""
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    return _model(nodes, (m, k), (m, n), {"w": (k, n), "b": (n,)})


def convolution(
    kernel: int, ic: int, oc: int, size: int, *, stride: int = 1, groups: int = 1, width: int | None = None
) -> onnx.ModelProto:
    """A square kernel over an image of `size` rows, padded so that stride 1 keeps the size."""
    pad, columns = kernel // 2, width or size
    attributes = {"kernel_shape": [kernel] * 2, "pads": [pad] * 4, "strides": [stride] * 2, "group": groups}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["s"], **attributes),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    out = [(n + 2 * pad - kernel) // stride + 1 for n in (size, columns)]
    weights = {"w": (oc, ic // groups, kernel, kernel), "b": (oc,)}
    return _model(nodes, (1, ic, size, columns), (1, oc, *out), weights)


def dilated_1d(length: int, ic: int, oc: int) -> onnx.ModelProto:
    """A 1-D convolution of 3 taps, 2 apart."""
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["s"], dilations=[2], pads=[2, 2])]
    nodes.append(helper.make_node("Relu", ["s"], ["y"]))
    return _model(nodes, (1, ic, length), (1, oc, length), {"w": (oc, ic, 3), "b": (oc,)})


def max_pool(channels: int, size: int) -> onnx.ModelProto:
    """3x3 with stride 2."""
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    out = (size - 1) // 2 + 1
    node = helper.make_node("MaxPool", ["x"], ["y"], **attributes)
    return _model([node], (1, channels, size, size), (1, channels, out, out), {})


SHAPES: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "mm_128x768x768": lambda: matmul(128, 768, 768),
    "mm_128x3072x768": lambda: matmul(128, 3072, 768),
    "mm_128x768x3072": lambda: matmul(128, 768, 3072),
    "mm_512x512x512": lambda: matmul(512, 512, 512),
    "mm_1024x1024x1024": lambda: matmul(1024, 1024, 1024),
    "mm_1x4096x4096": lambda: matmul(1, 4096, 4096),
    "mm_2048x64x2048": lambda: matmul(2048, 64, 2048),
    "mm_127x301x509": lambda: matmul(127, 301, 509),
    "conv7x7s2_3_64_224": lambda: convolution(7, 3, 64, 224, stride=2),
    "conv3x3_64_56": lambda: convolution(3, 64, 64, 56),
    "conv3x3_128_28": lambda: convolution(3, 128, 128, 28),
    "conv3x3_256_14": lambda: convolution(3, 256, 256, 14),
    "conv3x3_512_7": lambda: convolution(3, 512, 512, 7),
    "conv3x3_37_53_29x31": lambda: convolution(3, 37, 53, 29, width=31),
    "conv3x3_3_27_72": lambda: convolution(3, 3, 27, 72),
    "conv1x1_256_64_56": lambda: convolution(1, 256, 64, 56),
    "conv1x1_64_256_56": lambda: convolution(1, 64, 256, 56),
    "conv1x1_1024_256_14": lambda: convolution(1, 1024, 256, 14),
    "conv1x1s2_256_512_56": lambda: convolution(1, 256, 512, 56, stride=2),
    "dw3x3s2_96_112": lambda: convolution(3, 96, 96, 112, stride=2, groups=96),
    "dw3x3_192_28": lambda: convolution(3, 192, 192, 28, groups=192),
    "conv1d_dilated_101x20_37": lambda: dilated_1d(101, 20, 37),
    "maxpool_64_112": lambda: max_pool(64, 112),
}


def save(name: str, folder: Path) -> Path:
    """The ONNX file of a shape."""
    path = folder / f"{name}.onnx"
    onnx.save(SHAPES[name](), path)
    return path


def _model(
    nodes: list[onnx.NodeProto],
    input_shape: tuple[int, ...],
    output_shape: tuple[int, ...],
    weights: Mapping[str, tuple[int, ...]],
) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    initialisers = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.05, name)
        for name, shape in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "kernel",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, input_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output_shape)],
        initialisers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
