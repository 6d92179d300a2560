"""The report of a job: the JSON document of `luthier tune` (docs/contracts), with curves and phases for the page."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.jobs.job import JobSpec
from tuner.outcome import SessionResult, TaskResult
from workers.peaks import Peaks

_ENGINES = ("luthier", "llvmlite", "numpy", "onnx", "xgboost-cpu", "xgboost")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a job has used of its bounds: trials, how many of them failed, and seconds of wall clock."""

    trials: int = 0
    failed: int = 0
    seconds: float = 0.0

    def plus(self, seconds: float) -> Spent:
        """The same, and more seconds."""
        return Spent(self.trials, self.failed, self.seconds + seconds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whole models against each other.

    Attributes:
        untuned_s: median of a run.
        tuned_s: the same.
        faster: interval of untuned over tuned, of runs taken in turns; (0, infinity) from too few.
        error: of the tuned one from the untuned one.
        budget: what the error may be.
    """

    untuned_s: float
    tuned_s: float
    faster: tuple[float, float]
    error: float
    budget: float

    @property
    def published(self) -> bool:
        """Whether the tuned model is right, and faster beyond doubt."""
        return self.error <= self.budget and self.faster[0] > 1


def make_report(
    name: str,
    spec: JobSpec,
    result: SessionResult,
    comparison: Comparison,
    phases: Mapping[str, float],
    spent: Spent,
    peaks: Peaks,
) -> dict[str, Any]:
    """The document. `spent` holds the trials of earlier attempts, and the seconds of all; `peaks` give the roofline."""
    trials = spent.trials + result.trials
    tuning_s = phases.get("tuning", 0.0)
    return {
        "model": name,
        "target": spec.target.name,
        "threads": spec.threads,
        "seconds": spent.seconds,
        "trials": trials,
        "failed_trials": spent.failed + result.failed_trials,
        "trials_per_second": result.trials / tuning_s if tuning_s > 0 else 0.0,
        "records_added": result.records_added,
        "cache_hits": sum(task.cached for task in result.tasks),
        "tasks": [_task(task, peaks) for task in result.tasks],
        "untuned_ms": 1e3 * comparison.untuned_s,
        "tuned_ms": 1e3 * comparison.tuned_s,
        "speedup": comparison.untuned_s / comparison.tuned_s,
        "speedup_interval": [*comparison.faster] if math.isfinite(comparison.faster[1]) else None,
        "published": comparison.published,
        "max_relative_error": comparison.error if math.isfinite(comparison.error) else None,
        "phases": {**_without_tuning(phases), **result.phase_seconds},
        "engine_versions": _versions(),
    }


def _task(result: TaskResult, peaks: Peaks) -> dict[str, Any]:
    task, tuned_s = result.task, result.tuned_s
    return {
        "workload": task.workload.digest,
        "name": task.name,
        "weight": task.weight,
        "trials": result.trials,
        "untuned_us": None if result.untuned_s is None else 1e6 * result.untuned_s,
        "tuned_us": None if tuned_s is None else 1e6 * tuned_s,
        "gflops": task.workload.operations / tuned_s / 1e9 if tuned_s else None,
        "roofline_fraction": peaks.bound_s(task.workload) / tuned_s if tuned_s else None,
        "status": "cached" if result.cached else result.status,
        "curve": [[trials, 1e6 * best_s] for trials, _, best_s in result.curve if math.isfinite(best_s)],
    }


def _without_tuning(phases: Mapping[str, float]) -> dict[str, float]:
    """The session says itself where its time went."""
    return {name: seconds for name, seconds in phases.items() if name != "tuning"}


def _versions() -> dict[str, str]:
    found = {}
    for name in _ENGINES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
