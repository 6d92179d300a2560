"""Whether trials order candidates as the network does that they are for (docs/decisions/0038).

    python -m benchmarks.in_network MODEL [--tasks 6] [--candidates 16] [--runs 12] [--starts]

Measures candidates of some Tasks, the heaviest of each kind of space first (`network_tasks` of the search lab), as
trials are measured, and then inside the network: for each of them the network is compiled with that candidate, run in
turns with the others, each time after a run that brings near what a network finds near when it runs again and again,
and its kernel's own time taken from the profile.
Prints per Task the default's time in a trial over that in the network, the root mean square of what the logarithms of
the others' times over the default's differ by, the pairs more than 3 % apart in the network that trials order alike,
and the time in the network of the best, and of the one that trials like best, over the default's.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.record import network_tasks
from compiler.pipeline import compile_program, load_graph, lower
from compiler.runtime.profile import Profiler
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import TASK_ERROR_BUDGET, Found
from compiler.space.rules import build_space
from compiler.target import Target, native_target
from compiler.workload.ir import Workload
from compiler.workload.program import Program
from luthier.bench.reference import make_inputs
from tuner.candidate import Candidate
from tuner.cost_model.gates import GAP
from tuner.measure import Built, Measured, MeasureInput
from tuner.search.variation import Variation
from tuner.task import Task
from workers.cores import cores_apart, stay_on
from workers.local_pair import local_workers

Array = NDArray[np.float64]
Candidates = dict[str, list[Candidate]]
"""By the Workload's digest; the default first."""

_NEAR = 0.7
"""Share of the candidates that are mutants of the default and of where the rules begin."""
_REPEATS = 3


class _Chosen:
    """A ScheduleSource of one Schedule for some Workloads."""

    error_budget = TASK_ERROR_BUDGET

    def __init__(self, schedules: dict[str, Schedule]) -> None:
        self._schedules = schedules

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        """The Schedule of each; None where the rules' own default serves."""
        known = (self._schedules.get(workload.digest) for workload in workloads)
        return [None if schedule is None else Found(schedule, "exact") for schedule in known]


def main() -> None:
    """Measure what the arguments name; a table on stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="ONNX file")
    parser.add_argument("--tasks", type=int, default=6)
    parser.add_argument("--candidates", type=int, default=16, help="of each Task")
    parser.add_argument("--runs", type=int, default=12, help="of the network with each")
    parser.add_argument("--starts", action="store_true", help="only the default and where the rules begin")
    options = parser.parse_args()
    tasks = network_tasks(options.model, options.tasks, 1, native_target(), set())
    chosen = {
        task.workload.digest: candidates(task, options.candidates, starts_only=options.starts)
        for task in tasks
    }
    trials = in_trials(tasks, chosen)
    apart = cores_apart(1)
    stay_on(None if apart is None else apart.timing)
    inside = in_network(lower(load_graph(options.model)), chosen, options.runs)
    print(f"{'':40s}   us   trial  rms   alike   best  liked")
    for task in tasks:
        digest = task.workload.digest
        print(f"{task.name[:40]:40s}" + compared(trials[digest], inside[digest]))
        for candidate, trial, net in zip(chosen[digest], trials[digest], inside[digest], strict=True):
            if options.starts:
                space = build_space(task.workload, task.target, task.threads)
                ratios = f"{trial / trials[digest][0]:.3f} {net / inside[digest][0]:.3f}"
                print(f"    {ratios}  {space.values(candidate.assignment or space.default)}")


def candidates(task: Task, count: int, *, starts_only: bool) -> list[Candidate]:
    """The default, where the rules begin, mutants of these, and uniform samples."""
    space, rng = build_space(task.workload, task.target, task.threads), random.Random(0)
    found = dict.fromkeys([space.default, *space.starts])
    starts, variation = list(found), Variation(space)
    for _ in range(0 if starts_only else 20 * count):
        if len(found) >= count:
            break
        near = rng.random() < _NEAR
        found[variation.mutate(rng.choice(starts), rng) if near else space.sample(rng)] = None
    return [Candidate(space.schedule(assignment), assignment) for assignment in found]


def in_trials(tasks: Sequence[Task], chosen: Candidates) -> dict[str, Array]:
    """Seconds of each candidate in a heat of all of them, the median of a few; NaN where it failed."""
    found: dict[str, Array] = {}
    with local_workers(1) as (builder, runner):
        for task in tasks:
            inputs = [MeasureInput(task, candidate) for candidate in chosen[task.workload.digest]]
            built = {n: b for n, b in enumerate(builder.build(inputs)) if isinstance(b, Built)}
            times = np.full((_REPEATS, len(inputs)), np.nan)
            for repeat in range(_REPEATS):
                for number, result in zip(built, runner.run(task, list(built.values())), strict=True):
                    times[repeat, number] = result.median_s if isinstance(result, Measured) else np.nan
            found[task.workload.digest] = np.median(times, axis=0)
    return found


def in_network(program: Program, chosen: Candidates, runs: int) -> dict[str, Array]:
    """Seconds of each candidate's kernel inside the network, the mean over all places where the network runs it."""
    places = [subgraph.workload.digest for subgraph in program.subgraphs]
    found = {digest: np.full(len(own), np.nan) for digest, own in chosen.items()}
    with ExitStack() as stack:
        profilers = []
        for number in range(max(map(len, chosen.values()))):
            schedules = {digest: own[number % len(own)].schedule for digest, own in chosen.items()}
            module = stack.enter_context(
                closing(compile_program(program, native_target(), 1, _Chosen(schedules)))
            )
            inputs = make_inputs(module.inputs, program=program)
            profilers.append(stack.enter_context(closing(Profiler(module.image, inputs))))
        for _ in range(runs):
            for profiler in profilers:
                profiler.sample(0.0)
        for number, profiler in enumerate(profilers):
            kernels = profiler.profile().kernels
            for digest, own in chosen.items():
                if number < len(own):
                    times = [k.median_s for k, place in zip(kernels, places, strict=True) if place == digest]
                    found[digest][number] = np.mean(times)
    return found


def compared(trials: Array, inside: Array) -> str:
    """A line of the table."""
    known = np.isfinite(trials)
    seen, true = (np.log(times[known] / times[0]) for times in (trials, inside))
    one, other = np.triu_indices(len(true), 1)
    apart = np.abs(true[one] - true[other]) > np.log1p(GAP)
    alike = ((true[one] - true[other]) * (seen[one] - seen[other]) > 0)[apart]
    figures = (
        trials[0] / inside[0],
        float(np.sqrt(np.mean((seen - true) ** 2))),
        float(alike.mean()) if apart.any() else np.nan,
        float(np.exp(true.min())),
        float(np.exp(true[np.argmin(seen)])),
    )
    return "{:6.0f}  {:5.2f}  {:.3f}  {:.3f}  {:.3f}  {:.3f}".format(1e6 * inside[0], *figures)


if __name__ == "__main__":
    main()
