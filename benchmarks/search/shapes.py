"""Layers of a few kinds that many networks have, as ONNX files: what the lab's trees learn beside the networks' Tasks.

    python -m benchmarks.search.shapes FOLDER

Of a kind of layer that few of the recorded networks have (depthwise, grouped, the first of a network), the trees would
see two or three Tasks. No extent here is chosen by a network of the lab.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from benchmarks.kernel_models import batch_matmul, convolution, masked_attention, matmul

_DEPTHWISE = (
    (40, 96, 3, 1), (48, 80, 3, 2), (120, 40, 5, 1), (144, 48, 3, 2), (200, 28, 3, 1), (240, 24, 5, 2),
    (336, 18, 3, 1), (400, 20, 3, 2), (672, 10, 5, 1), (1152, 8, 3, 1), (24, 120, 3, 1), (56, 104, 3, 2),
    (88, 72, 3, 2), (176, 60, 3, 2), (264, 15, 3, 1), (304, 13, 3, 1), (480, 16, 3, 1), (720, 9, 3, 1),
    (72, 116, 3, 2), (112, 120, 3, 2), (80, 100, 3, 2), (104, 108, 3, 2), (128, 92, 3, 2), (64, 104, 3, 2),
    (208, 16, 3, 1), (248, 15, 3, 1), (320, 13, 3, 1), (288, 12, 3, 1), (232, 14, 3, 1), (360, 14, 3, 1),
    (92, 108, 3, 2), (100, 116, 3, 2), (96, 96, 3, 2), (120, 104, 3, 2), (84, 120, 3, 2), (108, 88, 3, 2),
    (144, 96, 3, 2), (48, 112, 3, 2), (256, 14, 3, 1), (280, 15, 3, 1), (304, 14, 3, 1), (268, 12, 3, 1),
    (384, 14, 3, 1), (192, 14, 3, 1), (240, 13, 3, 1),
)  # fmt: skip
"""Channels, size, kernel, stride."""
_FIRST = (
    (3, 16, 112, 3, 2), (3, 32, 160, 3, 2), (3, 40, 96, 3, 1), (1, 32, 128, 3, 1), (3, 48, 128, 5, 2),
    (3, 32, 144, 7, 2), (4, 80, 100, 7, 2), (3, 20, 200, 3, 2), (3, 28, 240, 3, 2), (3, 16, 176, 3, 2),
    (3, 80, 110, 3, 1), (3, 56, 150, 7, 2), (3, 112, 130, 7, 2), (3, 72, 160, 5, 2),
    (3, 24, 208, 3, 2), (3, 36, 220, 3, 2), (3, 48, 180, 3, 1), (3, 64, 130, 3, 1), (3, 88, 200, 7, 2),
    (3, 64, 180, 7, 2), (3, 104, 170, 7, 2), (3, 80, 210, 7, 2), (3, 24, 180, 3, 2), (3, 28, 200, 3, 2),
    (3, 24, 232, 3, 2), (3, 32, 216, 3, 2), (3, 20, 228, 3, 2), (3, 28, 220, 3, 2),
    (3, 40, 196, 3, 2), (3, 24, 192, 3, 2),
)  # fmt: skip
"""Channels in and out, size, kernel, stride: of few channels in."""
_POINTWISE = (
    (16, 64, 96), (24, 96, 64), (32, 192, 40), (40, 240, 30), (112, 672, 15), (160, 48, 30), (320, 80, 20),
    (48, 16, 90), (640, 160, 10), (16, 80, 120), (12, 72, 128), (20, 120, 100), (24, 144, 80),
    (32, 16, 130), (64, 24, 72), (16, 72, 104), (16, 112, 100), (24, 96, 108), (12, 96, 118), (20, 80, 116),
    (16, 128, 84), (8, 96, 120), (32, 96, 92), (24, 64, 110),
    (16, 88, 110), (16, 96, 104), (16, 80, 108), (24, 96, 100), (16, 104, 116), (12, 96, 110),
)  # fmt: skip
"""Channels in and out, size."""
_DENSE: tuple[tuple[int, int, int | tuple[int, int], int, int], ...] = (
    (24, 64, 40, 3, 1), (80, 112, 24, 3, 1), (96, 48, 30, 3, 1), (160, 160, 20, 3, 1), (192, 224, 10, 3, 1),
    (72, 144, 32, 3, 2), (40, 64, 34, 5, 1), (384, 320, 9, 3, 1), (288, 288, 13, 3, 1), (448, 448, 6, 3, 1),
    (320, 320, (9, 13), 3, 1), (384, 256, (7, 13), 3, 1), (256, 320, 11, 3, 1), (448, 320, (8, 14), 3, 1),
    (192, 256, 15, 3, 1), (320, 256, (7, 15), 3, 1), (384, 384, (6, 13), 3, 1), (224, 224, (10, 18), 3, 1),
    (480, 512, (7, 13), 3, 1), (512, 448, (8, 14), 3, 1), (416, 384, (7, 14), 3, 1), (384, 512, (7, 12), 3, 1),
    (512, 480, (6, 14), 3, 1), (448, 384, (7, 16), 3, 1),
)  # fmt: skip
"""Channels in and out, size (one number where both sides are equal), kernel, stride."""
_GROUPED = ((128, 128, 28, 3, 8), (96, 192, 24, 5, 3), (240, 240, 14, 3, 2))
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
)
"""Extents m, k, n."""
_BATCHES = ((6, 100, 64, 100), (16, 72, 72, 48), (10, 160, 160, 64), (4, 224, 32, 224))
"""The same for each of so many, first; both factors known at run time."""
_ATTENTION = (
    (8, 96, 64), (10, 144, 64), (6, 200, 64), (16, 112, 48), (12, 80, 64), (4, 256, 64), (8, 160, 32), (12, 100, 80),
)  # fmt: skip
"""Heads, tokens, width of a head."""


def layers() -> dict[str, onnx.ModelProto]:
    """The models, by name."""
    found = {}
    for channels, size, kernel, stride in _DEPTHWISE:
        found[f"depthwise{kernel}x{kernel}_{channels}_{size}_s{stride}"] = convolution(
            channels, channels, (size, size), (kernel, kernel), stride=stride, groups=channels
        )
    for into, out, size, kernel, stride in (*_FIRST, *_DENSE):
        height, width = (size, size) if isinstance(size, int) else size
        found[f"conv{kernel}x{kernel}_{into}_{out}_{height}x{width}_s{stride}"] = convolution(
            into, out, (height, width), (kernel, kernel), stride=stride
        )
    for into, out, size in _POINTWISE:
        found[f"conv1x1_{into}_{out}_{size}"] = convolution(into, out, (size, size), (1, 1))
    for into, out, size, kernel, groups in _GROUPED:
        found[f"conv{kernel}x{kernel}_{into}_{out}_{size}_g{groups}"] = convolution(
            into, out, (size, size), (kernel, kernel), groups=groups
        )
    for m, k, n in _PRODUCTS:
        found[f"matmul_{m}_{k}_{n}"] = matmul(m, k, n)
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
