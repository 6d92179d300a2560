"""Seconds and memory from a file to a first result, each way in a fresh process, after the imports.

    python -m benchmarks.startup MODEL.onnx [--against onnxruntime] [--threads 1]

compile   `luthier.compile` with an empty cache, with a tuning log of its own (schedules are the defaults)
cached    the same once more
load      `luthier.load` of the artifact
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def main() -> None:
    """Start a process per way; a line each on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--against", choices=["onnxruntime"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        _measure(given.way, given.model, given.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        own = {"LUTHIER_CACHE_DIR": folder, "LUTHIER_DATABASE_URL": f"sqlite:///{folder}/log.db"}
        for way in ("compile", "cached", "load", *([given.against] if given.against else [])):
            model = next(Path(folder).glob("models/*.luthier")) if way == "load" else given.model
            command = [sys.executable, "-m", "benchmarks.startup", str(model), "--way", way]
            subprocess.run([*command, "--threads", str(given.threads)], env={**os.environ, **own}, check=True)


def _measure(way: str, model: Path, threads: int) -> None:
    if way == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        start = time.perf_counter()
        session = onnxruntime.InferenceSession(str(model), options)
        seconds = time.perf_counter() - start
        types = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
        session.run(None, {i.name: np.zeros(i.shape, types[i.type]) for i in session.get_inputs()})
    else:
        import luthier.api
        from luthier.build import open_log

        with open_log(None):  # made, where it is not there yet: once for all models
            pass
        start = time.perf_counter()
        module = luthier.load(model) if way == "load" else luthier.compile(model, threads=threads)
        seconds = time.perf_counter() - start
        module.run({s.name: np.zeros(s.sizes(), s.dtype.numpy) for s in module.inputs})
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{way:<12} {seconds:7.3f} s   {largest:6.0f} MiB at most, a run included")


if __name__ == "__main__":
    main()
