"""Whether it matters where a model's inputs begin: at a multiple of a page, and 16 bytes further, as NumPy's often do.

    python -m benchmarks.offsets MODEL.onnx [MODEL.onnx ...] [--threads 1] [--time 1]

Prints per model the microseconds of a call with each, in turns, and the second over the first.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import luthier
from luthier.bench.reference import make_inputs

_PAGE, _FURTHER = 4096, 16


def main() -> None:
    """A line per model on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--time", type=float, default=1.0, help="seconds per model")
    given = parser.parse_args()
    for path in given.models:
        usual, further = _times(path, given.threads, given.time)
        print(
            f"{path.stem:40s} {usual * 1e6:10.1f} {further * 1e6:10.1f} us {further / usual:.3f}", flush=True
        )


def _times(path: Path, threads: int, seconds: float) -> tuple[float, float]:
    """Medians of a call, by where the inputs begin."""
    module = luthier.compile(path, threads=threads)
    inputs = make_inputs(module.inputs)
    ways = [{name: displaced(array, by) for name, array in inputs.items()} for by in (0, _FURTHER)]
    samples: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not samples[1]:
        for way, into in zip(ways, samples, strict=True):
            start = time.perf_counter()
            module.run(way)
            into.append(time.perf_counter() - start)
    module.close()
    return float(np.median(samples[0])), float(np.median(samples[1]))


def displaced(array: np.ndarray, by: int) -> np.ndarray:
    """A copy that begins so many bytes behind a multiple of a page."""
    raw = np.empty(array.nbytes + _PAGE + by, np.uint8)
    start = -raw.ctypes.data % _PAGE + by
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


if __name__ == "__main__":
    main()
