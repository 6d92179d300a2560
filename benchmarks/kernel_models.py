"""Single operators as ONNX models with seeded weights; contractions have a bias and a ReLU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

Dims = tuple[int, ...]
_OPSET = 21
_RELU = helper.make_node("Relu", ["s"], ["y"])


def matmul(m: int, k: int, n: int) -> onnx.ModelProto:
    """[m, k] x [k, n], the second a constant."""
    return build(
        [helper.make_node("Gemm", ["x", "w", "b"], ["s"]), _RELU], {"x": (m, k)}, {"w": (k, n), "b": (n,)}
    )


def sample_matmul(m: int, k: int, n: int) -> onnx.ModelProto:
    """One sample, [1, m, k] x [k, n], the second a constant: its rows belong together."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["s"]), _RELU]
    return build(nodes, {"x": (1, m, k)}, {"w": (k, n), "b": (n,)})


def batch_matmul(batch: int, m: int, k: int, n: int) -> onnx.ModelProto:
    """A batch of products of which both operands are inputs."""
    node = helper.make_node("MatMul", ["x", "z"], ["y"])
    return build([node], {"x": (batch, m, k), "z": (batch, k, n)}, {})


def masked_attention(heads: int, tokens: int, width: int) -> onnx.ModelProto:
    """Softmax of scaled products of queries and keys, with a mask, times values; heads beside each other in a token."""
    nodes = [
        helper.make_node("Reshape", ["x", "heads"], ["q.t"]),
        helper.make_node("Transpose", ["q.t"], ["q"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["z", "heads"], ["k.t"]),
        helper.make_node("Transpose", ["k.t"], ["k"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["v", "heads"], ["v.t"]),
        helper.make_node("Transpose", ["v.t"], ["w"], perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["q", "k"], ["p"]),
        helper.make_node("Mul", ["p", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["s"]),
        helper.make_node("Softmax", ["s"], ["a"], axis=-1),
        helper.make_node("MatMul", ["a", "w"], ["o.t"]),
        helper.make_node("Transpose", ["o.t"], ["o"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["o", "tokens"], ["y"]),
    ]
    whole = (1, tokens, heads * width)
    weights = {
        "scale": np.array(width**-0.5, np.float32),
        "heads": np.array((1, tokens, heads, width), np.int64),
        "tokens": np.array(whole, np.int64),
    }
    return build(nodes, {"x": whole, "z": whole, "v": whole, "mask": (1, 1, 1, tokens)}, weights)


def convolution(
    ic: int,
    oc: int,
    size: Dims,
    kernel: Dims,
    *,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
) -> onnx.ModelProto:
    """One dimension of `size` and `kernel` per spatial axis; padded so that stride 1 keeps the size."""
    pads = [dilation * (k - 1) // 2 for k in kernel]
    node = helper.make_node(
        "Conv",
        ["x", "w", "b"],
        ["s"],
        kernel_shape=kernel,
        pads=pads * 2,
        strides=[stride] * len(kernel),
        dilations=[dilation] * len(kernel),
        group=groups,
    )
    return build([node, _RELU], {"x": (1, ic, *size)}, {"w": (oc, ic // groups, *kernel), "b": (oc,)})


def embedding(ic: int, oc: int, size: int, patch: int) -> onnx.ModelProto:
    """A convolution of windows side by side, as a vision transformer begins with."""
    places = {
        "kernel_shape": [patch] * 2,
        "strides": [patch] * 2,
        "dilations": [1, 1],
        "pads": [0] * 4,
        "group": 1,
    }
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **places)
    return build([node], {"x": (1, ic, size, size)}, {"w": (oc, ic, patch, patch), "b": (oc,)})


def largest(rows: int, columns: int, count: int) -> onnx.ModelProto:
    """The largest few elements of each row."""
    node = helper.make_node("TopK", ["x", "count"], ["y", "places"])
    return build([node], {"x": (rows, columns)}, {"count": np.array([count], np.int64)})


def inverted_residual(ic: int, channels: int, size: int, kernel: int, stride: int) -> onnx.ModelProto:
    """Channels mixed into more of them, a depthwise convolution, and channels mixed into fewer again.

    Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks, CVPR 2018; data lie channels last.
    """
    pads = [(kernel - 1) // 2] * 4
    nodes = [
        helper.make_node("Transpose", ["x"], ["first"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["first", "w0", "b0"], ["mixed"], kernel_shape=[1, 1]),
        helper.make_node("Relu", ["mixed"], ["wide"]),
        helper.make_node(
            "Conv",
            ["wide", "w1", "b1"],
            ["moved"],
            kernel_shape=[kernel, kernel],
            pads=pads,
            strides=[stride, stride],
            group=channels,
        ),
        helper.make_node("Relu", ["moved"], ["narrow"]),
        helper.make_node("Conv", ["narrow", "w2", "b2"], ["last"], kernel_shape=[1, 1]),
        helper.make_node("Transpose", ["last"], ["y"], perm=[0, 2, 3, 1]),
    ]
    weights = {
        "w0": (channels, ic, 1, 1),
        "b0": (channels,),
        "w1": (channels, 1, kernel, kernel),
        "b1": (channels,),
        "w2": (ic, channels, 1, 1),
        "b2": (ic,),
    }
    return build(nodes, {"x": (1, size, size, ic)}, weights)


def transposed_convolution(ic: int, oc: int, size: Dims, kernel: Dims, stride: int) -> onnx.ModelProto:
    """Without padding."""
    node = helper.make_node(
        "ConvTranspose", ["x", "w", "b"], ["s"], kernel_shape=kernel, strides=[stride] * len(kernel)
    )
    return build([node, _RELU], {"x": (1, ic, *size)}, {"w": (ic, oc, *kernel), "b": (oc,)})


def unary(operator: str, shape: Dims, **attributes: object) -> onnx.ModelProto:
    """An operator with one input and no constants."""
    return build([helper.make_node(operator, ["x"], ["y"], **attributes)], {"x": shape}, {})


def pool(operator: str, channels: int, size: int, kernel: int, stride: int) -> onnx.ModelProto:
    """A square window, padded by half of it; padding is left out of averages."""
    pads = [kernel // 2] * 4
    window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    return unary(operator, (1, channels, size, size), **window)


def normalisation(operator: str, shape: Dims, parameters: Dims, **attributes: object) -> onnx.ModelProto:
    """With scale and bias."""
    node = helper.make_node(operator, ["x", "w", "b"], ["y"], **attributes)
    return build([node], {"x": shape}, {"w": parameters, "b": parameters})


def normalisation_in_parts(rows: int, columns: int) -> onnx.ModelProto:
    """A layer norm as exporters write it that do not know the operator."""
    nodes = [
        helper.make_node("ReduceMean", ["x", "last"], ["mean"]),
        helper.make_node("Sub", ["x", "mean"], ["distance"]),
        helper.make_node("Pow", ["distance", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square", "last"], ["variance"]),
        helper.make_node("Add", ["variance", "epsilon"], ["positive"]),
        helper.make_node("Sqrt", ["positive"], ["deviation"]),
        helper.make_node("Div", ["distance", "deviation"], ["even"]),
        helper.make_node("Mul", ["even", "w"], ["scaled"]),
        helper.make_node("Add", ["scaled", "b"], ["y"]),
    ]
    numbers = {"two": np.array(2, np.float32), "epsilon": np.array(1e-5, np.float32)}
    constants = {"last": np.array([-1], np.int64), "w": (columns,), "b": (columns,), **numbers}
    return build(nodes, {"x": (rows, columns)}, constants)


def sampled(channels: int, size: int) -> onnx.ModelProto:
    """An image at places that another input tells, between its pixels."""
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="linear")
    return build([node], {"x": (1, channels, size, size), "grid": (1, size, size, 2)}, {})


def pooled_boxes(channels: int, size: int, count: int) -> onnx.ModelProto:
    """So many boxes of an image of a detector, 7 by 7 averages of each."""
    corners = np.random.default_rng(0).uniform(0, size / 2, (count, 2))
    boxes = np.concatenate([corners, corners + size / 4], axis=1).astype(np.float32)
    attributes = {"output_height": 7, "output_width": 7, "sampling_ratio": 2}
    node = helper.make_node("RoiAlign", ["x", "boxes", "image"], ["y"], **attributes)
    constants = {"boxes": boxes, "image": np.zeros(count, np.int64)}
    return build([node], {"x": (1, channels, size, size)}, constants)


def total(shape: Dims, axes: Sequence[int]) -> onnx.ModelProto:
    """A sum over some axes."""
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    return build([node], {"x": shape}, {"axes": np.array(axes, np.int64)})


def gather(rows: int, columns: int, count: int) -> onnx.ModelProto:
    """Rows of a table that the model knows, at places that it is given."""
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    return build([node], {"x": (count,)}, {"table": (rows, columns)}, TensorProto.INT64)


def gather_step(rows: int, columns: int, count: int, step: int) -> onnx.ModelProto:
    """Every so manieth row of an input."""
    which = (np.arange(count) * step).astype(np.int64)
    return build([helper.make_node("Gather", ["x", "i"], ["y"])], {"x": (rows, columns)}, {"i": which})


def elementwise_chain(shape: Dims) -> onnx.ModelProto:
    """relu(x * sigmoid(x) * w + z), w a number per channel."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["c"]),
        helper.make_node("Mul", ["c", "w"], ["d"]),
        helper.make_node("Add", ["d", "z"], ["s"]),
        _RELU,
    ]
    return build(nodes, {"x": shape, "z": shape}, {"w": (shape[1], *[1] * (len(shape) - 2))})


def integer_matmul(m: int, k: int, n: int) -> onnx.ModelProto:
    """MatMulInteger: unsigned by signed bytes, 32-bit results."""
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    return build([node], {"x": (m, k)}, {"w": _bytes(k, n)}, TensorProto.UINT8, TensorProto.INT32)


def quantised_matmul(m: int, k: int, n: int) -> onnx.ModelProto:
    """QDQ: the product of dequantised bytes, quantised again."""
    product = helper.make_node("MatMul", ["x.f", "w.f"], ["s"])
    return _quantised(product, (m, k), _bytes(k, n))


def quantised_convolution(kernel: int, ic: int, oc: int, size: int) -> onnx.ModelProto:
    """QDQ: a convolution of dequantised bytes, quantised again."""
    product = helper.make_node("Conv", ["x.f", "w.f"], ["s"], pads=[kernel // 2] * 4)
    return _quantised(product, (1, ic, size, size), _bytes(oc, ic, kernel, kernel))


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same operator with channels as the last dimension of its input and output: how our kernels lie in memory."""
    graph, result = model.graph, onnx.ModelProto()
    rank = len(graph.input[0].type.tensor_type.shape.dim)
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    nodes = [helper.make_node("Transpose", ["x.last"], ["x"], perm=first)]
    nodes += [*graph.node, helper.make_node("Transpose", ["y"], ["y.last"], perm=last)]
    dims = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    kind, out = (value.type.tensor_type.elem_type for value in (graph.input[0], graph.output[0]))
    result.CopyFrom(build(nodes, {"x.last": (dims[0], *dims[2:], dims[1])}, {}, kind, out, "y.last"))
    result.graph.initializer.extend(graph.initializer)
    return result


def build(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Dims],
    weights: Mapping[str, Dims | np.ndarray],
    kind: int = TensorProto.FLOAT,
    result: int = TensorProto.FLOAT,
    output: str = "y",
) -> onnx.ModelProto:
    """A model with one output; weights that are shapes get small random values."""
    rng = np.random.default_rng(0)
    initialisers = []
    for name, value in weights.items():
        array = (
            value if isinstance(value, np.ndarray) else rng.standard_normal(value).astype(np.float32) * 0.05
        )
        initialisers.append(numpy_helper.from_array(np.asarray(array, array.dtype), name))
    graph = helper.make_graph(
        list(nodes),
        "kernel",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(output, result, None)],
        initialisers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)


def _bytes(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).integers(-127, 128, shape).astype(np.int8)


def _quantised(product: NodeProto, shape: Dims, weights: np.ndarray) -> onnx.ModelProto:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x.scale", "x.zero"], ["x.f"]),
        helper.make_node("DequantizeLinear", ["w", "w.scale", "w.zero"], ["w.f"]),
        product,
        helper.make_node("QuantizeLinear", ["s", "y.scale", "x.zero"], ["y"]),
    ]
    constants = {
        "w": weights,
        "x.scale": np.array(0.02, np.float32),
        "w.scale": np.array(0.01, np.float32),
        "y.scale": np.array(0.5, np.float32),
        "x.zero": np.array(128, np.uint8),
        "w.zero": np.array(0, np.int8),
    }
    return build(nodes, {"x": shape}, constants, TensorProto.UINT8, TensorProto.UINT8)
