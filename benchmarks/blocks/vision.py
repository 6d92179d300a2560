"""Blocks of networks for images."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import onnx

from benchmarks.blocks.network import Network

Make = Callable[..., onnx.ModelProto]


def images(channels: int, size: int, batch: int = 1) -> Network:
    """A network with one input x of images."""
    return Network({"x": (batch, channels, size, size)})


def convnext(channels: int, size: int, count: int = 2) -> onnx.ModelProto:
    """7x7 depthwise, layer norm over channels, two linear layers."""
    n, x = images(channels, size), "x"
    for _ in range(count):
        y = n.transpose(n.conv(x, (channels, channels), 7, groups=channels), 0, 2, 3, 1)
        y = n.feed_forward(n.layer_norm(y, channels), channels)
        y = n.transpose(n.op("Mul", y, n.weights(channels)), 0, 3, 1, 2)
        x = n.op("Add", x, y)
    return n.model(x)


def inverted(channels: int, times: int, size: int, kernel: int, act: str) -> onnx.ModelProto:
    """Wide depthwise convolutions with squeeze and excitation, twice."""
    n, x, wide = images(channels, size), "x", channels * times
    activation: Callable[[str], str] = getattr(n, act)
    for _ in range(2):
        y = activation(n.conv(x, (channels, wide), 1))
        y = activation(n.conv(y, (wide, wide), kernel, groups=wide))
        y = n.squeeze_excite(
            y, wide, max(8, channels // 4), "HardSigmoid" if act == "hard_swish" else "Sigmoid"
        )
        x = n.op("Add", x, n.conv(y, (wide, channels), 1))
    return n.model(x)


def assigned(channels: int, size: int) -> onnx.ModelProto:
    """Products assigned to a slice, as exporters write it: indices that are spread out from ranges, for each update."""
    n, inner = images(channels, size), size - 1
    inside = n.op("Slice", "x", n.integers(1, 1), n.integers(size, size), n.integers(2, 3))
    ranges = (range(1), range(channels), range(1, size), range(1, size))
    grid, spread = n.integers(1, channels, inner, inner), list[str]()
    for d, places in enumerate(ranges):
        along = n.reshape(n.integers(*places), *(len(places) if d == e else 1 for e in range(len(ranges))))
        spread.append(n.op("Unsqueeze", n.op("Expand", along, grid), n.integers(-1)))
    indices = n.op("Concat", *spread, axis=-1)
    return n.model(n.op("ScatterND", "x", indices, n.op("Mul", inside, inside)))


def separable(channels: int, size: int, stride: int) -> onnx.ModelProto:
    """The first MobileNet's pair of convolutions."""
    n = images(channels, size)
    x = n.relu(n.batch_norm(n.conv("x", (channels, channels), 3, stride, groups=channels), channels))
    return n.model(n.relu(n.batch_norm(n.conv(x, (channels, channels * stride), 1), channels * stride)))


def diffusion(channels: int, size: int) -> onnx.ModelProto:
    """A residual block of a diffusion network: group norm, SiLU, convolution, twice."""
    n, x = images(channels, size), "x"
    for _ in range(2):
        x = n.conv(n.silu(n.group_norm(x, channels, 32, size)), (channels, channels), 3)
    return n.model(n.op("Add", "x", x))


def swin(channels: int, size: int, heads: int, window: int = 7) -> onnx.ModelProto:
    """Attention inside windows of an image."""
    n, count, parts = Network({"x": (1, size * size, channels)}), (size // window) ** 2, size // window
    y = n.reshape(n.layer_norm("x", channels), 1, parts, window, parts, window, channels)
    y = n.reshape(n.transpose(y, 0, 1, 3, 2, 4, 5), count, window * window, channels)
    y = n.attention(y, window * window, channels, heads, batch=count)
    y = n.transpose(n.reshape(y, 1, parts, parts, window, window, channels), 0, 1, 3, 2, 4, 5)
    x = n.op("Add", "x", n.reshape(y, 1, size * size, channels))
    return n.model(n.op("Add", x, n.feed_forward(n.layer_norm(x, channels), channels)))


def grouped(channels: int, size: int, groups: int = 32) -> onnx.ModelProto:
    """A bottleneck with grouped convolutions."""
    n = images(2 * channels, size)
    y = n.relu(n.conv("x", (2 * channels, channels), 1))
    y = n.relu(n.conv(y, (channels, channels), 3, groups=groups))
    return n.model(n.relu(n.op("Add", "x", n.conv(y, (channels, 2 * channels), 1))))


def residual(channels: int, size: int, batch: int) -> onnx.ModelProto:
    """Two 3x3 convolutions on several images."""
    n = images(channels, size, batch)
    y = n.conv(n.relu(n.conv("x", (channels, channels), 3)), (channels, channels), 3)
    return n.model(n.relu(n.op("Add", "x", y)))


def detector(channels: int, size: int) -> onnx.ModelProto:
    """Part of a one-stage detector: a split, a pyramid of poolings, upsampling."""
    n, wide = images(channels, size), 2 * channels
    x = n.silu(n.conv("x", (channels, wide), 3, 2))
    y, z = (n.silu(n.conv(x, (wide, channels), 1)) for _ in range(2))
    for _ in range(2):
        inner = n.silu(n.conv(n.silu(n.conv(y, (channels, channels), 1)), (channels, channels), 3))
        y = n.op("Add", y, inner)
    x = n.silu(n.conv(n.op("Concat", y, z, axis=1), (wide, wide), 1))
    once = n.max_pool(x, 5, 1)
    x = n.conv(n.op("Concat", x, once, n.max_pool(once, 5, 1), axis=1), (3 * wide, channels), 1)
    return n.model(n.resize(x, 2))


def dilated(channels: int, size: int) -> onnx.ModelProto:
    """Convolutions of several dilations beside each other."""
    n = images(channels, size)
    found = [n.relu(n.conv("x", (channels, 64), 1))]
    found += [n.relu(n.conv("x", (channels, 64), 3, dilation=d)) for d in (6, 12, 18)]
    return n.model(n.relu(n.conv(n.op("Concat", *found, axis=1), (256, 64), 1)))


def atrous(channels: int, size: int, dilation: int) -> onnx.ModelProto:
    """A bottleneck of a network that keeps its resolution: it has gaps in its windows instead of strides."""
    n, narrow = images(channels, size), channels // 4
    y = n.relu(n.conv("x", (channels, narrow), 1))
    y = n.relu(n.conv(y, (narrow, narrow), 3, dilation=dilation))
    return n.model(n.relu(n.op("Add", "x", n.conv(y, (narrow, channels), 1))))


def dense(channels: int, size: int) -> onnx.ModelProto:
    """Each layer adds 32 channels to what it reads."""
    n, x = images(channels, size), "x"
    for wide in (channels, channels + 32, channels + 64):
        y = n.conv(n.relu(n.batch_norm(x, wide)), (wide, 128), 1)
        y = n.conv(n.relu(n.batch_norm(y, 128)), (128, 32), 3)
        x = n.op("Concat", x, y, axis=1)
    return n.model(n.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]))


def shuffled(channels: int, size: int) -> onnx.ModelProto:
    """Half of the channels pass by, then all are shuffled."""
    n, half = images(channels, size), channels // 2
    aside, y = n.ops("Split", 2, "x", n.integers(half, half), axis=1)
    y = n.conv(n.relu(n.conv(y, (half, half), 1)), (half, half), 3, groups=half)
    y = n.op("Concat", aside, n.relu(n.conv(y, (half, half), 1)), axis=1)
    y = n.transpose(n.reshape(y, 1, 2, half, size, size), 0, 2, 1, 3, 4)
    return n.model(n.relu(n.conv(n.reshape(y, 1, channels, size, size), (channels, channels), 1)))


def image_attention(channels: int, inner: int, values: int, size: int) -> onnx.ModelProto:
    """Every place attends to every other; the maps stay channels first."""
    n, places = images(channels, size), size * size
    query, key = (n.reshape(n.conv("x", (channels, inner), 1), 1, inner, places) for _ in range(2))
    value = n.reshape(n.conv("x", (channels, values), 1), 1, values, places)
    weights = n.op("Softmax", n.op("MatMul", n.transpose(query, 0, 2, 1), key), axis=-1)
    y = n.reshape(n.op("MatMul", value, n.transpose(weights, 0, 2, 1)), 1, values, size, size)
    return n.model(n.op("Add", "x", n.conv(y, (values, channels), 1)))


def up(channels: int, size: int, kernel: int) -> onnx.ModelProto:
    """A transposed convolution, joined to what is as large."""
    n, half = (
        Network({"x": (1, channels, size, size), "z": (1, channels // 2, 2 * size, 2 * size)}),
        channels // 2,
    )
    y = n.op("Concat", n.conv_transpose("x", (channels, half), kernel, 2), "z", axis=1)
    return n.model(n.relu(n.batch_norm(n.conv(y, (channels, half), 3), half)))


def enlarged(channels: int, size: int, mode: str) -> onnx.ModelProto:
    """Images twice as large, then a convolution."""
    n = images(channels, size)
    return n.model(n.relu(n.conv(n.resize("x", 2, mode), (channels, channels // 2), 3)))


def super_resolution(channels: int, size: int) -> onnx.ModelProto:
    """Convolutions at low resolution, channels to places at the end."""
    n = images(1, size)
    x = n.relu(n.conv(n.relu(n.conv("x", (1, channels), 5)), (channels, channels), 3))
    return n.model(n.op("DepthToSpace", n.conv(x, (channels, 9), 3), blocksize=3))


def image_end(channels: int, size: int, kernel: int) -> onnx.ModelProto:
    """The end of a network that makes images: a convolution, and one to three channels."""
    n = images(channels, size)
    x = n.relu(n.conv("x", (channels, channels), 3))
    return n.model(n.op("Tanh", n.conv(x, (channels, 3), kernel)))


def generated(channels: int, size: int) -> onnx.ModelProto:
    """The end of a generator: images twice as large, of three channels."""
    n = images(channels, size)
    return n.model(n.op("Tanh", n.conv_transpose("x", (channels, 3), 4, 2)))


def restored(channels: int, size: int) -> onnx.ModelProto:
    """An image of full size from beginning to end."""
    n = images(3, size)
    x = n.relu(n.conv("x", (3, channels), 3))
    y = n.conv(n.relu(n.conv(x, (channels, channels), 3)), (channels, channels), 3)
    return n.model(n.op("Add", "x", n.conv(n.op("Add", x, y), (channels, 3), 3)))


def segmented(channels: int, size: int, classes: int) -> onnx.ModelProto:
    """A few classes for every place."""
    n = images(channels, size)
    return n.model(n.conv(n.relu(n.conv("x", (channels, channels), 3)), (channels, classes), 1))


def projected(into: int, out: int, size: int) -> onnx.ModelProto:
    """A product at each place of a large image, between fewer and more channels."""
    n = images(into, size)
    return n.model(n.relu(n.conv("x", (into, out), 1)))


def thin(size: int, *channels: int) -> onnx.ModelProto:
    """The first layers of a small network."""
    n, x = images(channels[0], size), "x"
    for into, out in itertools.pairwise(channels):
        x = n.relu(n.conv(x, (into, out), 3))
    return n.model(n.max_pool(x, 2, 2))


def stem(channels: int, size: int, kernel: int, stride: int) -> onnx.ModelProto:
    """The first convolution of a network."""
    n = images(3, size)
    return n.model(n.silu(n.conv("x", (3, channels), kernel, stride)))


def patches(channels: int, size: int, patch: int) -> onnx.ModelProto:
    """An image as normalised tokens."""
    n = images(3, size)
    x = n.reshape(n.conv("x", (3, channels), patch, patch, pad=[0, 0]), 1, channels, (size // patch) ** 2)
    return n.model(n.layer_norm(n.transpose(x, 0, 2, 1), channels))


def downsampled(channels: int, size: int) -> onnx.ModelProto:
    """Layer norm over channels, then a convolution that halves the image."""
    n = images(channels, size)
    return n.model(n.conv(n.layer_norm_2d("x", channels), (channels, 2 * channels), 2, 2, pad=[0, 0]))


def head(channels: int, size: int, classes: int) -> onnx.ModelProto:
    """Mean over places, a linear layer, softmax."""
    n = images(channels, size)
    x = n.op("Flatten", n.op("GlobalAveragePool", "x"), axis=1)
    return n.model(n.op("Softmax", n.linear(x, channels, classes), axis=1))


def style(channels: int, size: int) -> onnx.ModelProto:
    """A reflected border, a convolution, instance norm."""
    n = images(channels, size)
    x = n.op("Pad", "x", n.integers(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect")
    x = n.conv(x, (channels, channels), 3, pad=[0, 0])
    return n.model(n.relu(n.op("InstanceNormalization", x, n.weights(channels), n.weights(channels))))


def split_attention(channels: int, size: int) -> onnx.ModelProto:
    """Two branches of a grouped convolution, weighted for each channel and added."""
    n = images(channels, size)
    y = n.relu(n.conv("x", (channels, 2 * channels), 3, groups=2))
    branches = n.reshape(y, 1, 2, channels, size, size)
    total = n.op("GlobalAveragePool", n.op("ReduceSum", branches, n.integers(1), keepdims=0))
    logits = n.conv(n.relu(n.conv(total, (channels, channels // 2), 1)), (channels // 2, 2 * channels), 1)
    shares = n.op("Softmax", n.reshape(logits, 1, 2, channels, 1, 1), axis=1)
    mixed = n.op("ReduceSum", n.op("Mul", branches, shares), n.integers(1), keepdims=0)
    return n.model(n.conv(mixed, (channels, channels), 1))


def volume(channels: int, depth: int, size: int) -> onnx.ModelProto:
    """Two 3x3x3 convolutions."""
    n = Network({"x": (1, channels, depth, size, size)})
    x = n.relu(n.conv("x", (channels, 32), 3, rank=3))
    return n.model(n.relu(n.conv(x, (32, 32), 3, rank=3)))


def pooled(channels: int, size: int, kernel: int, stride: int) -> onnx.ModelProto:
    """A pooling between 1x1 convolutions."""
    n = images(channels, size)
    return n.model(
        n.conv(n.max_pool(n.conv("x", (channels, channels), 1), kernel, stride), (channels, 64), 1)
    )


BLOCKS: Mapping[Make, Sequence[tuple[int | str, ...]]] = {
    convnext: ((96, 56), (384, 14), (768, 7)),
    inverted: (
        (24, 6, 56, 3, "silu"), (40, 6, 28, 5, "silu"), (112, 6, 14, 5, "silu"), (192, 6, 7, 5, "silu"),
        (80, 6, 14, 3, "hard_swish"), (160, 6, 7, 5, "hard_swish"),
    ),
    assigned: ((64, 56), (8, 196)),
    separable: ((64, 112, 2), (128, 56, 1), (256, 28, 1), (512, 14, 1), (512, 14, 2), (1024, 7, 1)),
    diffusion: ((320, 32), (128, 64), (640, 16)),
    swin: ((96, 56, 3), (384, 14, 12)),
    grouped: ((128, 56), (256, 28), (512, 14), (1024, 7)),
    residual: ((64, 28, 8), (256, 14, 4)),
    detector: ((32, 160), (128, 40), (256, 20)),
    dilated: ((256, 33),),
    atrous: ((1024, 28, 2), (2048, 28, 4), (1024, 65, 2)),
    dense: ((256, 28), (512, 14)),
    shuffled: ((116, 28), (232, 14), (464, 7)),
    image_attention: ((128, 16, 128, 16), (64, 32, 32, 28)),
    up: ((128, 32, 2), (128, 32, 4)),
    enlarged: ((128, 32, "nearest"), (128, 32, "linear")),
    super_resolution: ((64, 96),),
    image_end: ((64, 128, 3), (32, 112, 9)),
    generated: ((64, 64),),
    projected: ((256, 64, 56), (64, 256, 56), (96, 24, 112), (128, 128, 64)),
    restored: ((32, 256), (64, 112)),
    segmented: ((64, 96, 2), (128, 64, 21)),
    thin: ((112, 3, 8, 8), (28, 1, 8, 16), (96, 3, 12, 12)),
    stem: ((32, 224, 3, 2), (16, 224, 3, 2), (64, 640, 6, 2), (64, 224, 11, 4), (64, 223, 3, 2), (96, 224, 7, 2)),
    patches: ((768, 224, 16), (96, 224, 4)),
    downsampled: ((96, 56),),
    head: ((2048, 7, 1000),),
    style: ((128, 64),),
    split_attention: ((64, 56), (128, 28)),
    volume: ((16, 16, 32),),
    pooled: ((64, 56, 2, 2), (192, 28, 3, 1), (480, 14, 3, 1), (64, 112, 3, 2)),
}  # fmt: skip
"""What each is made with."""
