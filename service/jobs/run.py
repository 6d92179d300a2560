"""Running a claimed job to its end, in this process: the same for the server's job process and `luthier tune`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from compiler.errors import InputError, LuthierError, MeasureError
from compiler.workload.program import Program
from service.db.blobs import read_blob
from service.db.session import Database
from service.jobs.job import Claim, Job
from service.jobs.ledger import ClaimLost, JobLedger
from service.jobs.recorder import Recorder, Stop
from service.jobs.report import Spent
from service.jobs.tune import Outcome, Work, load_program, run_work
from service.models.repository import ModelRepository
from service.records.log import SqlTuningLog
from tuner.outcome import Event

_LOG = logging.getLogger("luthier.jobs")


def never() -> Stop | None:
    """For callers that do not interrupt."""
    return None


def run_claim(
    database: Database,
    claim: Claim,
    *,
    program: Program | None = None,
    progress: Callable[[Event], None] | None = None,
    interrupted: Callable[[], Stop | None] = never,
) -> Job:
    """Run a claimed job and write down how it ended.

    Args:
        database: the open tuning log.
        claim: the right to run it.
        program: the model, where the caller has loaded it already.
        progress: is told every Event too.
        interrupted: is asked, from another thread, whether to stop.

    Returns:
        The job as it is now: finished, or queued again where it was released.

    Raises:
        LuthierError: why it failed; the job is `failed` then.
        ClaimLost: another process took it over.
    """
    ledger = JobLedger(database)
    spent = Spent(*ledger.count_trials(claim), claim.seconds)
    recorder = Recorder(ledger, claim, spent, interrupted, progress)
    try:
        with recorder:
            outcome = _work(database, claim, program, recorder, spent)
    except ClaimLost:
        raise
    except LuthierError as error:
        ledger.finish(claim, "failed", error=str(error))
        raise
    except KeyboardInterrupt:
        ledger.finish(claim, "cancelled")
        raise
    except Exception as error:
        _LOG.exception("job %s met a bug", claim.job)
        ledger.finish(
            claim, "failed", error=f"a bug ended the job ({type(error).__name__}: {error}); report it"
        )
        raise
    _finish(ledger, claim, outcome, recorder.stop)
    job = ledger.get(claim.job)
    assert job is not None
    return job


def _work(
    database: Database, claim: Claim, program: Program | None, recorder: Recorder, spent: Spent
) -> Outcome | None:
    with database.read() as session:
        row = ModelRepository(session).get(claim.spec.model)
        name = "model" if row is None else row.name
        model = b"" if program is not None else read_blob(session, claim.spec.model)
    if program is None and not model:
        msg = f"the model {name} was pruned from the database; upload it again"
        raise InputError(msg)
    try:
        loaded = program or load_program(model, claim.spec)
        log = SqlTuningLog(database)
        return run_work(Work(claim.spec, loaded, name, log, claim.tag, spent, recorder, recorder.should_stop))
    except MeasureError:
        # Whoever ends this process may have ended its workers first; that is no failure of the job.
        if recorder.ask() is None:
            raise
        return None


def _finish(ledger: JobLedger, claim: Claim, outcome: Outcome | None, stop: Stop | None) -> None:
    match outcome, stop:
        case Outcome(report, artifact), _:
            ledger.finish(claim, "succeeded", report=report, artifact=artifact)
        case None, Stop.RELEASE:
            ledger.release(claim)
        case None, Stop.LOST:
            msg = f"job {claim.job} is run by another process now, or the database was away for too long"
            raise ClaimLost(msg)
        case _:
            ledger.finish(claim, "cancelled")
