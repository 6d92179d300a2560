"""JobLedger: the states of jobs, used by the server and by `luthier tune` alike.

    submit → queued ── claim → running ── finish → succeeded | failed | cancelled
                ↑                 │
                └──── release ────┘          an owner that was killed: claim again (the job resumes)

Submitting a finished job runs it afresh; submitting a queued or running one finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from compiler.errors import LuthierError, ServiceError
from service import json_text
from service.db.blobs import byte_chunks, digest_of, write_blob
from service.db.models import JobRow
from service.db.session import Database, now_s
from service.jobs.job import FINISHED, Claim, Deadlines, Job, JobEvent, JobSpec, State, job_of, spec_json
from service.jobs.owner import Owner, is_alive, this_process
from service.jobs.repository import JobRepository
from service.records.repository import RecordRepository

HEARTBEAT_TIMEOUT_S = 60.0
"""After this long without a heartbeat, an owner that this machine cannot see is taken for dead."""

_LATE = "the job missed its deadline; what it measured is kept, submit it again to go on"

MAX_CRASHES = 5
"""A job whose owners die this often without adding a trial fails instead of killing one more."""


_NO_DEADLINES = Deadlines()


class ClaimLost(LuthierError):
    """Another process runs the job now; whatever this one still had must not be written."""


class JobLedger:
    """Thread-safe. A write is durable when the call returns. Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        """Use an open database; closing it stays with the caller."""
        self.database = database

    def submit(self, spec: JobSpec) -> Job:
        """Queue a job whose model is stored; a queued or running one is found, a finished one starts afresh."""
        with self.database.write() as session:
            return submit_in(session, spec)[0]

    def get(self, job: str) -> Job | None:
        """A job by id."""
        with self.database.read() as session:
            row = JobRepository(session).get(job)
            return None if row is None else job_of(row)

    def page(
        self, after: tuple[float, str] | None = None, limit: int = 50, state: State | None = None
    ) -> list[Job]:
        """Jobs, newest first, from behind (created_s, id)."""
        with self.database.read() as session:
            return [job_of(row) for row in JobRepository(session).page(after, limit, state)]

    def count_states(self) -> dict[str, int]:
        """Jobs in each state that has any."""
        with self.database.read() as session:
            return JobRepository(session).count_states()

    def claim(self, job: str | None = None) -> Claim | None:
        """The right to run the oldest job that waits or whose owner died (or that very job), None where none does."""
        with self.database.write() as session:
            repository = JobRepository(session)
            for row in repository.waiting():
                if job in (None, row.id) and (claim := _claim(session, repository, row)) is not None:
                    return claim
        return None

    def next_job(self) -> str | None:
        """The oldest job that waits or whose owner died, without claiming it."""
        with self.database.read() as session:
            clock_s = now_s(session)
            for row in JobRepository(session).waiting():
                if row.state == "queued" or _is_orphan(row, clock_s):
                    return row.id
        return None

    def start(self, spec: JobSpec) -> Claim:
        """Submit a job and claim it in one step; raises ServiceError where another process runs it already."""
        with self.database.write() as session:
            submit_in(session, spec)
            repository = JobRepository(session)
            row = repository.get(spec.id, lock=True)
            assert row is not None
            claim = _claim(session, repository, row)
            if claim is not None:
                return claim
            why = row.error or f"process {row.owner_pid} is running it already; wait for it or cancel it"
        msg = f"job {spec.id} cannot be started: {why}"
        raise ServiceError(msg)

    def note(
        self,
        claim: Claim,
        events: Sequence[tuple[str, Mapping[str, Any]]] = (),
        progress: Mapping[str, Any] | None = None,
    ) -> bool:
        """Add events, replace the progress and show a sign of life; whether the job shall be cancelled.

        Raises:
            ClaimLost: another process runs the job now.
        """
        with self.database.write() as session:
            repository = JobRepository(session)
            row = _owned(repository, claim)
            repository.add_events(row, events)
            if progress is not None:
                row.progress = json_text.dump(progress)
                row.crashes = 0 if progress.get("new_trials") else row.crashes
            row.heartbeat_s = now_s(session)
            return row.cancel_requested or _is_past(row.end_by_s, row.heartbeat_s)

    def release(self, claim: Claim) -> None:
        """Give an unfinished job back: queued, to be resumed by whoever claims it next."""
        with self.database.write() as session:
            repository = JobRepository(session)
            _move(session, repository, _owned(repository, claim), "queued")

    def finish(
        self,
        claim: Claim,
        state: State,
        *,
        report: Mapping[str, Any] | None = None,
        error: str | None = None,
        artifact: bytes | None = None,
    ) -> None:
        """End a job, with its report and artifact in the same transaction."""
        digest = None if artifact is None else digest_of(byte_chunks(artifact))
        with self.database.write() as session:
            repository = JobRepository(session)
            row = _owned(repository, claim)
            if artifact is not None and digest is not None:
                write_blob(session, digest, byte_chunks(artifact))
            if state == "cancelled" and _is_past(row.end_by_s, now_s(session)):
                state, error = "failed", _LATE
            row.report = None if report is None else json_text.dump(report)
            row.artifact, row.error = digest, error
            _move(session, repository, row, state)

    def expire(self) -> None:
        """Fail queued jobs that have missed a deadline."""
        with self.database.read() as session:
            if not JobRepository(session).late(now_s(session)):
                return
        with self.database.write() as session:
            repository = JobRepository(session)
            for row in repository.late(now_s(session)):
                row.error = _LATE
                _move(session, repository, row, "failed")

    def cancel(self, job: str) -> Job | None:
        """Cancel a queued job at once and a running one within seconds; a finished one stays as it is."""
        with self.database.write() as session:
            return cancel_in(session, job)

    def events(self, job: str, after: int = 0, limit: int = 500) -> list[JobEvent]:
        """Events numbered above `after`, in order."""
        with self.database.read() as session:
            return JobRepository(session).events(job, after, limit)

    def count_trials(self, claim: Claim) -> tuple[int, int]:
        """Trials that this run of the job has stored so far, and how many of them failed."""
        with self.database.read() as session:
            return JobRepository(session).count_trials(claim.tag)


def submit_in(session: Session, spec: JobSpec, deadlines: Deadlines = _NO_DEADLINES) -> tuple[Job, bool]:
    """Submit inside the caller's transaction; the job, and whether this submission queued it."""
    repository = JobRepository(session)
    row = repository.get(spec.id, lock=True)
    if row is not None and row.state not in FINISHED:
        return job_of(row), False
    if row is None:
        RecordRepository(session).put_target(spec.target)
        row = _new_row(spec, now_s(session))
        repository.add(row)
    else:
        repository.forget_events(row.id)
        row.run += 1
        row.report = row.error = row.artifact = row.finished_s = None
        row.cancel_requested, row.crashes, row.progress = False, 0, "{}"
    row.queued_s = now_s(session)
    row.start_by_s = None if deadlines.start_s is None else row.queued_s + deadlines.start_s
    row.end_by_s = None if deadlines.total_s is None else row.queued_s + deadlines.total_s
    _move(session, repository, row, "queued")
    session.flush()
    return job_of(row), True


def cancel_in(session: Session, job: str) -> Job | None:
    """Cancel inside the caller's transaction; None where there is no such job."""
    repository = JobRepository(session)
    row = repository.get(job, lock=True)
    if row is None:
        return None
    if row.state == "queued":
        _move(session, repository, row, "cancelled")
    row.cancel_requested = row.cancel_requested or row.state == "running"
    session.flush()
    return job_of(row)


def _new_row(spec: JobSpec, created_s: float) -> JobRow:
    return JobRow(
        id=spec.id,
        model=spec.model,
        target=spec.target.digest,
        request=json_text.dump(spec_json(spec)),
        progress="{}",
        cancel_requested=False,
        run=1,
        attempt=0,
        crashes=0,
        next_event=1,
        created_s=created_s,
        queued_s=created_s,
        state="queued",
    )


def _claim(session: Session, repository: JobRepository, row: JobRow) -> Claim | None:
    died = row.state == "running"
    if died and not _is_orphan(row, now_s(session)):
        return None
    row.crashes += died
    if row.cancel_requested:
        _move(session, repository, row, "cancelled")
        return None
    if row.crashes >= MAX_CRASHES:
        row.error = (
            f"the process that ran it died {row.crashes} times without a new trial; see the server's log"
        )
        _move(session, repository, row, "failed")
        return None
    owner = this_process()
    row.attempt += 1
    row.start_by_s = None
    row.owner_boot, row.owner_pid, row.owner_start = owner.boot, owner.pid, owner.start
    _move(session, repository, row, "running")
    job = job_of(row)
    seconds = float(job.progress.get("seconds", 0.0))
    return Claim(row.id, row.attempt, f"{row.id}.{row.run}", job.spec, seconds)


def _is_past(deadline_s: float | None, clock_s: float) -> bool:
    return deadline_s is not None and clock_s > deadline_s


def _is_orphan(row: JobRow, clock_s: float) -> bool:
    owner = Owner(row.owner_boot or "", row.owner_pid or 0, row.owner_start or "")
    match is_alive(owner):
        case None:
            return clock_s - (row.heartbeat_s or 0.0) > HEARTBEAT_TIMEOUT_S
        case alive:
            return not alive


def _owned(repository: JobRepository, claim: Claim) -> JobRow:
    row = repository.get(claim.job, lock=True)
    if row is None or row.state != "running" or row.attempt != claim.attempt:
        msg = f"job {claim.job} is run by another process now"
        raise ClaimLost(msg)
    return row


def _move(session: Session, repository: JobRepository, row: JobRow, state: State) -> None:
    clock_s = now_s(session)
    row.state = state
    row.heartbeat_s = clock_s if state == "running" else None
    if state in FINISHED:
        row.finished_s = clock_s
    if state != "running":
        row.owner_boot = row.owner_pid = row.owner_start = None
    detail = {} if row.error is None else {"error": row.error}
    repository.add_events(row, [("state", {"state": state, "attempt": row.attempt, **detail})])
