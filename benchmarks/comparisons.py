"""How often the final comparison is wrong while a neighbour loads the machine (docs/benchmarks.md).

    python -m benchmarks.comparisons [--comparisons 2000] [--unloaded] [--json OUT]

Compares one schedule of small kernels with itself, under two names, and with itself made 5 % slower, as the final
comparison of a tuning session does: the slower one is the default, which wins ties. Meanwhile another process computes
and streams memory, for random times with random pauses.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import mean, median

import onnx

from benchmarks.kernel_models import convolution, matmul, unary
from compiler.codegen.kernel import Kernel
from compiler.pipeline import build_kernel, load_graph, lower
from compiler.space.rules import build_space
from compiler.target import native_target
from tuner.measure import MeasureOptions
from tuner.pairs import differ
from tuner.task import Task
from workers.case import Case, make_case
from workers.turns import Contender, take_turns
from workers.verify import Shared

SLOWER = 1.05
_EQUAL_BAR, _FOUND_BAR = 0.03, 0.9
_DOUBT, _PRECISION = 0.05, 1e-6
_MODELS: tuple[Callable[[], onnx.ModelProto], ...] = (
    lambda: matmul(32, 64, 48),
    lambda: convolution(8, 16, (10, 10), (3, 3)),
    lambda: unary("Sigmoid", (32, 128)),
    lambda: matmul(16, 160, 160),  # its constants come from memory
)

_LOAD = """
import random, sys, time
import numpy as np
rng, a, b = random.Random(int(sys.argv[1])), np.ones((192, 192), np.float32), np.ones(1 << 22, np.float32)
while True:
    end, stream = time.monotonic() + rng.expovariate(1 / 0.2), rng.random() < 0.5
    while time.monotonic() < end:
        b.sum() if stream else a @ a
    time.sleep(rng.expovariate(1 / 0.2))
"""


class _Slower(Contender):
    """The same kernel, running one time in twenty more than it says."""

    def take(self) -> None:
        runs, self._runs = self._runs, round(SLOWER * self._runs)
        super().take()
        self.samples_s[-1] *= self._runs / runs
        self._runs = runs


def main() -> None:
    """Compare as the arguments say; figures on stdout; exit 1 where a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--unloaded", action="store_true", help="no other process")
    parser.add_argument("--json", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    with _neighbour(loaded=not arguments.unloaded):
        figures = compare(arguments.comparisons)
    print(json.dumps(figures, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures) + "\n")
    if figures["false_upper_bound"] > _EQUAL_BAR or figures["found"] < _FOUND_BAR:
        sys.exit(1)


def compare(comparisons: int) -> dict[str, float]:
    """So many comparisons of equals and as many of different ones, over the kernels in turn."""
    options = MeasureOptions()
    subjects = [_subject(model()) for model in _MODELS]
    false: list[bool] = []
    found: list[bool] = []
    rounds: list[int] = []
    start = time.perf_counter()
    for number in range(comparisons):
        task, case, kernel = subjects[number % len(subjects)]
        for kind, outcomes in ((Contender, false), (_Slower, found)):
            with ExitStack() as stack:
                shared = stack.enter_context(closing(Shared(case, [kernel])))
                default = kind(task, case, kernel, shared, stack)
                other = Contender(task, case, kernel, shared, stack)
                take_turns([default, other], options)
            faster = median(other.samples_s) < median(default.samples_s)
            outcomes.append(differ(default.samples_s, other.samples_s) and (faster or kind is Contender))
            rounds.append(len(other.samples_s))
    return {
        "comparisons": comparisons,
        "false": mean(false),
        "false_upper_bound": upper_bound(sum(false), len(false)),
        "found": mean(found),
        "rounds": mean(rounds),
        "seconds_each": (time.perf_counter() - start) / len(rounds),
    }


def _subject(model: onnx.ModelProto) -> tuple[Task, Case, Kernel]:
    target = native_target()
    with tempfile.TemporaryDirectory(prefix="luthier-bench-") as folder:
        onnx.save(model, Path(folder) / "subject.onnx")
        program = lower(load_graph(Path(folder) / "subject.onnx"))
    workload = max(program.subgraphs, key=lambda s: s.workload.operations).workload
    space = build_space(workload, target, 1)
    kernel = build_kernel(workload, space.schedule(space.default), target)
    return Task(workload, target, 1, 1, "subject"), make_case(workload, 0), kernel


def upper_bound(hits: int, count: int) -> float:
    """The share below which, with 95 % confidence, the true one lies (Clopper and Pearson, 1934)."""
    low, high = hits / count, 1.0
    while high - low > _PRECISION:
        share = (low + high) / 2
        at_most = sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(hits + 1))
        low, high = (share, high) if at_most > _DOUBT else (low, share)
    return high


@contextmanager
def _neighbour(*, loaded: bool) -> Iterator[None]:
    if not loaded:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", _LOAD, "0"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
