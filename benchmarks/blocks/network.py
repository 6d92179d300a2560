"""A network that is written down operator by operator; each method gives the name of the value that it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.shape_inference import infer_shapes

OPSET = 18
_GELU_LIMIT = 1.4142135


class Network:
    """Nodes and seeded weights; `inputs`: f32 tensors by name."""

    def __init__(self, inputs: Mapping[str, Sequence[int]]) -> None:
        """No node yet."""
        self._inputs = inputs
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(0)
        self._names = 0

    def model(self, *outputs: str) -> onnx.ModelProto:
        """The whole network, checked."""
        given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in self._inputs.items()]
        wanted = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self._nodes, "block", given, wanted, self._weights)
        found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        found = infer_shapes(found)
        onnx.checker.check_model(found)
        return found

    # --- constants

    def constant(self, array: np.ndarray) -> str:
        """A value that is given."""
        name = self._fresh()
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def number(self, value: float) -> str:
        """A scalar."""
        return self.constant(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        """A list, as shapes and axes are."""
        return self.constant(np.array(values, np.int64))

    def weights(self, *shape: int, inner: int | None = None) -> str:
        """Random ones, of about unit gain over `inner` of them."""
        over = inner or (int(np.prod(shape[1:])) if len(shape) > 1 else 1)
        return self.constant((self._rng.standard_normal(shape) / np.sqrt(over)).astype(np.float32))

    # --- operators

    def op(self, kind: str, *values: str, **attributes: object) -> str:
        """Any operator with one output."""
        return self.ops(kind, 1, *values, **attributes)[0]

    def ops(self, kind: str, outputs: int, *values: str, **attributes: object) -> list[str]:
        """Any operator."""
        names = [self._fresh() for _ in range(outputs)]
        self._nodes.append(helper.make_node(kind, values, names, **attributes))
        return names

    def conv(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: int | Sequence[int],
        stride: int = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        pad: Sequence[int] | None = None,
        rank: int = 2,
    ) -> str:
        """With a bias; padded so that a stride of 1 keeps the size, unless `pad` says how much at each side."""
        sizes = [kernel] * rank if isinstance(kernel, int) else list(kernel)
        around = list(pad) if pad is not None else [(k - 1) * dilation // 2 for k in sizes]
        into, out = channels
        return self.op(
            "Conv", x, self.weights(out, into // groups, *sizes), self.weights(out), kernel_shape=sizes,
            strides=[stride] * len(sizes), pads=[*around, *around], group=groups, dilations=[dilation] * len(sizes),
        )  # fmt: skip

    def conv_transpose(
        self, x: str, channels: tuple[int, int], kernel: int, stride: int, rank: int = 2
    ) -> str:
        """As many times larger as its stride."""
        pad = (kernel - stride) // 2
        odd = [(kernel - stride) % 2] * rank
        return self.op(
            "ConvTranspose", x, self.weights(*channels, *[kernel] * rank), kernel_shape=[kernel] * rank,
            strides=[stride] * rank, pads=[pad + odd[0]] * 2 * rank, output_padding=odd,
        )  # fmt: skip

    def batch_norm(self, x: str, channels: int) -> str:
        """With statistics that are constants."""
        scale, bias, mean = (self.weights(channels) for _ in range(3))
        return self.op(
            "BatchNormalization", x, scale, bias, mean, self.constant(np.ones(channels, np.float32))
        )

    def linear(self, x: str, into: int, out: int, *, bias: bool = True) -> str:
        """Over the last dimension."""
        y = self.op("MatMul", x, self.weights(into, out, inner=into))
        return self.op("Add", y, self.weights(out)) if bias else y

    def layer_norm(self, x: str, channels: int) -> str:
        """Over the last dimension."""
        return self.op("LayerNormalization", x, self.weights(channels), self.weights(channels), axis=-1)

    def layer_norm_2d(self, x: str, channels: int) -> str:
        """Over the channels of images, written out."""
        centred = self.op("Sub", x, self.op("ReduceMean", x, self.integers(1)))
        variance = self.op("ReduceMean", self.op("Mul", centred, centred), self.integers(1))
        deviation = self.op("Sqrt", self.op("Add", variance, self.number(1e-6)))
        return self.op("Mul", self.op("Div", centred, deviation), self.weights(channels, 1, 1, inner=1))

    def rms_norm(self, x: str, channels: int) -> str:
        """Over the last dimension, written out."""
        square = self.op("ReduceMean", self.op("Pow", x, self.number(2)), self.integers(-1))
        inverse = self.op("Div", self.number(1), self.op("Sqrt", self.op("Add", square, self.number(1e-6))))
        return self.op("Mul", self.weights(channels), self.op("Mul", x, inverse))

    def group_norm(self, x: str, channels: int, groups: int, size: int) -> str:
        """Of a square image, as exporters write it."""
        ones = self.constant(np.ones(groups, np.float32))
        zeros = self.constant(np.zeros(groups, np.float32))
        y = self.op("InstanceNormalization", self.reshape(x, 0, groups, -1), ones, zeros)
        y = self.op("Mul", self.reshape(y, 1, channels, size, size), self.weights(channels, 1, 1, inner=1))
        return self.op("Add", y, self.weights(channels, 1, 1, inner=1))

    def reshape(self, x: str, *shape: int) -> str:
        """To a shape as ONNX writes it."""
        return self.op("Reshape", x, self.integers(*shape))

    def transpose(self, x: str, *order: int) -> str:
        """Dimensions in another order."""
        return self.op("Transpose", x, perm=list(order))

    def slice(self, x: str, start: int, stop: int, axis: int) -> str:
        """Part of a value along one axis."""
        return self.op("Slice", x, *(self.integers(n) for n in (start, stop, axis)))

    def resize(self, x: str, times: float, mode: str = "nearest", **attributes: object) -> str:
        """Images so many times larger."""
        scales = self.constant(np.array([1, 1, times, times], np.float32))
        return self.op("Resize", x, "", scales, mode=mode, **attributes)

    def max_pool(self, x: str, kernel: int, stride: int) -> str:
        """Padded so that a stride of 1 keeps the size, where the kernel is larger than the stride."""
        pad = (kernel - 1) // 2 if kernel > stride else 0
        return self.op("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    # --- activations

    def relu(self, x: str) -> str:
        """max(x, 0)."""
        return self.op("Relu", x)

    def silu(self, x: str) -> str:
        """A value times its sigmoid."""
        return self.op("Mul", x, self.op("Sigmoid", x))

    def hard_swish(self, x: str) -> str:
        """As MobileNetV3 has it."""
        return self.op("HardSwish", x)

    def gelu(self, x: str) -> str:
        """By erf, written out."""
        inside = self.op("Add", self.op("Erf", self.op("Div", x, self.number(_GELU_LIMIT))), self.number(1))
        return self.op("Mul", self.op("Mul", x, inside), self.number(0.5))

    # --- parts that many networks share

    def squeeze_excite(self, x: str, channels: int, inner: int, gate: str = "Sigmoid") -> str:
        """Channels scaled by what a small network makes of their means."""
        y = self.relu(self.conv(self.op("GlobalAveragePool", x), (channels, inner), 1))
        return self.op("Mul", x, self.op(gate, self.conv(y, (inner, channels), 1)))

    def attention(
        self,
        x: str,
        tokens: int,
        width: int,
        heads: int,
        *,
        batch: int = 1,
        key_heads: int | None = None,
        source: tuple[str, int] | None = None,
        mask: np.ndarray | None = None,
    ) -> str:
        """Of tokens among themselves, or to a `source` of so many tokens; several heads may share keys."""
        depth, own = width // heads, key_heads or heads
        other, length = source or (x, tokens)

        def split(y: str, count: int, size: int) -> str:
            return self.transpose(self.reshape(y, batch, size, count, depth), 0, 2, 1, 3)

        query = split(self.linear(x, width, width), heads, tokens)
        key, value = (split(self.linear(other, width, own * depth), own, length) for _ in range(2))
        if own != heads:
            key, value = (self._repeated(y, (batch, own, heads // own, length, depth)) for y in (key, value))
        scores = self.op("MatMul", query, self.transpose(key, 0, 1, 3, 2))
        scores = self.op("Div", scores, self.number(depth**0.5))
        if mask is not None:
            scores = self.op("Add", scores, self.constant(mask))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        joined = self.reshape(self.transpose(mixed, 0, 2, 1, 3), batch, tokens, width)
        return self.linear(joined, width, width)

    def feed_forward(self, x: str, width: int, activation: Callable[[str], str] | None = None) -> str:
        """Two linear layers, the inner one four times as wide."""
        act = activation or self.gelu
        return self.linear(act(self.linear(x, width, 4 * width)), 4 * width, width)

    def transformer(self, x: str, tokens: int, width: int, heads: int, batch: int = 1) -> str:
        """A block whose normalisations come first."""
        y = self.attention(self.layer_norm(x, width), tokens, width, heads, batch=batch)
        x = self.op("Add", x, y)
        return self.op("Add", x, self.feed_forward(self.layer_norm(x, width), width))

    def _repeated(self, y: str, shape: tuple[int, ...]) -> str:
        batch, own, times, length, depth = shape
        wide = self.op("Expand", self.op("Unsqueeze", y, self.integers(2)), self.integers(*shape))
        return self.reshape(wide, batch, own * times, length, depth)

    def _fresh(self) -> str:
        self._names += 1
        return f"v{self._names}"
