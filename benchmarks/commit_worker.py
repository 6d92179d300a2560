"""The process of one commit in `benchmarks.compare_commits`: `commit_worker.py MODEL OPTIONS`, the code by PYTHONPATH.

It uses only what every commit has: `luthier.compile`, `luthier.tune` and the Module's `run`. Each line that it reads is
a number of runs, each line that it writes JSON: first where its code is, then seconds per run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import luthier


def main() -> None:
    """Compile, then run as often as each line says, until the input ends."""
    model, options = sys.argv[1], json.loads(sys.argv[2])
    # Whatever a library prints must not reach the reader of our answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
        database, threads = f"sqlite:///{folder}/log.db", options["threads"]
        limits = {key: options[key] for key in ("trials", "seconds") if options[key] is not None}
        if limits:
            luthier.tune(model, threads=threads, database=database, **limits)
        module = luthier.compile(model, threads=threads, database=database)
        rng = np.random.default_rng(0)
        inputs = {spec.name: _values(rng, spec.shape, spec.dtype.numpy) for spec in module.inputs}
        _answer(answers, {"code": str(Path(luthier.__file__).parent.parent)})
        for line in sys.stdin:
            runs = int(line)
            start = time.perf_counter()
            for _ in range(runs):
                module.run(inputs)
            _answer(answers, (time.perf_counter() - start) / runs)
        module.close()


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def _answer(stream: object, value: object) -> None:
    print(json.dumps(value), file=stream, flush=True)  # type: ignore[call-overload]


if __name__ == "__main__":
    main()
