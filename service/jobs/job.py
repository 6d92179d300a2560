"""A TuningJob: what was asked for (JobSpec), where it stands (Job), and the right to run it (Claim)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compiler.target import Target, target_from_json, target_json
from service import json_text
from service.db.models import JobRow
from service.jobs.owner import Owner

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
FINISHED: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})
STATES: tuple[State, ...] = ("queued", "running", "succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class JobSpec:
    """What a job is known by: the same specification is the same job.

    Attributes:
        model: digest of the model's bytes.
        trials, seconds: bounds of the whole job, None for no bound.
        shapes: extents for inputs whose shape the model leaves open.
        error_budget: largest error of the model's outputs, relative to the largest; None for the default.
        runner: where candidates are measured, "local" or "ray".
    """

    model: str
    target: Target
    threads: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    error_budget: float | None = None
    trials: int | None = None
    seconds: float | None = None
    seed: int = 0
    runner: str = "local"

    @property
    def id(self) -> str:
        """64 hexadecimal digits over every field."""
        return json_text.digest({**spec_json(self), "target": self.target.digest})


def spec_json(spec: JobSpec) -> dict[str, Any]:
    """JSON form of a specification."""
    return {
        "model": spec.model,
        "target": target_json(spec.target),
        "threads": spec.threads,
        "shapes": {name: list(shape) for name, shape in sorted(spec.shapes.items())},
        "error_budget": None if spec.error_budget is None else float(spec.error_budget),
        "trials": spec.trials,
        "seconds": None if spec.seconds is None else float(spec.seconds),
        "seed": spec.seed,
        "runner": spec.runner,
    }


def spec_from_json(data: Any) -> JobSpec:
    """Inverse of `spec_json`."""
    shapes = {str(name): tuple(int(n) for n in shape) for name, shape in data["shapes"].items()}
    return JobSpec(**{**data, "target": target_from_json(data["target"]), "shapes": shapes})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a submission may wait and take, in seconds since it was queued; no part of what the job is.

    Attributes:
        start_s: it fails where no server has started it by then.
        total_s: it fails where it has not ended by then, waiting included.
    """

    start_s: float | None = None
    total_s: float | None = None


@dataclass(frozen=True)
class Job:
    """Where a job stands. `progress` holds "phase", "trials", "failed_trials" and "seconds" once it runs."""

    id: str
    spec: JobSpec
    state: State
    progress: Mapping[str, Any]
    report: Mapping[str, Any] | None
    error: str | None
    artifact: str | None
    run: int
    attempt: int
    created_s: float
    queued_s: float
    finished_s: float | None
    owner: Owner | None
    cancel_requested: bool

    @property
    def is_finished(self) -> bool:
        """Whether nothing more will happen to it unless it is submitted again."""
        return self.state in FINISHED


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run a job. It is lost as soon as another process gets a newer `attempt`.

    Attributes:
        tag: what the trials of this run of the job are marked with.
        seconds: wall clock that earlier attempts of this run used.
    """

    job: str
    attempt: int
    tag: str
    spec: JobSpec
    seconds: float


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job, numbered within it. `type` is task, trial, best or state."""

    seq: int
    type: str
    data: Mapping[str, Any]
    created_s: float


def job_of(row: JobRow) -> Job:
    """The job that a row holds."""
    owner = None
    if row.owner_boot is not None and row.owner_pid is not None:
        owner = Owner(row.owner_boot, row.owner_pid, row.owner_start or "")
    return Job(
        id=row.id,
        spec=spec_from_json(json_text.parse(row.request)),
        state=_state(row.state),
        progress=json_text.parse(row.progress),
        report=None if row.report is None else json_text.parse(row.report),
        error=row.error,
        artifact=row.artifact,
        run=row.run,
        attempt=row.attempt,
        created_s=row.created_s,
        queued_s=row.queued_s,
        finished_s=row.finished_s,
        owner=owner,
        cancel_requested=row.cancel_requested,
    )


def _state(text: str) -> State:
    for state in STATES:
        if state == text:
            return state
    msg = f"a job in state {text!r}"
    raise ValueError(msg)
