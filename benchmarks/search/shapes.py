"""Layers of a few kinds that many networks have, as ONNX files: what the lab's trees learn beside the networks' Tasks.

    python -m benchmarks.search.shapes FOLDER

Of a kind of layer that few of the recorded networks have (depthwise, grouped, the first of a network), the trees would
see two or three Tasks. No extent here is chosen by a network of the lab. What lies beside a layer decides how its data
lie in memory, so those that read what others have made stand between others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from benchmarks.blocks.others import recurrent
from benchmarks.kernel_models import (
    batch_matmul,
    convolution,
    inverted_residual,
    masked_attention,
    matmul,
    sample_matmul,
)

_BLOCKS = (
    (16, 88, 96, 3, 2), (16, 72, 88, 3, 1), (24, 112, 80, 3, 2), (24, 128, 60, 3, 1), (32, 160, 72, 3, 2),
    (12, 48, 120, 3, 1), (20, 80, 108, 3, 2), (8, 40, 96, 3, 1), (32, 96, 60, 3, 1), (40, 176, 48, 3, 2),
    (32, 208, 36, 3, 1), (40, 200, 30, 3, 2), (48, 264, 24, 3, 1), (40, 248, 26, 3, 1), (56, 304, 20, 3, 1),
    (64, 320, 18, 3, 2), (64, 360, 16, 3, 1), (72, 400, 15, 3, 1), (80, 336, 13, 3, 1), (96, 288, 14, 3, 1),
    (96, 480, 12, 3, 1), (104, 280, 15, 3, 1), (112, 640, 10, 3, 2), (160, 720, 9, 3, 1), (160, 1152, 8, 3, 1),
    (128, 232, 14, 3, 1), (72, 268, 12, 3, 1), (24, 120, 40, 5, 2), (40, 136, 32, 5, 1), (80, 256, 16, 5, 1),
    (112, 448, 14, 5, 2), (96, 512, 10, 5, 1), (192, 1024, 6, 5, 1), (56, 240, 28, 3, 2), (32, 144, 42, 3, 1),
    (16, 104, 104, 3, 2), (24, 92, 92, 3, 2), (20, 100, 84, 3, 1), (64, 272, 17, 3, 1), (48, 192, 22, 3, 2),
    (16, 96, 104, 3, 2), (16, 88, 116, 3, 2), (16, 112, 100, 3, 1), (12, 96, 110, 3, 2), (20, 96, 106, 3, 2),
    (16, 80, 120, 3, 2), (8, 96, 118, 3, 2), (24, 96, 108, 3, 2), (16, 128, 90, 3, 2), (12, 72, 124, 3, 2),
    (24, 144, 84, 3, 2), (32, 128, 76, 3, 2), (16, 64, 122, 3, 1), (24, 136, 64, 3, 2),
    (96, 512, 14, 3, 1), (80, 560, 14, 3, 1), (88, 416, 14, 3, 1), (96, 512, 14, 3, 2), (104, 640, 14, 3, 2),
    (128, 1024, 7, 3, 1), (152, 1000, 7, 3, 1), (64, 320, 28, 3, 1), (40, 256, 28, 3, 1), (48, 448, 15, 3, 2),
    (112, 672, 14, 5, 1), (40, 240, 28, 5, 1), (192, 1152, 7, 5, 1), (72, 432, 7, 5, 2), (96, 544, 13, 5, 2),
)  # fmt: skip
"""Channels in, and as many times more, size, kernel, stride: a depthwise convolution between two that mix channels."""
_FIRST = (
    (3, 16, 112, 3, 2), (3, 32, 160, 3, 2), (3, 40, 96, 3, 1), (1, 32, 128, 3, 1), (3, 48, 128, 5, 2),
    (3, 32, 144, 7, 2), (4, 80, 100, 7, 2), (3, 20, 200, 3, 2), (3, 28, 240, 3, 2), (3, 16, 176, 3, 2),
    (3, 80, 110, 3, 1), (3, 56, 150, 7, 2), (3, 112, 130, 7, 2), (3, 72, 160, 5, 2),
    (3, 24, 208, 3, 2), (3, 36, 220, 3, 2), (3, 48, 180, 3, 1), (3, 64, 130, 3, 1), (3, 88, 200, 7, 2),
    (3, 64, 180, 7, 2), (3, 104, 170, 7, 2), (3, 80, 210, 7, 2), (3, 24, 180, 3, 2), (3, 28, 200, 3, 2),
    (3, 24, 232, 3, 2), (3, 32, 216, 3, 2), (3, 20, 228, 3, 2), (3, 28, 220, 3, 2),
    (3, 40, 196, 3, 2), (3, 24, 192, 3, 2),
    (3, 64, 200, 3, 1), (3, 56, 236, 3, 1), (3, 72, 190, 3, 1), (3, 32, 210, 3, 1), (4, 64, 176, 3, 1),
    (3, 96, 150, 3, 1), (3, 48, 230, 3, 1), (1, 64, 216, 3, 1), (3, 80, 212, 3, 1), (3, 112, 140, 3, 1),
)  # fmt: skip
"""Channels in and out, size, kernel, stride: of few channels in."""
_DENSE: tuple[tuple[int, int, int | tuple[int, int], int, int], ...] = (
    (24, 64, 40, 3, 1), (80, 112, 24, 3, 1), (96, 48, 30, 3, 1), (160, 160, 20, 3, 1), (192, 224, 10, 3, 1),
    (72, 144, 32, 3, 2), (40, 64, 34, 5, 1), (384, 320, 9, 3, 1), (288, 288, 13, 3, 1), (448, 448, 6, 3, 1),
    (320, 320, (9, 13), 3, 1), (384, 256, (7, 13), 3, 1), (256, 320, 11, 3, 1), (448, 320, (8, 14), 3, 1),
    (192, 256, 15, 3, 1), (320, 256, (7, 15), 3, 1), (384, 384, (6, 13), 3, 1), (224, 224, (10, 18), 3, 1),
    (480, 512, (7, 13), 3, 1), (512, 448, (8, 14), 3, 1), (416, 384, (7, 14), 3, 1), (384, 512, (7, 12), 3, 1),
    (512, 480, (6, 14), 3, 1), (448, 384, (7, 16), 3, 1),
)  # fmt: skip
"""Channels in and out, size (one number where both sides are equal), kernel, stride."""
_GROUPED = (
    (128, 128, 28, 3, 8), (96, 192, 24, 5, 3), (240, 240, 14, 3, 2),
    (160, 160, 26, 1, 4), (224, 224, 20, 1, 4), (320, 320, 15, 1, 4), (304, 304, 13, 1, 4), (192, 192, 18, 1, 2),
    (288, 288, 16, 1, 3), (360, 360, 12, 1, 8), (216, 216, 22, 1, 3), (256, 256, 13, 1, 4), (400, 400, 10, 1, 4),
    (264, 264, 17, 1, 4), (176, 176, 24, 1, 4), (280, 140, 18, 1, 5), (112, 448, 15, 1, 4), (340, 340, 12, 1, 5),
    (128, 128, 30, 3, 32), (256, 256, 15, 3, 32), (192, 192, 20, 3, 8), (320, 320, 12, 3, 16), (160, 160, 26, 3, 4),
    (144, 144, 24, 3, 6), (80, 160, 30, 5, 2), (128, 192, 20, 5, 2), (192, 320, 13, 3, 2),
    (276, 276, 15, 1, 4), (260, 260, 13, 1, 4), (300, 300, 16, 1, 4), (210, 210, 15, 1, 3), (330, 330, 13, 1, 5),
    (228, 228, 17, 1, 3), (248, 248, 16, 1, 4), (312, 312, 15, 1, 4), (344, 344, 13, 1, 4), (204, 204, 20, 1, 3),
    (284, 284, 13, 1, 4), (252, 252, 18, 1, 4), (140, 140, 16, 1, 2), (390, 390, 13, 1, 6),
)  # fmt: skip
"""Channels in and out, size, kernel, groups."""
_PRODUCTS = (
    (50, 512, 512),
    (100, 640, 1280),
    (400, 320, 320),
    (24, 1024, 800),
    (180, 640, 640),
    (1200, 320, 320),
    (72, 640, 2560),
    (48, 768, 2048),
    (80, 896, 1792),
    (112, 384, 1536),
    (56, 512, 3072),
    (1400, 256, 512),
    (1000, 448, 448),
    (1, 2048, 512),
    (1, 512, 2000),
    (1, 300, 1200),
    (1, 192, 768),
    (1, 320, 1280),
    (1, 768, 3000),
    (1, 1600, 1000),
    (2, 640, 1280),
    (4, 1152, 640),
)
"""Extents m, k, n."""
_SAMPLES = (
    (50, 512, 512), (100, 640, 1280), (180, 640, 640), (72, 640, 2560), (112, 384, 1536), (256, 512, 512),
    (400, 320, 320), (1200, 320, 320), (1400, 256, 1024), (80, 896, 1792), (320, 768, 512), (196, 320, 1280),
)  # fmt: skip
"""The same of one sample, whose rows are its own: some algorithms are for these alone."""
_RECURRENT = (
    ("LSTM", 96, 192), ("LSTM", 160, 320), ("LSTM", 64, 384), ("LSTM", 40, 128), ("LSTM", 320, 224), ("LSTM", 512, 288),
    ("GRU", 80, 320), ("GRU", 128, 192), ("GRU", 48, 416), ("LSTM", 200, 480),
)  # fmt: skip
"""Kind of the cell, inputs, width."""
_STEPS = 6
_BATCHES = ((6, 100, 64, 100), (16, 72, 72, 48), (10, 160, 160, 64), (4, 224, 32, 224))
"""The same for each of so many, first; both factors known at run time."""
_ATTENTION = (
    (8, 96, 64), (10, 144, 64), (6, 200, 64), (16, 112, 48), (12, 80, 64), (4, 256, 64), (8, 160, 32), (12, 100, 80),
)  # fmt: skip
"""Heads, tokens, width of a head."""


def layers() -> dict[str, onnx.ModelProto]:
    """The models, by name."""
    found = {}
    for into, channels, size, kernel, stride in _BLOCKS:
        found[f"block{kernel}x{kernel}_{into}_{channels}_{size}_s{stride}"] = inverted_residual(
            into, channels, size, kernel, stride
        )
    for into, out, size, kernel, stride in (*_FIRST, *_DENSE):
        height, width = (size, size) if isinstance(size, int) else size
        found[f"conv{kernel}x{kernel}_{into}_{out}_{height}x{width}_s{stride}"] = convolution(
            into, out, (height, width), (kernel, kernel), stride=stride
        )
    for into, out, size, kernel, groups in _GROUPED:
        found[f"conv{kernel}x{kernel}_{into}_{out}_{size}_g{groups}"] = convolution(
            into, out, (size, size), (kernel, kernel), groups=groups
        )
    for m, k, n in _PRODUCTS:
        found[f"matmul_{m}_{k}_{n}"] = matmul(m, k, n)
    for m, k, n in _SAMPLES:
        found[f"sample_{m}_{k}_{n}"] = sample_matmul(m, k, n)
    for kind, inputs, hidden in _RECURRENT:
        found[f"{kind.lower()}_{inputs}_{hidden}"] = recurrent(kind, inputs, hidden, _STEPS)
    for batch, m, k, n in _BATCHES:
        found[f"matmul{batch}_{m}_{k}_{n}"] = batch_matmul(batch, m, k, n)
    for heads, tokens, width in _ATTENTION:
        found[f"attention{heads}_{tokens}_{width}"] = masked_attention(heads, tokens, width)
    return found


def main() -> None:
    """Write them; `prepare --models FOLDER --shapes` makes pools of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in layers().items():
        onnx.save(model, folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
