"""How well compiling foretells what rounding does to a model: the estimate beside the true error.

    python -m benchmarks.rounding [PATTERN ...] [--models DIR] [--threads N] [--seeds 3]

A line per model: estimates by as many nudges (luthier/rounding.py takes the lesser of two, where the first is above the
budget), true errors of as many random inputs against float64, without care and with it, and seconds per estimate. The
reference takes minutes for a large model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.models import find_models
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import compile_image, load_graph, lower
from compiler.runtime.module import Module
from compiler.runtime.nudged import nudged
from compiler.schedule.source import NoSource
from compiler.workload.index_operands import input_index_extents
from examples.networks import filled
from luthier.build import BuildOptions, make_options
from luthier.lookups import Lookups
from luthier.rounding import difference, made_up_inputs


def main() -> None:
    """A line per model on stdout."""
    arguments = _arguments()
    options = make_options(threads=arguments.threads)
    with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
        for name, given in find_models(arguments.patterns, arguments.models).items():
            estimates, true, careful, seconds = judged(
                given or filled(name, Path(folder)), options, arguments.seeds
            )
            print(
                f"{name:24s} estimated {_texts(estimates)}  true {_texts(true)}  with care {_texts(careful)}"
                f"  {seconds:.2f} s",
                flush=True,
            )


def judged(
    path: Path, options: BuildOptions, seeds: int
) -> tuple[list[float], list[float], list[float], float]:
    """Estimates by nudge, true errors by seed of the inputs, the same with care, and seconds per estimate."""
    graph = load_graph(path, options.shapes)
    program = lower(graph)
    extents = input_index_extents(program)
    images = []
    for careful in (False, True):
        source = Lookups(NoSource(replace(options, careful=careful).task_error_budget), predict=True)
        images.append(compile_image(program, options.target, options.threads, source))
    estimates, true, with_care, start_s = [], [], [], time.monotonic()
    for seed in range(seeds):
        other = nudged(images[0], seed)
        inputs = made_up_inputs(images[0], extents, seed)
        with closing(Module(images[0])) as module, closing(Module(other or images[0])) as changed:
            estimates.append(difference(module.run(inputs), changed.run(inputs)))
    seconds = (time.monotonic() - start_s) / seeds
    for seed in range(seeds):
        inputs = made_up_inputs(images[0], extents, seed)
        expected = evaluate_graph(graph, inputs)
        for image, errors in zip(images, (true, with_care), strict=True):
            with closing(Module(image)) as module:
                errors.append(difference(expected, module.run(inputs)))
    return estimates, true, with_care, seconds


def _texts(errors: list[float]) -> str:
    return " ".join(f"{error:.1e}" for error in errors)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--models", type=Path, help="folder of filled networks")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
