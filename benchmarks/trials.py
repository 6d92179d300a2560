"""How much the time of a trial depends on the moment it was taken at (docs/decisions/0030-trials-at-a-pace.md).

    python -m benchmarks.trials MODEL [--tasks 5] [--candidates 20] [--repeats 6]

Measures the same candidates of the heaviest Tasks again and again, in alternation one at a time and all in turns, and
prints per Task the standard deviation of the logarithms of a candidate's times: one at a time, in turns, and at the
pace of the default. Then how many pairs, of those more than 3 % apart, trials of different moments order alike.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.record import network_tasks
from compiler.space.rules import build_space
from compiler.target import native_target
from tuner.candidate import Candidate
from tuner.cost_model.gates import GAP
from tuner.measure import Built, Measured, MeasureInput, MeasureResult
from tuner.task import Task
from workers.local import LocalBuilder, LocalRunner
from workers.local_pair import local_workers

Array = NDArray[np.float64]
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
    print(f"{'':44s}  spread of the logarithms    pairs ordered alike")
    print(f"{'':44s}   alone   turns    pace      alone   turns    pace")
    with local_workers(1) as (builder, runner):
        for task in network_tasks(arguments.model, arguments.tasks, 1, native_target(), set()):
            built = _built(task, arguments.candidates, builder)
            alone, turns = repeated(task, built, runner, arguments.repeats)
            ways = [times(alone), times(turns), times(turns, paced=True)]
            figures = [*(spread(way) for way in ways), *(agreement(way) for way in ways)]
            print(f"{task.name[:44]:44s}" + "{:8.3f}{:8.3f}{:8.3f}   {:8.3f}{:8.3f}{:8.3f}".format(*figures))


def repeated(task: Task, built: Sequence[Built], runner: LocalRunner, repeats: int) -> tuple[Trials, Trials]:
    """The trials of candidates one at a time, and of all in turns, beside the first; the two alternate."""
    alone, turns = [], []
    for _ in range(repeats):
        alone.append([result for one in built for result in runner.run(task, [one])])
        turns.append(runner.run(task, built, built[0]))
    return alone, turns


def times(trials: Trials, *, paced: bool = False) -> Array:
    """Logarithms of what the faster half of the candidates took, by candidate and repeat: others are cut short.

    paced: at the pace of the one that was timed with them.
    """
    logs = np.log([[_time(r, paced=paced) for r in results] for results in zip(*trials, strict=True)])
    timed = logs[np.isfinite(logs).all(axis=1)]
    return timed[np.argsort(timed.min(axis=1))[: -(-len(timed) // 2)]]


def spread(logs: Array) -> float:
    """Standard deviation over the repeats, mean over the candidates."""
    return float(logs.std(axis=1, ddof=1).mean())


def agreement(logs: Array) -> float:
    """Share of the pairs more than GAP apart that are ordered alike, over all pairs of repeats.

    The two of a pair are from different repeats: candidates of different batches compete.
    """
    shares = []
    for one, other in itertools.permutations(range(logs.shape[1]), 2):
        first = logs[:, one][:, None] - logs[:, other][None]
        second = logs[:, other][:, None] - logs[:, one][None]
        apart = np.triu(np.abs(first) > np.log1p(GAP), 1)
        shares.extend((first > 0)[apart] == (second > 0)[apart])
    return float(np.mean(shares)) if shares else 1.0


def _time(result: MeasureResult, *, paced: bool) -> float:
    if not isinstance(result, Measured):
        return math.nan
    return (result.at_pace(1.0) if paced else result).median_s


def _built(task: Task, count: int, builder: LocalBuilder) -> list[Built]:
    space, rng = build_space(task.workload, task.target, task.threads), random.Random(0)
    chosen = [space.default, *(space.sample(rng) for _ in range(count - 1))]
    candidates = [Candidate(space.schedule(a), a) for a in dict.fromkeys(chosen)]
    built = builder.build([MeasureInput(task, candidate) for candidate in candidates])
    return [b for b in built if isinstance(b, Built)]


if __name__ == "__main__":
    main()
