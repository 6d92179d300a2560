"""Whether the seed of a search decides how fast a model becomes.

    python -m benchmarks.seeds MODEL.onnx [--seeds 5] [--seconds 60] [--threads 1] [--compare 60]

Tunes the model once per seed, each time from an empty log, and then times what came out, and the untuned model, in
alternation. Prints a line each, with the time over that of the fastest (median over the rounds, and its interval).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import luthier
from compiler.runtime.artifact import image_bytes
from luthier.build import compile_model, make_options
from tuner.pairs import ratio_interval
from workers.end_to_end import compare_models

COMPARE_TIMEOUT_S = 600.0


def main() -> None:
    """Tune and compare what the arguments name; a table on stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compare", type=float, default=60.0, help="seconds of the comparison")
    given = parser.parse_args()
    artifacts = {}
    with tempfile.TemporaryDirectory() as folder:
        empty = f"sqlite:///{folder}/empty.db"
        artifacts["untuned"] = _compiled(given.model, given.threads, empty, predict=False)
        for seed in range(given.seeds):
            database = f"sqlite:///{folder}/{seed}.db"
            report = luthier.tune(
                given.model, threads=given.threads, seconds=given.seconds, database=database, seed=seed
            )
            print(
                f"seed {seed}: {report.trials} trials, {report.trials / report.seconds:.1f} a second of the whole job",
                flush=True,
            )
            artifacts[f"seed {seed}"] = _compiled(given.model, given.threads, database)
    found = compare_models(
        artifacts,
        threads=given.threads,
        seed=0,
        seconds=given.compare,
        timeout_s=COMPARE_TIMEOUT_S,
        kernels=False,
    )
    samples = {name: compared["samples_s"] for name, compared in found.items()}
    fastest = min(samples, key=lambda name: statistics.median(samples[name]))
    for name, taken in samples.items():
        low, ratio, high = ratio_interval(samples[fastest], taken)
        print(f"{name:10s} {statistics.median(taken) * 1e3:9.3f} ms  {ratio:.3f} ({low:.3f}..{high:.3f})")


def _compiled(model: Path, threads: int, database: str, *, predict: bool = True) -> bytes:
    """The artifact with what a log knows."""
    options = make_options(None, threads, None, None, database, predict=predict)
    return image_bytes(compile_model(model, options))


if __name__ == "__main__":
    main()
