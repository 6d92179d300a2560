"""The work of a job: tune every Task of a model, compile it, prove the gain end to end.

    model → Graph → Program → untuned Module → TuningSession → tuned Module → comparison → report and artifact
                                                                    ↑ records that are slower in the model ↓
                                                                    └─────────────── withdrawn ────────────┘

Whatever runs candidates or compiled models does so in worker processes, never in this one.
"""

from __future__ import annotations

import logging
import math
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from compiler.errors import CompileError
from compiler.pipeline import compile_image, load_graph, lower
from compiler.runtime.artifact import image_bytes
from compiler.runtime.image import Image
from compiler.runtime.nudged import NUDGES, nudged
from compiler.schedule.source import NoSource, ScheduleSource
from compiler.target import usable_cores
from compiler.workload.leeway import rounds_to_short_floats
from compiler.workload.program import Program
from service.jobs.in_model import withdraw
from service.jobs.job import JobSpec
from service.jobs.report import Comparison, Spent, make_report
from service.records.log import SqlTuningLog
from service.records.source import SqlScheduleSource, model_error_budget, task_error_budget
from tuner.measure import Builder, Runner
from tuner.outcome import Event, SessionResult
from tuner.pairs import ratio_interval
from tuner.session import SessionOptions, TuningSession
from tuner.task import RecordKey, Task
from workers.end_to_end import INSIDE_SHARE, Compared, compare_models
from workers.local import LocalBuilder
from workers.local_pair import local_workers
from workers.peaks import measure_peaks

_LOG = logging.getLogger("luthier.jobs")

COMPARE_S = (1.0, 6.0)
"""The final comparison of whole models takes no less and no more than this, where a job's seconds allow."""

COMPARE_TIMEOUT_S = 600.0
COMPARE_SHARE = 0.1
"""It takes this share of the tuning, and no more than this share of a job's seconds."""
CLOSING_COMPILES = 3.5
"""What follows the tuning beside the comparison's own time, in compilations: one, and both models loaded and run."""
CLOSING_SHARE = 0.25
"""No more than this share of a job's seconds is kept for what follows the tuning."""

Progress = Callable[[Event], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A job that succeeded: its report, and the faster of the two models as a `.luthier` artifact."""

    report: dict[str, Any]
    artifact: bytes


@dataclass(frozen=True)
class Work:
    """What a run of a job needs.

    Attributes:
        name: of the model, for people.
        tag: what its trials are marked with.
        spent: what earlier attempts used of the job's bounds.
        progress: is told every Event.
        cancelled: is asked between steps whether to stop.
    """

    spec: JobSpec
    program: Program
    name: str
    log: SqlTuningLog
    tag: str
    spent: Spent
    progress: Progress
    cancelled: Callable[[], bool]


def run_work(work: Work) -> Outcome | None:
    """Do it; None where it was cancelled.

    Raises:
        LuthierError: the model cannot be compiled, or measuring as a whole broke.
    """
    start_s = time.monotonic()
    phases = _Phases(work.progress)
    # Before the tuning: it tells how long what follows that will take.
    untuned, careful = phases.run("compiling", lambda: _compile_by_rules(work))
    tasks = tasks_of(work.program, work.spec, careful=careful)
    result = phases.run("tuning", lambda: _tune(work, tasks, start_s, phases.seconds["compiling"]))
    if result.cancelled or work.cancelled():
        return None
    log = SqlScheduleSource(work.log, work.spec.error_budget, careful=careful)
    artifacts = {"untuned": untuned, "tuned": phases.run("compiling", lambda: _compile(work, log))}
    if work.cancelled():
        return None
    seconds = _compare_s(work.spec, phases.seconds["tuning"])
    compared = phases.run("comparing", lambda: _compare(work.spec, artifacts, seconds, kernels=True))
    withdrawn = withdraw(work.log, tasks, compared["untuned"], compared["tuned"], work.name, work.tag)
    if withdrawn:
        artifacts["tuned"] = phases.run("compiling", lambda: _compile(work, log))
        compared = phases.run("comparing", lambda: _compare(work.spec, artifacts, seconds, kernels=False))
    comparison = _comparison(work.spec, compared)
    peaks = measure_peaks(work.spec.target, work.spec.threads)
    settled = _with_withdrawn(result, withdrawn)
    spent = work.spent.plus(time.monotonic() - start_s)
    report = make_report(work.name, work.spec, settled, comparison, phases.seconds, spent, peaks)
    return Outcome(report, artifacts["tuned" if comparison.published else "untuned"])


def load_program(model: bytes, spec: JobSpec) -> Program:
    """The model of a job, split into Subgraphs; raises ModelError or InputError."""
    return lower(load_graph(model, spec.shapes or None))


def tasks_of(program: Program, spec: JobSpec, *, careful: bool = False) -> list[Task]:
    """Distinct Tasks of a Program, weighted by how often it runs each; `careful`: see `task_error_budget`."""
    weights = Counter(subgraph.workload.digest for subgraph in program.subgraphs)
    first = {subgraph.workload.digest: subgraph for subgraph in reversed(program.subgraphs)}
    budget = task_error_budget(spec.error_budget, careful=careful)
    return [
        Task(first[digest].workload, spec.target, spec.threads, weight, first[digest].name, budget)
        for digest, weight in weights.items()
    ]


def _tune(work: Work, tasks: list[Task], start_s: float, compiling_s: float) -> SessionResult:
    """`compiling_s`: how long the model takes to compile."""
    spec = work.spec
    used_s = work.spent.seconds + time.monotonic() - start_s
    options = SessionOptions(
        trials=None if spec.trials is None else max(0, spec.trials - work.spent.trials),
        seconds=seconds_to_tune(spec.seconds, used_s, compiling_s),
        seed=spec.seed,
        # What Ray's workers time on this machine is not ours to keep apart from what we build.
        ahead=1 if spec.runner == "local" or usable_cores() > spec.threads else 0,
    )
    with _workers(spec) as (builder, runner):
        return TuningSession(
            tasks,
            builder,
            runner,
            work.log,
            options,
            job=work.tag,
            progress=work.progress,
            cancelled=work.cancelled,
        ).run()


@contextmanager
def _workers(spec: JobSpec) -> Iterator[tuple[Builder, Runner]]:
    """Who builds and measures, until the end of the context."""
    if spec.runner == "ray":
        from workers.ray_runner import RayRunner

        # One more than there are free cores: builders take what others leave of theirs.
        free = usable_cores() - spec.threads
        processes = free + 1 if free > 0 else usable_cores()
        with closing(LocalBuilder(processes)) as builder, closing(RayRunner()) as ray:
            yield builder, ray
    else:
        with local_workers(spec.threads, platform.node() or "local") as workers:
            yield workers


def seconds_to_tune(seconds: float | None, used_s: float, compiling_s: float) -> float | None:
    """Seconds for the tuning itself: what is left of a job's, less what follows; `compiling_s`: a compilation's."""
    if seconds is None:
        return None
    comparing_s = (1 + INSIDE_SHARE) * min(COMPARE_S[1], COMPARE_SHARE * seconds)
    closing_s = min(CLOSING_SHARE * seconds, comparing_s + CLOSING_COMPILES * compiling_s)
    return max(0.0, seconds - used_s - closing_s)


def _compile(work: Work, source: ScheduleSource) -> bytes:
    return image_bytes(_image(work, source))


def _image(work: Work, source: ScheduleSource) -> Image:
    return compile_image(work.program, work.spec.target, work.spec.threads, source)


def _compile_by_rules(work: Work) -> tuple[bytes, bool]:
    """The untuned model, and whether it takes care for its outputs to keep to the error budget."""
    asked = work.spec.error_budget
    image = _image(work, NoSource(task_error_budget(asked)))
    artifact = image_bytes(image)
    if any(rounds_to_short_floats(subgraph.workload) for subgraph in work.program.subgraphs):
        return artifact, False  # that hides what kernels round
    others = (nudged(image, seed) for seed in range(NUDGES))
    if all(other is not None and _is_off(work.spec, artifact, image_bytes(other)) for other in others):
        careful = task_error_budget(asked, careful=True)
        _LOG.warning("%s enlarges errors; each task gets %.1e of its outputs", work.name, careful)
        return _compile(work, NoSource(careful)), True
    return artifact, False


def _is_off(spec: JobSpec, artifact: bytes, other: bytes) -> bool:
    """Whether a model and the same with its constants nudged are further apart than the error budget."""
    artifacts = {"made": artifact, "nudged": other}
    error = _compare(spec, artifacts, 0.0, kernels=False)["nudged"]["max_relative_error"]
    return model_error_budget(spec.error_budget) < error < math.inf


def _with_withdrawn(result: SessionResult, withdrawn: Collection[RecordKey]) -> SessionResult:
    tasks = (
        replace(t, status="withdrawn", tuned_s=t.untuned_s) if t.task.key in withdrawn else t
        for t in result.tasks
    )
    return replace(result, tasks=tuple(tasks))


def _compare_s(spec: JobSpec, tuning_s: float) -> float:
    low_s, high_s = COMPARE_S
    seconds = min(high_s, max(low_s, COMPARE_SHARE * tuning_s))
    return seconds if spec.seconds is None else min(seconds, COMPARE_SHARE * spec.seconds)


def _compare(
    spec: JobSpec, artifacts: Mapping[str, bytes], seconds: float, *, kernels: bool
) -> dict[str, Compared]:
    return compare_models(
        artifacts,
        threads=spec.threads,
        seed=spec.seed,
        seconds=seconds,
        timeout_s=COMPARE_TIMEOUT_S,
        kernels=kernels,
    )


def _comparison(spec: JobSpec, found: Mapping[str, Compared]) -> Comparison:
    untuned, tuned = found["untuned"], found["tuned"]
    if not untuned["samples_s"] or not tuned["samples_s"]:
        msg = "the compiled models could not be timed; try again, and report it if it happens again"
        raise CompileError(msg)
    low, _, high = ratio_interval(tuned["samples_s"], untuned["samples_s"])
    return Comparison(
        untuned_s=statistics.median(untuned["samples_s"]),
        tuned_s=statistics.median(tuned["samples_s"]),
        faster=(low, high),
        error=tuned["max_relative_error"],
        budget=model_error_budget(spec.error_budget),
    )


class _Phases:
    """Tells what is going on, and remembers how long each part took."""

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress

    def run(self, name: str, work: Callable[[], T]) -> T:
        self._progress(Event("state", {"state": "running", "phase": name}))
        start_s = time.monotonic()
        try:
            return work()
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start_s
