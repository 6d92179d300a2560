"""TuningReport: what a tuning job gave, as the JSON document of `luthier tune` and a little more for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.errors import InputError


@dataclass(frozen=True, slots=True)
class TaskReport:
    """One Task of a TuningReport.

    Attributes:
        workload: digest of the Workload.
        name: for people.
        weight: how many times the model runs it.
        trials: new trials, failed ones included.
        untuned_us: microseconds of one run under the default Schedule; None where it was not measured.
        tuned_us: microseconds of one run under the best verified Schedule; None where there is none.
        gflops: 10^9 arithmetic operations a second of the best Schedule.
        roofline_fraction: time that the machine's peak would need over the time taken; above 1 where an algorithm needs
            fewer operations; None where it was not measured.
        status: how the Task ended, such as "tuned" or "cached".
        curve: (trials so far, best microseconds so far), one point per improvement.
    """

    workload: str
    name: str
    weight: int
    trials: int
    untuned_us: float | None
    tuned_us: float | None
    gflops: float | None
    roofline_fraction: float | None
    status: str
    curve: tuple[tuple[int, float], ...] = ()

    @property
    def speedup(self) -> float | None:
        """Untuned over tuned time."""
        if not self.untuned_us or not self.tuned_us:
            return None
        return self.untuned_us / self.tuned_us


@dataclass(frozen=True)
class TuningReport:
    """What a tuning job gave. Times of the whole model are medians in milliseconds.

    Attributes:
        speedup_interval: of untuned over tuned time, from runs in turns; None where there were too few of them.
        published: whether the tuned model beat the untuned one end to end, beyond doubt, and so is the job's artifact.
            Records are served in either case, but for those that were withdrawn.
        phases: seconds by what they were spent on, such as "time" or "build".
        max_relative_error: of the tuned model against the untuned one; None where it was not measured.
        engine_versions: of the packages that took part.
    """

    model: str
    target: str
    threads: int
    seconds: float
    trials: int
    failed_trials: int
    trials_per_second: float
    records_added: int
    cache_hits: int
    tasks: tuple[TaskReport, ...]
    untuned_ms: float | None
    tuned_ms: float | None
    speedup: float | None
    published: bool
    phases: Mapping[str, float] = field(default_factory=dict)
    max_relative_error: float | None = None
    speedup_interval: tuple[float, float] | None = None
    engine_versions: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TuningReport:
        """Read the document of `luthier tune --json`, of report.json or of a job; raises InputError on another."""
        try:
            tasks = tuple(_task(task) for task in data["tasks"])
            phases = {str(name): float(seconds) for name, seconds in data.get("phases", {}).items()}
            known = {k: data[k] for k in _FIELDS}
            more = {k: data[k] for k in ("max_relative_error", "engine_versions") if k in data}
            interval = data.get("speedup_interval")
            if interval is not None:
                low, high = map(float, interval)
                more["speedup_interval"] = (low, high)
            return TuningReport(**known, **more, tasks=tasks, phases=phases)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            msg = f"this is not a tuning report ({error!r}); give the document of `luthier tune --json`"
            raise InputError(msg) from error

    def gain(self) -> str:
        """How many times as fast the tuned model is, with the interval where there is one."""
        text = f"{self.speedup or 1.0:.2f} times as fast"
        if self.speedup_interval is None:
            return text
        low, high = self.speedup_interval
        return f"{text} ({low:.2f} to {high:.2f})"

    def to_json(self) -> dict[str, Any]:
        """The document of `luthier tune --json` (docs/contracts/tune.schema.json)."""
        document = {name: getattr(self, name) for name in _FIELDS}
        tasks = [{name: getattr(task, name) for name in _TASK_FIELDS} for task in self.tasks]
        return {
            **{k: document[k] for k in _FIELDS[:9]},
            "tasks": tasks,
            **{k: document[k] for k in _FIELDS[9:]},
        }

    def to_full_json(self) -> dict[str, Any]:
        """The same with each Task's curve and the phases: what report.json keeps."""
        document = self.to_json()
        for shown, task in zip(document["tasks"], self.tasks, strict=True):
            shown["curve"] = [list(point) for point in task.curve]
        return {
            **document,
            "phases": dict(self.phases),
            "max_relative_error": self.max_relative_error,
            "speedup_interval": None if self.speedup_interval is None else [*self.speedup_interval],
            "engine_versions": dict(self.engine_versions),
        }

    def save_html(self, path: str | Path) -> None:
        """Write the page: one file, nothing loaded from elsewhere. Raises InputError where it cannot be written."""
        from luthier.files import write_atomically
        from luthier.report.page import page

        write_atomically(Path(path), page(self).encode())


_FIELDS = (
    "model",
    "target",
    "threads",
    "seconds",
    "trials",
    "failed_trials",
    "trials_per_second",
    "records_added",
    "cache_hits",
    "untuned_ms",
    "tuned_ms",
    "speedup",
    "published",
)
_TASK_FIELDS = (
    "workload",
    "name",
    "weight",
    "trials",
    "untuned_us",
    "tuned_us",
    "gflops",
    "roofline_fraction",
    "status",
)


def _task(data: Mapping[str, Any]) -> TaskReport:
    curve = tuple((int(trial), float(best_us)) for trial, best_us in data.get("curve", ()))
    return TaskReport(**{k: data[k] for k in _TASK_FIELDS}, curve=curve)
