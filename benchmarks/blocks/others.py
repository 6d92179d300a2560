"""Blocks of networks for language, sound, tables and sequences."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from benchmarks.blocks.network import Network
from benchmarks.blocks.vision import Make


def tokens(count: int, width: int, batch: int = 1) -> Network:
    """A network with one input x of tokens."""
    return Network({"x": (batch, count, width)})


def encoder(count: int, width: int, heads: int, batch: int = 1) -> onnx.ModelProto:
    """A transformer's block."""
    n = tokens(count, width, batch)
    return n.model(n.transformer("x", count, width, heads, batch))


def causal(count: int, width: int, heads: int, key_heads: int) -> onnx.ModelProto:
    """Attention to earlier tokens, several heads with the same keys."""
    n = tokens(count, width)
    mask = np.triu(np.full((count, count), -1e9, np.float32), 1)[None, None]
    return n.model(n.attention("x", count, width, heads, key_heads=key_heads, mask=mask))


def talking(count: int, width: int, heads: int) -> onnx.ModelProto:
    """Attention whose scores are mixed over the heads before and after they become shares."""
    n, depth = tokens(count, width), width // heads
    query, key, value = (
        n.transpose(n.reshape(n.linear("x", width, width), 1, count, heads, depth), 0, 2, 1, 3)
        for _ in range(3)
    )
    scores = n.op("MatMul", query, n.transpose(key, 0, 1, 3, 2))
    for normalised in (True, False):
        scores = n.transpose(n.linear(n.transpose(scores, 0, 2, 3, 1), heads, heads), 0, 3, 1, 2)
        scores = n.op("Softmax", scores, axis=-1) if normalised else scores
    return n.model(n.reshape(n.transpose(n.op("MatMul", scores, value), 0, 2, 1, 3), 1, count, width))


def crossed(count: int, length: int, width: int, heads: int) -> onnx.ModelProto:
    """Attention to other tokens."""
    n = Network({"x": (1, count, width), "z": (1, length, width)})
    return n.model(n.attention("x", count, width, heads, source=("z", length)))


def gated(count: int, width: int, heads: int) -> onnx.ModelProto:
    """Root mean square norms, attention and a gated feed-forward network."""
    n = tokens(count, width)
    x = n.op("Add", "x", n.attention(n.rms_norm("x", width), count, width, heads))
    y = n.rms_norm(x, width)
    y = n.op(
        "Mul", n.silu(n.linear(y, width, 3 * width, bias=False)), n.linear(y, width, 3 * width, bias=False)
    )
    return n.model(n.op("Add", x, n.linear(y, 3 * width, width, bias=False)))


def decoded(length: int, heads: int, depth: int) -> onnx.ModelProto:
    """One query per head and the keys and values of all tokens before it."""
    n = Network({"x": (1, heads, 1, depth), "k": (1, heads, length, depth), "v": (1, heads, length, depth)})
    scores = n.op("Mul", n.op("MatMul", "x", n.transpose("k", 0, 1, 3, 2)), n.number(depth**-0.5))
    return n.model(n.op("MatMul", n.op("Softmax", scores, axis=-1), "v"))


def mixer(count: int, width: int) -> onnx.ModelProto:
    """Linear layers over tokens, then over channels."""
    n = tokens(count, width)
    y = n.transpose(n.layer_norm("x", width), 0, 2, 1)
    y = n.linear(n.gelu(n.linear(y, count, 2 * count)), 2 * count, count)
    x = n.op("Add", "x", n.transpose(y, 0, 2, 1))
    return n.model(n.op("Add", x, n.feed_forward(n.layer_norm(x, width), width)))


def recurrent(kind: str, inputs: int, hidden: int, length: int, batch: int = 1) -> onnx.ModelProto:
    """A GRU or an LSTM over a sequence."""
    n, gates = Network({"x": (length, batch, inputs)}), {"GRU": 3, "LSTM": 4}[kind]
    weights = (
        n.weights(1, gates * hidden, inputs, inner=inputs),
        n.weights(1, gates * hidden, hidden, inner=hidden),
    )
    return n.model(n.op(kind, "x", *weights, n.weights(1, 2 * gates * hidden), hidden_size=hidden))


def waves(channels: int, length: int) -> onnx.ModelProto:
    """The first layers of a network for speech."""
    n = Network({"x": (1, 1, length)})
    x = n.gelu(n.conv("x", (1, channels), 10, 5, pad=[0], rank=1))
    for _ in range(2):
        x = n.gelu(n.conv(x, (channels, channels), 3, 2, pad=[0], rank=1))
    return n.model(x)


def conformer(channels: int, length: int) -> onnx.ModelProto:
    """A gate, a long depthwise convolution along time."""
    n = Network({"x": (1, channels, length)})
    y = n.conv("x", (channels, 2 * channels), 1, rank=1)
    y = n.op("Mul", n.slice(y, 0, channels, 1), n.op("Sigmoid", n.slice(y, channels, 2 * channels, 1)))
    y = n.silu(n.batch_norm(n.conv(y, (channels, channels), 31, groups=channels, rank=1), channels))
    return n.model(n.op("Add", "x", n.conv(y, (channels, channels), 1, rank=1)))


def causal_sound(channels: int, length: int) -> onnx.ModelProto:
    """Dilated convolutions along time, and a gate."""
    n = Network({"x": (1, channels, length)})
    y = n.conv("x", (channels, 2 * channels), 3, dilation=4, rank=1)
    y = n.op(
        "Mul",
        n.op("Tanh", n.slice(y, 0, channels, 1)),
        n.op("Sigmoid", n.slice(y, channels, 2 * channels, 1)),
    )
    return n.model(n.op("Add", "x", n.conv(y, (channels, channels), 1, rank=1)))


def temporal(channels: int, length: int) -> onnx.ModelProto:
    """Residual layers along time, each of which looks twice as far as the one before."""
    n, x = Network({"x": (1, channels, length)}), "x"
    for dilation in (1, 2, 4, 8, 16, 32):
        y = n.relu(n.conv(x, (channels, channels), 3, dilation=dilation, rank=1))
        x = n.relu(n.op("Add", x, n.conv(y, (channels, channels), 1, rank=1)))
    return n.model(x)


def vocoder(channels: int, length: int) -> onnx.ModelProto:
    """A transposed convolution along time."""
    n = Network({"x": (1, channels, length)})
    return n.model(n.conv_transpose("x", (channels, channels // 2), 16, 8, rank=1))


def layers(rows: int, *widths: int) -> onnx.ModelProto:
    """Linear layers with ReLU between them."""
    n, x = Network({"x": (rows, widths[0])}), "x"
    for into, out in itertools.pairwise(widths):
        x = n.linear(n.relu(x) if x != "x" else x, into, out)
    return n.model(x)


def points(count: int) -> onnx.ModelProto:
    """The same small network for every point of a cloud, and the largest of each feature."""
    n, x = Network({"x": (1, 3, count)}), "x"
    for into, out in ((3, 64), (64, 128), (128, 512)):
        x = n.relu(n.conv(x, (into, out), 1, rank=1))
    return n.model(n.op("ReduceMax", x, n.integers(2)))


def product(kind: str, m: int, k: int, n_: int) -> onnx.ModelProto:
    """A product of which both operands are inputs, one of them turned: `kind` is nn, nt or tn."""
    shapes = {"x": (k, m) if kind[0] == "t" else (m, k), "z": (n_, k) if kind[1] == "t" else (k, n_)}
    n = Network(shapes)
    return n.model(n.op("Gemm", "x", "z", transA=int(kind[0] == "t"), transB=int(kind[1] == "t")))


def frequencies(count: int, width: int) -> onnx.ModelProto:
    """Tokens mixed by a transform along their width and one along themselves, as FNet does instead of attention."""
    n = Network({"x": (1, count, width, 1)})
    y = n.op("DFT", n.op("DFT", "x", axis=2), axis=1)
    y = n.reshape(n.slice(y, 0, 1, 3), 1, count, width)
    return n.model(n.layer_norm(n.op("Add", n.reshape("x", 1, count, width), y), width))


def spectrogram(length: int, window: int, step: int) -> onnx.ModelProto:
    """The power of the frequencies of frames of a sound, as networks for speech begin."""
    n = Network({"x": (1, length, 1)})
    window_weights = n.constant(np.hanning(window).astype(np.float32))
    frames = n.op("STFT", "x", n.constant(np.array(step)), window_weights, onesided=1)
    return n.model(n.op("ReduceSum", n.op("Mul", frames, frames), n.integers(3), keepdims=0))


def experts(rows: int, width: int, hidden: int, count: int, most: int) -> onnx.ModelProto:
    """A feed-forward network of which each row chooses a few of many."""
    n = Network({"x": (rows, width)})
    shares, chosen = n.ops("TopK", 2, n.op("Softmax", n.linear("x", width, count)), n.integers(most), axis=-1)
    first, second = (
        n.op("Gather", n.weights(count, *shape, inner=shape[0]), chosen)
        for shape in ((width, hidden), (hidden, width))
    )
    y = n.op(
        "Einsum",
        n.gelu(n.op("Einsum", "x", first, equation="nd,nkdf->nkf")),
        second,
        equation="nkf,nkfd->nkd",
    )
    y = n.op("Mul", y, n.op("Unsqueeze", shares, n.integers(-1)))
    return n.model(n.op("ReduceSum", y, n.integers(1), keepdims=0))


def chunked(count: int, heads: int, width: int, state: int) -> onnx.ModelProto:
    """A chunk of Mamba-2: tokens of each head attend to those before them by what they decay to, and to one state."""
    kept, moved = (count, heads, state), (count, heads, width)
    n = Network({"x": moved, "read": kept, "written": kept, "decay": (heads, count, count)})
    scores = n.op("Einsum", "read", "written", equation="lhn,shn->lsh")
    inside = n.op("Einsum", n.op("Mul", scores, n.transpose("decay", 1, 2, 0)), "x", equation="lsh,shp->lhp")
    before = n.op("Einsum", "written", "x", equation="shn,shp->hpn")
    return n.model(n.op("Add", inside, n.op("Einsum", "read", before, equation="lhn,hpn->lhp")))


def reduced(shape: tuple[int, ...], axis: int, kind: str = "ReduceMean") -> onnx.ModelProto:
    """Over one axis."""
    n = Network({"x": shape})
    return n.model(n.op(kind, "x", n.integers(axis), keepdims=0))


BLOCKS: Mapping[Make, Sequence[tuple[object, ...]]] = {
    encoder: ((512, 768, 12), (64, 512, 8, 4), (32, 128, 4)),
    causal: ((256, 512, 8, 8), (128, 1024, 16, 4)),
    talking: ((196, 192, 4), (128, 512, 8)),
    crossed: ((64, 256, 512, 8),),
    gated: ((128, 512, 8),),
    decoded: ((128, 16, 64), (1024, 8, 64)),
    mixer: ((196, 384),),
    recurrent: (
        ("GRU", 80, 256, 50), ("GRU", 64, 128, 200), ("LSTM", 128, 128, 40), ("LSTM", 64, 128, 50, 8),
    ),
    waves: ((512, 8000),),
    conformer: ((256, 200),),
    causal_sound: ((64, 1000),),
    temporal: ((64, 1000), (256, 400)),
    vocoder: ((128, 200),),
    layers: ((1, 784, 512, 512, 10), (64, 784, 512, 512, 10), (8, 2048, 2048), (1, 256, 256, 256, 256)),
    points: ((1024,),),
    product: (("nn", 256, 512, 384), ("nt", 256, 512, 384), ("tn", 256, 512, 384)),
    frequencies: ((128, 384), (512, 768)),
    spectrogram: ((48000, 400, 160), (44100, 1024, 256)),
    experts: ((16, 256, 512, 8, 2), (1, 512, 1024, 16, 2)),
    chunked: ((256, 8, 64, 128),),
    reduced: (((1024, 64), 0), ((8, 128, 256), 1)),
}  # fmt: skip
"""What each is made with."""
