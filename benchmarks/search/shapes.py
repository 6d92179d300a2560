"""Layers of a few kinds that many networks have, as ONNX files: what the lab's trees learn beside the networks' Tasks.

    python -m benchmarks.search.shapes FOLDER

Of a kind of layer that few of the recorded networks have (depthwise, grouped, the first of a network), the trees would
see two or three Tasks. No extent here is chosen by a network of the lab.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx

from benchmarks.kernel_models import batch_matmul, convolution, matmul

_DEPTHWISE = (
    (40, 96, 3, 1), (48, 80, 3, 2), (120, 40, 5, 1), (144, 48, 3, 2), (200, 28, 3, 1), (240, 24, 5, 2),
    (336, 18, 3, 1), (400, 20, 3, 2), (672, 10, 5, 1), (1152, 8, 3, 1), (24, 120, 3, 1), (56, 104, 3, 2),
    (88, 72, 3, 2), (176, 60, 3, 2), (264, 15, 3, 1), (304, 13, 3, 1), (480, 16, 3, 1), (720, 9, 3, 1),
)  # fmt: skip
"""Channels, size, kernel, stride."""
_FIRST = (
    (3, 16, 112, 3, 2), (3, 32, 160, 3, 2), (3, 40, 96, 3, 1), (1, 32, 128, 3, 1), (3, 48, 128, 5, 2),
    (3, 32, 144, 7, 2), (4, 80, 100, 7, 2), (3, 20, 200, 3, 2), (3, 28, 240, 3, 2), (3, 16, 176, 3, 2),
    (3, 80, 110, 3, 1), (3, 56, 150, 7, 2), (3, 112, 130, 7, 2), (3, 72, 160, 5, 2),
)  # fmt: skip
"""Channels in and out, size, kernel, stride: of few channels in."""
_POINTWISE = (
    (16, 64, 96), (24, 96, 64), (32, 192, 40), (40, 240, 30), (112, 672, 15), (160, 48, 30), (320, 80, 20),
    (48, 16, 90), (640, 160, 10), (16, 80, 120), (12, 72, 128), (20, 120, 100), (24, 144, 80),
    (32, 16, 130), (64, 24, 72),
)  # fmt: skip
"""Channels in and out, size."""
_DENSE = (
    (24, 64, 40, 3, 1), (80, 112, 24, 3, 1), (96, 48, 30, 3, 1), (160, 160, 20, 3, 1), (192, 224, 10, 3, 1),
    (72, 144, 32, 3, 2), (40, 64, 34, 5, 1), (384, 320, 9, 3, 1), (288, 288, 13, 3, 1), (448, 448, 6, 3, 1),
)  # fmt: skip
"""Channels in and out, size, kernel, stride."""
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
)
"""Extents m, k, n."""
_BATCHES = ((6, 100, 64, 100), (16, 72, 72, 48), (10, 160, 160, 64), (4, 224, 32, 224))
"""The same for each of so many, first; both factors known at run time."""


def layers() -> dict[str, onnx.ModelProto]:
    """The models, by name."""
    found = {}
    for channels, size, kernel, stride in _DEPTHWISE:
        found[f"depthwise{kernel}x{kernel}_{channels}_{size}_s{stride}"] = convolution(
            channels, channels, (size, size), (kernel, kernel), stride=stride, groups=channels
        )
    for into, out, size, kernel, stride in (*_FIRST, *_DENSE):
        found[f"conv{kernel}x{kernel}_{into}_{out}_{size}_s{stride}"] = convolution(
            into, out, (size, size), (kernel, kernel), stride=stride
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
