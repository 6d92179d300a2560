"""Tuning in this process: what `luthier tune` and `luthier.tune` call. The same job as over REST, without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import InputError, ServiceError
from compiler.target import Target
from service.db.blobs import byte_chunks, digest_of
from service.db.models import ModelRow
from service.db.session import Database
from service.jobs.job import JobSpec
from service.jobs.ledger import ClaimLost, JobLedger
from service.jobs.recorder import Stop
from service.jobs.run import run_claim
from service.jobs.tune import load_program
from service.models.repository import ModelRepository
from tuner.outcome import Event

RUNNERS = ("local", "ray")


@dataclass(frozen=True)
class TuneRequest:
    """What to tune. Bounds and budget as in JobSpec.

    Attributes:
        model: bytes of the ONNX file, external data included.
        name: for people.
    """

    model: bytes
    name: str
    target: Target
    threads: int
    trials: int | None = None
    seconds: float | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    error_budget: float | None = None
    seed: int = 0
    runner: str = "local"

    def __post_init__(self) -> None:
        """Refuse an unknown runner and bounds that make no sense (InputError)."""
        if self.runner not in RUNNERS:
            msg = f"unknown runner {self.runner!r}; use one of: {', '.join(RUNNERS)}"
            raise InputError(msg)
        if self.threads < 1 or (self.trials or 0) < 0 or (self.seconds is not None and not self.seconds > 0):
            msg = "threads must be 1 or more, trials 0 or more, and seconds above 0; correct the option"
            raise InputError(msg)
        if self.error_budget is not None and not 0 < self.error_budget < 1:
            msg = f"the error budget is {self.error_budget}; give a number between 0 and 1, such as 1e-4"
            raise InputError(msg)

    def spec(self) -> JobSpec:
        """The job that this is."""
        return JobSpec(
            model=digest_of(byte_chunks(self.model)),
            target=self.target,
            threads=self.threads,
            shapes=self.shapes,
            error_budget=self.error_budget,
            trials=self.trials,
            seconds=self.seconds,
            seed=self.seed,
            runner=self.runner,
        )


def tune_model(
    request: TuneRequest,
    database: Database,
    *,
    progress: Callable[[Event], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Tune a model here and now, and return the report (the JSON document of `luthier tune`).

    A job that was cut short by a crash is resumed: what it measured counts, and is not measured again.

    Args:
        request: what to tune.
        database: the open tuning log.
        progress: is told every Event, from this thread.
        cancelled: is asked, from another thread and twice a second, whether to stop.

    Raises:
        ModelError, InputError: the model cannot be tuned.
        MeasureError: measuring as a whole broke.
        ServiceError: another process runs the very same job, or it was cancelled.
        DatabaseError: the tuning log cannot be read or written.
    """
    spec = request.spec()
    program = load_program(request.model, spec)  # before anything is written: a bad model leaves no trace
    _store_model(request, spec, database)
    claim = JobLedger(database).start(spec)

    def interrupted() -> Stop | None:
        return Stop.CANCEL if cancelled is not None and cancelled() else None

    try:
        job = run_claim(database, claim, program=program, progress=progress, interrupted=interrupted)
    except ClaimLost as error:
        raise ServiceError(str(error)) from error
    if job.report is None:
        msg = f"the job was {job.state}; what it measured is kept, run the same command to go on"
        raise ServiceError(msg)
    return dict(job.report)


def _store_model(request: TuneRequest, spec: JobSpec, database: Database) -> None:
    row = ModelRow(digest=spec.model, name=request.name[:200], size_bytes=len(request.model), tasks=None)
    with database.write() as session:
        ModelRepository(session).add(row, byte_chunks(request.model))
