"""What the API says about jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from compiler.target import get_target, usable_cores
from service.jobs.job import Job, JobSpec, State
from service.models.repository import model_digest, model_id
from service.problems import Problem

MAX_TRIALS = 1_000_000
MAX_SECONDS = 30 * 86_400.0
MAX_THREADS = 1024
Extent = Annotated[int, Field(ge=1, le=2**31 - 1)]
Shape = Annotated[list[Extent], Field(max_length=16)]


class JobDeadlines(BaseModel):
    """Seconds since the submission; a job that misses one fails, and keeps what it measured."""

    model_config = ConfigDict(extra="forbid")

    start_s: float | None = Field(default=None, gt=0, le=MAX_SECONDS, description="Until a server starts it.")
    total_s: float | None = Field(
        default=None, gt=0, le=MAX_SECONDS, description="Until its end, waiting included."
    )


class JobRequest(BaseModel):
    """What to tune, and how long. Without `trials` and `seconds` a job ends when nothing improves any more."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(max_length=80, description="Id of an uploaded model.")
    target: str = Field(
        "native", max_length=100, description="Name of a target; native is the server's machine."
    )
    trials: int | None = Field(
        None, ge=0, le=MAX_TRIALS, description="Bound on new trials, failed ones included."
    )
    seconds: float | None = Field(None, gt=0, le=MAX_SECONDS, description="Bound on the job's wall clock.")
    threads: int | None = Field(
        None, ge=1, le=MAX_THREADS, description="Threads; null for all cores it may use."
    )
    shapes: dict[Annotated[str, Field(max_length=500)], Shape] = Field(default_factory=dict, max_length=100)
    error_budget: float | None = Field(None, gt=0, lt=1, description="Largest relative error of an output.")
    seed: int = Field(0, ge=0, le=2**63 - 1)
    deadlines: JobDeadlines = JobDeadlines()
    runner: Literal["local", "ray"] = Field("local", description="Where candidates are measured.")

    def spec(self) -> JobSpec:
        """The job that this asks for; raises TargetError or Problem."""
        target = get_target(self.target)
        if not target.is_native:
            detail = f"this server cannot run code for {self.target!r}; submit to one that can, or use native"
            raise Problem(422, "unknown-target", detail)
        return JobSpec(
            model=model_digest(self.model),
            target=target,
            threads=self.threads or usable_cores(),
            shapes={name: tuple(shape) for name, shape in self.shapes.items()},
            error_budget=self.error_budget,
            trials=self.trials,
            seconds=self.seconds,
            seed=self.seed,
            runner=self.runner,
        )


class JobView(BaseModel):
    """Where a job stands. `report` is there when it succeeded, `error` when it failed."""

    id: str
    model: str
    target: str
    threads: int
    trials: int | None
    seconds: float | None
    state: State
    progress: dict[str, Any]
    report: dict[str, Any] | None
    error: str | None
    created_s: float
    finished_s: float | None


def view_of(job: Job) -> JobView:
    """What the API shows of a job."""
    return JobView(
        id=job.id,
        model=model_id(job.spec.model),
        target=job.spec.target.name,
        threads=job.spec.threads,
        trials=job.spec.trials,
        seconds=job.spec.seconds,
        state=job.state,
        progress=dict(job.progress),
        report=None if job.report is None else dict(job.report),
        error=job.error,
        created_s=job.created_s,
        finished_s=job.finished_s,
    )
