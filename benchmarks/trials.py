"""How much the time of a trial depends on the moment it was taken at (docs/decisions/0024-trials-in-turns.md).

    python -m benchmarks.trials MODEL [--tasks 5] [--candidates 20] [--repeats 6]

Measures the same candidates of the heaviest Tasks again and again, in alternation one at a time and all in turns, and
prints per Task the standard deviation of the logarithms of a candidate's times: of the median and of the least sample.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import mean, stdev

from benchmarks.search.record import network_tasks
from compiler.space.rules import build_space
from compiler.target import native_target
from tuner.candidate import Candidate
from tuner.measure import Built, Measured, MeasureInput, MeasureResult
from tuner.task import Task
from workers.local import LocalBuilder, LocalRunner

Trials = Sequence[Sequence[MeasureResult]]
"""Of each repeat, in the order of the candidates."""


def main() -> None:
    """Measure what the arguments name; a table on stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--candidates", type=int, default=20, help="of each Task")
    parser.add_argument("--repeats", type=int, default=6)
    arguments = parser.parse_args()
    print(f"{'spread of the logarithms of times':44s}   one at a time        in turns")
    print(f"{'':44s}  median   least    median   least")
    with closing(LocalBuilder()) as builder, closing(LocalRunner()) as runner:
        for task in network_tasks(arguments.model, arguments.tasks, 1, native_target(), set()):
            built = _built(task, arguments.candidates, builder)
            alone, turns = repeated(task, built, runner, arguments.repeats)
            figures = [spread(trials, least=least) for trials in (alone, turns) for least in (False, True)]
            print(f"{task.name[:44]:44s}" + "".join(f"{figure:8.3f}" for figure in figures))


def repeated(task: Task, built: Sequence[Built], runner: LocalRunner, repeats: int) -> tuple[Trials, Trials]:
    """The trials of candidates one at a time, and of all in turns; the two alternate."""
    alone, turns = [], []
    for _ in range(repeats):
        alone.append([result for one in built for result in runner.run(task, [one])])
        turns.append(runner.run(task, built))
    return alone, turns


def spread(trials: Trials, *, least: bool) -> float:
    """Standard deviation of the logarithms of a candidate's times, mean over the faster half: others are cut short.

    What all candidates of a repeat have in common orders none of them before another, and is left out.
    """
    times = [[_time(r, least=least) for r in results] for results in zip(*trials, strict=True)]
    timed = sorted((of_one for of_one in times if min(of_one) > 0), key=min)
    logs = [[math.log(t) for t in of_one] for of_one in timed[: -(-len(timed) // 2)]]
    common = [mean(repeat) for repeat in zip(*logs, strict=True)]
    return mean(stdev(x - c for x, c in zip(of_one, common, strict=True)) for of_one in logs)


def _time(result: MeasureResult, *, least: bool) -> float:
    if not isinstance(result, Measured):
        return 0.0
    return result.least_s if least else result.median_s


def _built(task: Task, count: int, builder: LocalBuilder) -> list[Built]:
    space, rng = build_space(task.workload, task.target, task.threads), random.Random(0)
    chosen = [space.default, *(space.sample(rng) for _ in range(count - 1))]
    candidates = [Candidate(space.schedule(a), a) for a in dict.fromkeys(chosen)]
    built = builder.build([MeasureInput(task, candidate) for candidate in candidates])
    return [b for b in built if isinstance(b, Built)]


if __name__ == "__main__":
    main()
