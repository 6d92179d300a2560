"""What the runs of a model take that is compiled as it runs, the first one on.

    python -m benchmarks.as_it_runs MODEL.onnx [MODEL.onnx ...] [--threads N] [--seeds 0 1 2 2 2]

A line per model: seconds of a run on the random input of each seed, in this order, and how many segments have code
after it. A seed that comes again is an input that comes again. Sizes that are open are 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx

import luthier
from luthier.dynamic import DynamicModule


def main() -> None:
    """A line per model on stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 2, 2])
    arguments = parser.parse_args()
    logging.getLogger("luthier").setLevel(logging.ERROR)
    for path in arguments.models:
        with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
            os.environ["LUTHIER_CACHE_DIR"] = folder
            runs = seconds_of_runs(path, arguments.threads, arguments.seeds)
        print(f"{path.stem:40s} " + "  ".join(f"{s:.3g} s ({n})" for s, n in runs), flush=True)


def seconds_of_runs(path: Path, threads: int, seeds: list[int]) -> list[tuple[float, int]]:
    """Of each run its seconds, and the segments that have code."""
    model = luthier.compile(path, threads=threads)
    if not isinstance(model, DynamicModule):
        msg = f"{path}: all of it is compiled before it runs; choose a model with sizes that depend on values"
        raise SystemExit(msg)
    found = []
    for seed in seeds:
        inputs = _inputs(path, seed)
        start_s = time.monotonic()
        model.run(inputs)
        found.append((time.monotonic() - start_s, model.segments))
    model.close()
    return found


def _inputs(path: Path, seed: int) -> dict[str, np.ndarray]:
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name for tensor in graph.initializer}
    rng, found = np.random.default_rng(seed), {}
    for info in graph.input:
        if info.name not in known:
            tensor = info.type.tensor_type
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            found[info.name] = rng.random([d.dim_value or 1 for d in tensor.shape.dim]).astype(kind)
    return found


if __name__ == "__main__":
    main()
