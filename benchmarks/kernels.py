"""Time single operators, default and tuned, beside the machine's peaks and other engines.

    python -m benchmarks.kernels [SHAPE ...] [--threads 1] [--trials 64] [--seconds 2] [--json OUT] [--plot OUT.svg]

Per shape, in one run: the multiply-add peak of this moment, our kernel alone (its Task: default, tuned, share of the
roofline; real operations only) and the whole one-operator model, layout conversions of its input and output included,
in alternation with ONNX Runtime (and OpenVINO where it is installed).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import luthier
from benchmarks.kernel_shapes import SHAPES, save
from benchmarks.models import bench_model
from benchmarks.roofline_plot import roofline_svg
from compiler.target import native_target
from luthier.bench.engines import PEERS
from luthier.build import make_options
from workers.peaks import measure_peaks


def main() -> None:
    """Time what the arguments ask for; a table on stderr, JSON and a plot into files."""
    arguments = _arguments()
    rows = []
    for row in _rows(arguments):
        rows.append(row)
        _show(row)
    shares = [row["peak_share"] for row in rows if row["peak_share"]]
    print(f"median share of the peak {np.median(shares):.2f}, worst {min(shares):.2f}", file=sys.stderr)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.plot:
        arguments.plot.write_text(roofline_svg(rows))


def bench_kernel(
    name: str, folder: Path, arguments: argparse.Namespace, peers: Sequence[str]
) -> dict[str, Any]:
    """One row; the Task that counts is the one with the most operations."""
    path = save(name, folder)
    database = f"sqlite:///{folder / 'log.db'}"
    report = luthier.tune(path, trials=arguments.trials, threads=arguments.threads, database=database)
    task = max(report.tasks, key=lambda t: (t.gflops or 0.0) * (t.tuned_us or 0.0))
    peaks = measure_peaks(native_target(), arguments.threads)
    model = bench_model(
        path, make_options(threads=arguments.threads, database=database), peers, arguments.seconds
    )
    peak = peaks.operations_per_s / 1e9
    return {
        "shape": name,
        "threads": arguments.threads,
        "task": task.name,
        "peak_gflops": peak,
        "default_us": task.untuned_us,
        "tuned_us": task.tuned_us,
        "gflops": task.gflops,
        "peak_share": None if task.gflops is None else task.gflops / peak,
        "roofline_fraction": task.roofline_fraction,
        "model_ms": {engine: figures["median_ms"] for engine, figures in model["engines"].items()},
        "error": model["engines"]["tuned"]["max_relative_error"],
    }


def _rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    peers = [name for name in PEERS if find_spec(name) is not None]
    for name in arguments.shapes or SHAPES:
        with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
            yield bench_kernel(name, Path(folder), arguments, peers)


def _show(row: Mapping[str, Any]) -> None:
    times = "  ".join(f"{engine} {ms:.4f}" for engine, ms in row["model_ms"].items())
    print(
        f"{row['shape']:<26} default {row['default_us']:9.1f} us  tuned {row['tuned_us']:9.1f} us  "
        f"{row['gflops']:7.1f} of {row['peak_gflops']:.0f} GFLOP/s  roofline {row['roofline_fraction']:.2f}  "
        f"model ms: {times}  error {row['error']:.0e}",
        file=sys.stderr,
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="per shape, for whole models")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--plot", type=Path, metavar="OUT.svg")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except luthier.LuthierError as problem:
        sys.exit(f"benchmarks.kernels: {problem}")
