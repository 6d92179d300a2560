"""Small models of many families, as exporters write their hard parts, compiled and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import luthier
from tests.onnx_runtime import expected_outputs

Array = np.ndarray[Any, Any]


@dataclass
class Net:
    """Nodes as they are added; a node's result has the name that `add` returns."""

    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    feeds: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def input(self, value: Array) -> str:
        name = f"x{len(self.feeds)}"
        self.feeds[name] = value
        return name

    def floats(self, *shape: int) -> str:
        return self.input(self.random.standard_normal(shape).astype(np.float32))

    def weights(self, *shape: int) -> str:
        return self.table(0.3 * self.random.standard_normal(shape).astype(np.float32))

    def table(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, kind: str, *names: str, outputs: int = 1, **attributes: Any) -> Any:
        results = [f"v{len(self.nodes)}.{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, **attributes))
        return results[0] if outputs == 1 else results

    def check(self, *outputs: str) -> None:
        """The same types, shapes and numbers, within 1e-5 of the largest."""
        infos = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.feeds.items()
        ]
        ends = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(
            self.nodes, "net", infos, ends, [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        proto = onnx.shape_inference.infer_shapes(proto)
        for end in proto.graph.output:
            if not end.type.tensor_type.elem_type:
                end.type.tensor_type.elem_type = TensorProto.FLOAT
        expected = expected_outputs(proto, self.feeds)
        module = luthier.compile(proto, threads=1)
        found = module.run(self.feeds)
        module.close()
        for name in outputs:
            got, wanted = found[name], expected[name]
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
            else:
                np.testing.assert_array_equal(got, wanted)


def pyramid_pooling(net: Net) -> list[str]:
    """A detector's neck: windows of 5, 9 and 13 with their borders, joined."""
    x = net.add("Conv", net.floats(1, 6, 13, 13), net.weights(8, 6, 1, 1))
    pools = [net.add("MaxPool", x, kernel_shape=[k, k], pads=[k // 2] * 4) for k in (5, 9, 13)]
    return [net.add("Concat", x, *pools, axis=1)]


def segmentation_head(net: Net) -> list[str]:
    """Dilated convolutions, a pooled branch, and a bilinear upsampling by eight."""
    x = net.floats(1, 4, 7, 9)
    parts = [net.add("Conv", x, net.weights(5, 4, 3, 3), pads=[d] * 4, dilations=[d, d]) for d in (1, 2, 6)]
    pooled = net.add("Conv", net.add("GlobalAveragePool", x), net.weights(5, 4, 1, 1))
    parts.append(net.add("Resize", pooled, "", "", net.table([1, 5, 7, 9]), mode="linear"))
    classes = net.add("Conv", net.add("Concat", *parts, axis=1), net.weights(3, 20, 1, 1))
    return [net.add("Resize", classes, "", "", net.table([1, 3, 56, 72]), mode="linear")]


def detections(net: Net) -> list[str]:
    """The best of many anchors, and what they are."""
    scores = net.add("Sigmoid", net.floats(1, 500))
    boxes = net.floats(500, 4)
    best, places = net.add("TopK", scores, net.table([100]), outputs=2)
    rows = net.add("Reshape", places, net.table([-1]))
    return [best, places, net.add("Gather", boxes, rows)]


def ranked(net: Net) -> list[str]:
    """A whole sort along the first of two dimensions, with equal elements."""
    values = np.round(3 * net.random.standard_normal((150, 3))).astype(np.float32)
    return list(net.add("TopK", net.input(values), net.table([150]), outputs=2, axis=0, largest=0))


def message_passing(net: Net) -> list[str]:
    """Messages along the edges of a graph, added up at its nodes."""
    nodes = net.floats(40, 6)
    edges = net.input(net.random.integers(-40, 40, (300, 1)))
    messages = net.add("GatherND", nodes, net.input(net.random.integers(0, 40, (300, 1))))
    zeros = net.table(np.zeros((40, 6), np.float32))
    return [net.add("ScatterND", zeros, edges, messages, reduction=r) for r in ("add", "max")]


def replaced(net: Net) -> list[str]:
    """Many updates at places that are given, along either dimension."""
    wide = net.input(net.random.permutation(400)[:300].reshape(1, 300))
    tall = net.input(np.stack([net.random.permutation(200)[:150] for _ in range(2)], 1))
    return [
        net.add("ScatterElements", net.floats(1, 400), wide, net.floats(1, 300), axis=1),
        net.add("ScatterElements", net.floats(200, 2), tall, net.floats(150, 2), axis=0),
    ]


def scans(net: Net) -> list[str]:
    x = net.floats(2, 70, 3)
    exclusive = {"exclusive": 1, "reverse": 1}
    counts = net.input(net.random.integers(-9, 9, (1, 1100)))
    return [
        net.add("CumSum", x, net.table(1)),
        net.add("CumSum", x, net.table(-2), **exclusive),
        net.add("CumSum", counts, net.table(1)),
    ]


def spectra(net: Net) -> list[str]:
    """Tokens mixed by two transforms, one side of a spectrum, and frames of a sound under a window."""
    mixed = net.add("DFT", net.add("DFT", net.floats(2, 32, 64, 1), axis=2), axis=1)
    frames = net.add(
        "STFT",
        net.floats(2, 700, 1),
        net.table(50),
        net.table(np.hanning(128).astype(np.float32)),
        onesided=1,
    )
    return [mixed, net.add("DFT", net.floats(5, 256, 1), axis=1, onesided=1), frames]


def selected(net: Net) -> list[str]:
    """More elements than a block has, chosen by their values."""
    x = net.floats(3, 400)
    chosen = net.add("Greater", x, net.table(np.float32(0.5)))
    return [net.add("NonZero", chosen), net.add("Compress", x, net.table([True, False, True]), axis=0)]


def split_attention(net: Net) -> list[str]:
    """Two branches of a convolution, weighted for each channel and added."""
    x = net.add(
        "Relu", net.add("Conv", net.floats(1, 8, 9, 9), net.weights(48, 4, 3, 3), pads=[1] * 4, group=2)
    )
    branches = net.add("Reshape", x, net.table([1, 2, 24, 9, 9]))
    total = net.add("ReduceSum", branches, net.table([1]), keepdims=0)
    logits = net.add("Conv", net.add("GlobalAveragePool", total), net.weights(48, 24, 1, 1))
    shares = net.add("Softmax", net.add("Reshape", logits, net.table([1, 2, 24, 1, 1])), axis=1)
    mixed = net.add("ReduceSum", net.add("Mul", branches, shares), net.table([1]), keepdims=0)
    return [net.add("Conv", mixed, net.weights(16, 24, 1, 1))]


def super_resolution(net: Net) -> list[str]:
    x = net.floats(1, 1, 9, 8)
    hidden = net.add("Tanh", net.add("Conv", x, net.weights(6, 1, 5, 5), pads=[2] * 4))
    y = net.add("Conv", hidden, net.weights(9, 6, 3, 3), pads=[1] * 4)
    cubic = net.add("Resize", x, "", net.table(np.float32([1, 1, 3, 3])), mode="cubic")
    return [net.add("Add", net.add("DepthToSpace", y, blocksize=3, mode="CRD"), cubic)]


def talking_heads(net: Net) -> list[str]:
    """Scores of four heads, mixed before and after they become shares."""
    q, k, v = (net.add("MatMul", net.floats(1, 4, 21, 12), net.weights(12, 12)) for _ in range(3))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))

    def mixed(x: str) -> str:
        last = net.add("MatMul", net.add("Transpose", x, perm=[0, 2, 3, 1]), net.weights(4, 4))
        return net.add("Transpose", net.add("Add", last, net.weights(4)), perm=[0, 3, 1, 2])

    shares = mixed(net.add("Softmax", mixed(scores), axis=-1))
    return [net.add("Transpose", net.add("MatMul", shares, v), perm=[0, 2, 1, 3])]


def window_attention(net: Net) -> list[str]:
    """Rolled, cut into windows, attended to, put back."""
    x = net.floats(1, 8, 8, 6)
    ends = net.table([9]), net.table([1])
    behind = net.add("Slice", x, net.table([3]), *ends)
    front = net.add("Slice", x, net.table([0]), net.table([3]), ends[1])
    rolled = net.add("Concat", behind, front, axis=1)
    cut = net.add("Transpose", net.add("Reshape", rolled, net.table([2, 4, 2, 4, 6])), perm=[0, 2, 1, 3, 4])
    rows = net.add("Reshape", cut, net.table([4, 16, 6]))
    q, k, v = (net.add("MatMul", rows, net.weights(6, 6)) for _ in range(3))
    scores = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 1])), axis=-1)
    back = net.add("Reshape", net.add("MatMul", scores, v), net.table([2, 2, 4, 4, 6]))
    return [net.add("Reshape", net.add("Transpose", back, perm=[0, 2, 1, 3, 4]), net.table([1, 8, 8, 6]))]


FAMILIES = (
    pyramid_pooling,
    segmentation_head,
    detections,
    ranked,
    message_passing,
    replaced,
    scans,
    spectra,
    selected,
    split_attention,
    super_resolution,
    talking_heads,
    window_attention,
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_family(family: Callable[[Net], list[str]]) -> None:
    net = Net()
    net.check(*family(net))
