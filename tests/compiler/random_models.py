"""Random models of one operator and a few maps around it, as Hypothesis draws them.

Small, so that an interpreter can run them, or of the sizes that layers of networks have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.compiler.frontend.models import model

Dims = tuple[int, ...]

LAYERS = (
    1,
    2,
    3,
    5,
    7,
    8,
    12,
    14,
    16,
    17,
    28,
    32,
    37,
    49,
    56,
    64,
    67,
    96,
    100,
    128,
    130,
    197,
    256,
    301,
    512,
    768,
)
"""Sizes of axes of layers, and some that no vector divides."""
_TIMES = 12
"""So many times longer than in a small model the axes of a layer are, at most."""


@dataclass
class Builder:
    """Nodes so far; every method that adds one returns the name of its result.

    `layers`: axes have sizes of layers, not those that a test runs quickly.
    """

    draw: st.DrawFn
    layers: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, list[int]] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def extent(self, high: int, low: int = 1) -> int:
        return self.draw(st.integers(low, high))

    def size(self, high: int, low: int = 1) -> int:
        """Of an axis of data: up to `high` in a small model."""
        if not self.layers:
            return self.extent(high, low)
        return self.some([n for n in LAYERS if low <= n <= _TIMES * high])

    def some(self, values: list[Any]) -> Any:
        return self.draw(st.sampled_from(values))

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = list(shape)
        return name

    def constant(self, *shape: int) -> str:
        values = np.random.default_rng(len(self.constants)).standard_normal(shape).astype(np.float32)
        return self.table(values)

    def table(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = values
        return name

    def node(self, operator: str, *names: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(names), [output], **attributes))
        return output

    def finish(self, value: str) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [value], ["y"]))
        return model(self.nodes, self.inputs, self.constants)


def _window(b: Builder, rank: int, kernels: list[int]) -> dict[str, Any]:
    """Attributes of a window that fits into `_spatial` images."""
    kernel = [b.some(kernels) for _ in range(rank)]
    return {
        "kernel_shape": kernel,
        "strides": [b.some([1, 1, 2, 3]) for _ in range(rank)],
        "pads": [b.extent(k // 2, 0) for k in kernel * 2],
    }


def _spatial(b: Builder, rank: int) -> Dims:
    return tuple(b.size({1: 23, 2: 11, 3: 7}[rank], 5) for _ in range(rank))


def convolution(b: Builder) -> str:
    rank = b.some([1, 2, 2, 3])
    groups = b.some([1, 1, 1, 2, 3])
    depthwise = b.some([False, False, True])
    per = 1 if depthwise else b.size(9)
    ic = groups * per if not depthwise else b.size(20)
    groups = ic if depthwise else groups
    oc = groups * (b.extent(3) if depthwise else b.size(12))
    attributes = _window(b, rank, [1, 2, 3])
    dilations = [b.some([1, 1, 2]) for _ in range(rank)]
    names = [
        b.input(b.extent(2), ic, *_spatial(b, rank)),
        b.constant(oc, ic // groups, *attributes["kernel_shape"]),
    ]
    names += [b.constant(oc)] if b.some([True, False]) else []
    return b.node("Conv", *names, **attributes, dilations=dilations, group=groups)


def transposed_convolution(b: Builder) -> str:
    rank, groups = b.some([1, 2, 2]), b.some([1, 1, 2])
    ic, per = groups * b.size(5), b.size(6)
    kernel = [b.extent(3) for _ in range(rank)]
    image = [b.size(6, 2) for _ in range(rank)]
    attributes = {"strides": [b.extent(3) for _ in range(rank)], "group": groups}
    return b.node(
        "ConvTranspose",
        b.input(1, ic, *image),
        b.constant(ic, per, *kernel),
        kernel_shape=kernel,
        **attributes,
    )


def product(b: Builder) -> str:
    m, k, n = b.size(20), b.size(24), b.size(40)
    batch = b.some([(), (), (3,), (2, 3)])
    left = b.input(*batch, m, k)
    if b.some([True, False]):
        return b.node("MatMul", left, b.constant(k, n))
    shared = b.some([True, False])
    return b.node("MatMul", left, b.input(*(() if shared else batch), k, n))


def gemm(b: Builder) -> str:
    m, k, n = b.size(12), b.size(30), b.size(40)
    a_t, b_t = b.extent(1, 0), b.extent(1, 0)
    left = b.input(*((k, m) if a_t else (m, k)))
    right = b.constant(*((n, k) if b_t else (k, n)))
    return b.node("Gemm", left, right, b.constant(n), transA=a_t, transB=b_t, alpha=0.5, beta=2.0)


def pooling(b: Builder) -> str:
    rank = b.some([1, 2, 2, 3])
    attributes = _window(b, rank, [2, 3])
    x = b.input(b.extent(2), b.size(20), *_spatial(b, rank))
    ceil = b.extent(1, 0)
    if b.some([True, False]):
        return b.node("MaxPool", x, **attributes, ceil_mode=ceil)
    return b.node("AveragePool", x, **attributes, ceil_mode=ceil, count_include_pad=b.extent(1, 0))


def reduction(b: Builder) -> str:
    rank = b.extent(4)
    shape = [b.size(9 if rank > 2 else 40) for _ in range(rank)]
    axes = sorted(b.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
    operator = b.some(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceSumSquare"])
    return b.node(operator, b.input(*shape), b.table(np.array(axes, np.int64)), keepdims=b.extent(1, 0))


def normalisation(b: Builder) -> str:
    kind = b.some(["Softmax", "LayerNormalization", "LRN", "InstanceNormalization", "LogSoftmax"])
    if kind in ("Softmax", "LogSoftmax"):
        shape = [b.size(12) for _ in range(b.extent(3))]
        return b.node(kind, b.input(*shape), axis=b.extent(len(shape) - 1, 0))
    if kind == "LayerNormalization":
        rows, columns = b.size(12), b.size(40, 2)
        return b.node(kind, b.input(rows, columns), b.constant(columns), b.constant(columns))
    channels = b.size(20, 2)
    x = b.input(1, channels, b.size(7, 2), b.size(7))
    if kind == "LRN":
        return b.node(kind, x, size=b.some([1, 3, 5]), alpha=0.1)
    return b.node(kind, x, b.constant(channels), b.constant(channels))


def movement(b: Builder) -> str:
    rank = b.extent(4, 2)
    shape = [b.size(12 if rank < 4 else 6) for _ in range(rank)]
    kind = b.some(["Transpose", "Concat", "Slice", "Pad", "Gather", "DepthToSpace", "Tile", "Reshape"])
    if kind == "Transpose":
        return b.node(kind, b.input(*shape), perm=b.draw(st.permutations(range(rank))))
    if kind == "Concat":
        axis = b.extent(rank - 1, 0)
        others = [[*shape[:axis], b.extent(7), *shape[axis + 1 :]] for _ in range(b.extent(2))]
        return b.node(kind, b.input(*shape), *(b.input(*other) for other in others), axis=axis)
    if kind == "Slice":
        starts = [b.extent(n - 1, 0) for n in shape]
        ends, steps = (
            [b.extent(n, s + 1) for n, s in zip(shape, starts, strict=True)],
            [b.extent(3) for _ in shape],
        )
        tables = (starts, ends, list(range(rank)), steps)
        return b.node(kind, b.input(*shape), *(b.table(np.array(t, np.int64)) for t in tables))
    if kind == "Pad":
        return b.node(kind, b.input(*shape), b.table(np.array([b.extent(2, 0) for _ in shape * 2], np.int64)))
    if kind == "Gather":
        axis = b.extent(rank - 1, 0)
        first, step = b.extent(shape[axis] - 1, 0), b.extent(3)
        indices = np.arange(first, shape[axis], step, dtype=np.int64)
        return b.node(kind, b.input(*shape), b.table(indices), axis=axis)
    if kind == "DepthToSpace":
        x = b.input(1, 4 * b.size(5), b.size(5), b.size(5))
        return b.node(kind, x, blocksize=2, mode=b.some(["DCR", "CRD"]))
    if kind == "Tile":
        return b.node(kind, b.input(*shape), b.table(np.array([b.extent(2) for _ in shape], np.int64)))
    return b.node(kind, b.input(*shape), b.table(np.array([-1, shape[-1]], np.int64)))


def elementwise(b: Builder) -> str:
    rank = b.extent(4)
    shape = [b.size(12 if rank < 4 else 6) for _ in range(rank)]
    other = [b.some([n, 1]) for n in shape][b.extent(len(shape) - 1, 0) :]
    operator = b.some(["Add", "Mul", "Sub", "Max", "Min"])
    right = b.input(*other) if b.some([True, False]) else b.constant(*other)
    return b.node(operator, b.input(*shape), right)


def resizing(b: Builder) -> str:
    """By whole factors, by others, and to sizes that are no multiple."""
    rank = b.some([1, 2])
    image = _spatial(b, rank)
    sizes = [b.some([n * b.extent(5), b.extent(30)]) for n in image]
    mode = b.some(["linear", "linear", "nearest", "cubic" if rank == 2 else "linear"])
    places = b.some(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
    if places == "align_corners" and mode == "nearest":
        places = "half_pixel"
    channels = b.extent(2), b.size(4)
    wanted = b.table(np.array([*channels, *sizes], np.int64))
    x = b.input(*channels, *image)
    return b.node("Resize", x, "", "", wanted, mode=mode, coordinate_transformation_mode=places)


def padding(b: Builder) -> str:
    shape = [b.extent(9, 3) for _ in range(b.extent(3, 2))]
    pads = b.table(np.array([b.extent(2, 0) for _ in shape * 2], np.int64))
    return b.node("Pad", b.input(*shape), pads, mode=b.some(["constant", "reflect", "edge", "wrap"]))


def _indices(b: Builder, extent: int, *shape: int) -> str:
    """Whole numbers that are computed, from -extent to extent - 1."""
    scaled = b.node("Mul", b.input(*shape), b.table(np.float32(extent)))
    whole = b.node("Cast", scaled, to=onnx.TensorProto.INT64)
    return b.node("Mod", whole, b.table(np.int64(extent)))


def gathering(b: Builder) -> str:
    kind = b.some(["Gather", "GatherElements", "GatherND"])
    n, m, count = b.size(30), b.size(12), b.size(20)
    x = b.input(n, m)
    if kind == "Gather":
        return b.node(kind, x, _indices(b, n, count))
    if kind == "GatherElements":
        return b.node(kind, x, _indices(b, n, count, m), axis=0)
    return b.node(kind, x, _indices(b, n, count, 1))


def scattering(b: Builder) -> str:
    n, m, count = b.size(30), b.size(6), b.some([b.extent(9), b.extent(150, 129)])
    data, reduction = b.input(n, m), b.some(["add", "max", "min"])
    if b.some([True, False]):
        return b.node("ScatterND", data, _indices(b, n, count, 1), b.input(count, m), reduction=reduction)
    indices, updates = _indices(b, n, count, m), b.input(count, m)
    return b.node("ScatterElements", data, indices, updates, axis=0, reduction=reduction)


def scan(b: Builder) -> str:
    shape = [b.extent(7), b.some([b.extent(20), b.extent(90, 60)])]
    axis = b.table(np.int64(b.extent(1, 0)))
    return b.node("CumSum", b.input(*shape), axis, exclusive=b.extent(1, 0), reverse=b.extent(1, 0))


def ranking(b: Builder) -> str:
    shape = [b.extent(4), b.some([b.extent(30), b.extent(200, 65)])]
    kind, axis = b.some(["TopK", "ArgMax", "ArgMin"]), b.extent(1, 0)
    x = b.input(*shape)
    if kind != "TopK":
        return b.node("Cast", b.node(kind, x, axis=axis), to=onnx.TensorProto.FLOAT)
    count = b.table(np.array([b.extent(shape[axis])], np.int64))
    best, places = f"best{len(b.nodes)}", f"places{len(b.nodes)}"
    attributes = {"axis": axis, "largest": b.extent(1, 0)}
    b.nodes.append(helper.make_node("TopK", [x, count], [best, places], **attributes))
    return b.node("Add", best, b.node("Cast", places, to=onnx.TensorProto.FLOAT))


def recurrent(b: Builder) -> str:
    kind = b.some(["RNN", "GRU", "LSTM"])
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    direction = b.some(["forward", "reverse", "bidirectional"])
    count = 2 if direction == "bidirectional" else 1
    steps, batch, width, units = b.extent(4), b.extent(3), b.size(9), b.size(17)
    names = [
        b.input(steps, batch, width),
        b.constant(count, gates * units, width),
        b.constant(count, gates * units, units),
        b.constant(count, 2 * gates * units),
    ]
    forms = {"linear_before_reset": b.extent(1, 0)} if kind == "GRU" else {}
    return b.node(kind, *names, hidden_size=units, direction=direction, **forms)


def quantised(b: Builder) -> str:
    """Products of bytes, and weights that are kept as bytes."""
    m, k, n = b.size(9), b.size(40), b.size(30)
    bytes_ = np.random.default_rng(n).integers(-128, 128, (k, n)).astype(np.int8)
    if b.some([True, False]):
        scale = b.table(np.float32(0.02))
        return b.node("MatMul", b.input(m, k), b.node("DequantizeLinear", b.table(bytes_), scale))
    whole = b.node("Mul", b.input(m, k), b.table(np.float32(20)))
    left = b.node("Cast", whole, to=onnx.TensorProto.INT8)
    product = b.node("MatMulInteger", left, b.table(bytes_))
    return b.node("Cast", product, to=onnx.TensorProto.FLOAT)


def quantised_convolution(b: Builder) -> str:
    """A convolution of bytes whose result is bytes again, as quantisers write it."""
    ic, oc, (h, w), kernel = b.size(9), b.size(12), _spatial(b, 2), b.some([1, 3])
    x = b.input(b.extent(2), ic, h, w)
    data, zero = b.table(np.float32(0.02)), b.table(np.uint8(128))
    weights = np.random.default_rng(oc).integers(-127, 128, (oc, ic, kernel, kernel)).astype(np.int8)
    odd = 2 * int(36 * ic**0.5 * kernel) + 1  # of whole numbers no result is then halfway between two
    made, middle = b.table(np.float32(0.02 * 0.01 * odd)), b.table(np.uint8(b.some([0, 100])))
    left = b.node("DequantizeLinear", b.node("QuantizeLinear", x, data, zero), data, zero)
    right = b.node("DequantizeLinear", b.table(weights), b.table(np.float32(0.01)))
    attributes = {"pads": [b.extent(kernel // 2, 0)] * 4, "strides": [b.extent(2)] * 2}
    value = b.node("Conv", left, right, **attributes)
    value = b.node("Relu", value) if b.some([True, False]) else value
    return b.node("DequantizeLinear", b.node("QuantizeLinear", value, made, middle), made, middle)


def sum_of_products(b: Builder) -> str:
    sizes = {letter: b.size(9) for letter in "bijk"}
    left, right, result = b.some(
        [
            ("bik", "bkj", "bij"),
            ("ik", "jk", "ij"),
            ("bij", "bij", "b"),
            ("bi", "bj", "ij"),
            ("bik", "kj", "jbi"),
        ]
    )
    operands = [b.input(*(sizes[letter] for letter in text)) for text in (left, right)]
    return b.node("Einsum", *operands, equation=f"{left},{right}->{result}")


def choice(b: Builder) -> str:
    shape = [b.size(12) for _ in range(b.extent(3))]
    x, y = b.input(*shape), b.input(*(b.some([n, 1]) for n in shape))
    test = b.node(b.some(["Greater", "LessOrEqual"]), x, y)
    return b.node("Where", test, b.node("Mul", x, y), b.some([x, y]))


def iteration(b: Builder) -> str:
    """A Loop of a few iterations that carries a value and collects another."""
    shape = [b.extent(5), b.extent(9)]
    float_, bool_ = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["again"]),
            helper.make_node("Mul", ["carried", "step"], ["next"]),
            helper.make_node("Sub", ["next", "carried"], ["kept"]),
        ],
        "body",
        [info("i", onnx.TensorProto.INT64, []), info("going", bool_, []), info("carried", float_, shape)],
        [info("again", bool_, []), info("next", float_, shape), info("kept", float_, shape)],
    )
    b.constants["step"] = np.float32(1.5)
    x, trips = b.input(*shape), b.table(np.int64(b.extent(4)))
    last, kept = f"last{len(b.nodes)}", f"kept{len(b.nodes)}"
    b.nodes.append(helper.make_node("Loop", [trips, "", x], [last, kept], body=body))
    return b.node("Add", kept, last)


KINDS: Mapping[str, Callable[[Builder], str]] = {
    "convolution": convolution,
    "transposed_convolution": transposed_convolution,
    "product": product,
    "gemm": gemm,
    "pooling": pooling,
    "reduction": reduction,
    "normalisation": normalisation,
    "movement": movement,
    "elementwise": elementwise,
    "resizing": resizing,
    "padding": padding,
    "gathering": gathering,
    "scattering": scattering,
    "scan": scan,
    "ranking": ranking,
    "recurrent": recurrent,
    "quantised": quantised,
    "quantised_convolution": quantised_convolution,
    "sum_of_products": sum_of_products,
    "choice": choice,
    "iteration": iteration,
}
_AROUND = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "HardSwish", "Gelu", "Erf", "LeakyRelu")


@st.composite
def models(draw: st.DrawFn, *, layers: bool = False) -> onnx.ModelProto:
    """A model of one kind, with up to two maps after it."""
    b = Builder(draw, layers)
    value = KINDS[draw(st.sampled_from(sorted(KINDS)))](b)
    for operator in draw(st.lists(st.sampled_from(_AROUND), max_size=2)):
        value = b.node(operator, value)
    return b.finish(value)
