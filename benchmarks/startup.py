"""Seconds and memory from a file to a first result, each way in a fresh process; imports are counted apart.

    python -m benchmarks.startup MODEL.onnx [--against onnxruntime] [--threads 1] [--database URL]

compile   `luthier.compile` with an empty cache, with the tuning log of --database, else with an empty one
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
from collections.abc import Callable
from pathlib import Path

import numpy as np

import luthier


def main() -> None:
    """Start a process per way; a line each on stdout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--against", choices=["onnxruntime"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--database", metavar="URL", help="a tuning log, for schedules that are not the defaults"
    )
    parser.add_argument("--way", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        _measure(given.way, given.model, given.threads)
        return
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "LUTHIER_CACHE_DIR": folder,
            "LUTHIER_DATABASE_URL": given.database or f"sqlite:///{folder}/log.db",
        }
        for way in ("compile", "cached", "load", *([given.against] if given.against else [])):
            model = next(Path(folder).glob("models/*.luthier")) if way == "load" else given.model
            command = [sys.executable, "-m", "benchmarks.startup", str(model), "--way", way]
            subprocess.run([*command, "--threads", str(given.threads)], env={**os.environ, **own}, check=True)


def _measure(way: str, model: Path, threads: int) -> None:
    start = time.perf_counter()
    match way:
        case "onnxruntime":
            ready, run = _onnxruntime(model, threads)
        case "load":
            ready, run = _load(model)
        case _:
            ready, run = _compile(model, threads)
    imports = time.perf_counter() - start
    start = time.perf_counter()
    ready()
    seconds = time.perf_counter() - start
    run()
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{way:<12} {seconds:7.3f} s after {imports:.3f} s of imports   {largest:6.0f} MiB at most, a run included"
    )


_Ways = tuple[Callable[[], None], Callable[[], None]]
"""Get ready, then run once."""


def _compile(model: Path, threads: int) -> _Ways:
    import luthier.api
    from luthier.build import open_log

    with open_log(None):  # made, where it is not there yet: once for all models
        pass
    return _own(lambda: luthier.compile(model, threads=threads))


def _load(model: Path) -> _Ways:
    from luthier import load

    return _own(lambda: load(model))


def _own(make: Callable[[], luthier.Module]) -> _Ways:
    modules: list[luthier.Module] = []

    def run() -> None:
        [module] = modules
        module.run({s.name: np.zeros(s.sizes(), s.dtype.numpy) for s in module.inputs})

    return lambda: modules.append(make()), run


def _onnxruntime(model: Path, threads: int) -> _Ways:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    sessions: list[onnxruntime.InferenceSession] = []
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64}

    def run() -> None:
        [session] = sessions
        session.run(None, {i.name: np.zeros(i.shape, types[i.type]) for i in session.get_inputs()})

    return lambda: sessions.append(onnxruntime.InferenceSession(str(model), options)), run


if __name__ == "__main__":
    main()
