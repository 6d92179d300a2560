"""Time models in Luthier, untuned and tuned, beside ONNX Runtime (and OpenVINO where it is installed).

    python -m benchmarks.models [MODEL ...] [--threads 1,2] [--seconds 10] [--tune TRIALS] [--database URL] [--json OUT]

A MODEL is a name of examples/networks or the path of an ONNX file; without any, all of them. The engines of a model run
in alternation in one process, so only the ratios within a row mean something. "tuned" takes what the tuning log knows;
--tune fills it first. Errors are the largest difference from a float64 reference over its largest value.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import luthier
from compiler.pipeline import compile_program
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.target import usable_cores
from compiler.workload.evaluate import evaluate_program
from compiler.workload.program import Program
from examples.networks import NAMES, filled
from luthier.bench.engines import PEERS, Engine, LuthierEngine, make_peer
from luthier.bench.reference import make_inputs, relative_error
from luthier.bench.timing import Timing, time_engines
from luthier.build import BuildOptions, build_module, make_options, read_program


def main() -> None:
    """Time what the arguments ask for; a table on stderr, JSON into a file."""
    arguments = _arguments()
    rows = []
    for row in _rows(arguments):
        rows.append(row)
        _show(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def bench_model(path: Path, options: BuildOptions, peers: Sequence[str], seconds: float) -> dict[str, Any]:
    """One row: medians of every engine, ratios of their medians to the tuned one's, errors.

    Raises:
        LuthierError: the model cannot be compiled, or a peer refuses it.
    """
    program = read_program(path, options)
    inputs = _inputs(program, options)
    with ExitStack() as stack:
        untuned, tuned = (stack.enter_context(closing(m)) for m in _modules(program, options))
        engines: list[Engine] = [
            LuthierEngine(tuned, inputs, "tuned"),
            LuthierEngine(untuned, inputs, "untuned"),
            *(make_peer(name, path, inputs, options.threads) for name in peers),
        ]
        timings = time_engines(engines, seconds)
        reference = evaluate_program(program, inputs)
        row = {"model": path.stem, "threads": options.threads, "lookups": _lookups(tuned)}
        return {**row, **_figures(timings, reference)}


def _modules(program: Program, options: BuildOptions) -> Iterator[Module]:
    yield compile_program(program, options.target, options.threads, NoSource())
    yield build_module(program, options)


def _inputs(program: Program, options: BuildOptions) -> dict[str, np.ndarray]:
    with closing(compile_program(program, options.target, 1, NoSource())) as module:
        return make_inputs(module.inputs, program=program)


def _lookups(module: Module) -> dict[str, int]:
    answers = [task.lookup for task in module.lookups]
    return {answer: answers.count(answer) for answer in sorted(set(answers))}


def _figures(timings: Sequence[Timing], reference: Mapping[str, np.ndarray]) -> dict[str, Any]:
    ours = timings[0].percentile_ms(50)
    return {
        "engines": {
            t.engine.name: {
                "version": t.engine.version,
                "median_ms": t.percentile_ms(50),
                "p10_ms": t.percentile_ms(10),
                "p90_ms": t.percentile_ms(90),
                "runs": t.runs,
                "max_relative_error": relative_error(t.engine.run(), reference),
            }
            for t in timings
        },
        "ratio": {t.engine.name: t.percentile_ms(50) / ours for t in timings[1:]},
    }


def _rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    peers = [name for name in PEERS if find_spec(name) is not None]
    with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
        for model in arguments.models or NAMES:
            path = filled(model, folder) if model in NAMES else Path(model)
            for threads in arguments.threads:
                if arguments.tune:
                    luthier.tune(path, trials=arguments.tune, threads=threads, database=arguments.database)
                options = make_options(threads=threads, database=arguments.database)
                yield bench_model(path, options, peers, arguments.seconds)


def _show(row: Mapping[str, Any]) -> None:
    engines = row["engines"]
    times = "  ".join(f"{name} {figures['median_ms']:.3f} ms" for name, figures in engines.items())
    ratios = "  ".join(f"{name}/tuned {ratio:.2f}" for name, ratio in row["ratio"].items())
    error = engines["tuned"]["max_relative_error"]
    print(
        f"{row['model']:<20} {row['threads']} threads  {times}  {ratios}  error {error:.1e}", file=sys.stderr
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--threads", type=_thread_counts, default=[t for t in (1, 2) if t <= usable_cores()])
    parser.add_argument("--seconds", type=float, default=10.0, help="per model and number of threads")
    parser.add_argument("--tune", type=int, default=0, metavar="TRIALS")
    parser.add_argument("--database", metavar="URL")
    parser.add_argument("--json", type=Path, metavar="OUT")
    return parser.parse_args()


def _thread_counts(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    try:
        main()
    except luthier.LuthierError as problem:
        sys.exit(f"benchmarks.models: {problem}")
