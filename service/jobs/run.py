"""Running a claimed job to its end, in this process: the same for the server's job process and `luthier tune`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from compiler.errors import LuthierError, MeasureError
from service.db.blobs import read_blob
from service.db.session import Database
from service.jobs.job import Claim, Job
from service.jobs.ledger import ClaimLost, JobLedger
from service.jobs.recorder import Recorder, Stop
from service.jobs.report import Spent
from service.jobs.tune import Work, run_work
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
    progress: Callable[[Event], None] | None = None,
    interrupted: Callable[[], Stop | None] = never,
) -> Job:
    """Run a claimed job and write down how it ended.

    Args:
        database: the open tuning log.
        claim: the right to run it.
        progress: is told every Event too.
        interrupted: is asked, from another thread, whether to stop.

    Returns:
        The job as it is now: finished, or queued again where it was released.

    Raises:
        LuthierError: why it failed; the job is `failed` then.
        ClaimLost: another process took it over.
    """
    ledger = JobLedger(database)
    try:
        _run(database, ledger, claim, progress, interrupted)
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
    job = ledger.get(claim.job)
    assert job is not None
    return job


def _run(
    database: Database,
    ledger: JobLedger,
    claim: Claim,
    progress: Callable[[Event], None] | None,
    interrupted: Callable[[], Stop | None],
) -> None:
    spent = Spent(*ledger.count_trials(claim), claim.seconds)
    with Recorder(ledger, claim, spent, interrupted) as recorder:

        def tell(event: Event) -> None:
            recorder(event)
            if progress is not None:
                progress(event)

        with database.read() as session:
            row = ModelRepository(session).get(claim.spec.model)
            name = "model" if row is None else row.name
            model = read_blob(session, claim.spec.model)
        log = SqlTuningLog(database)
        work = Work(claim.spec, model, name, log, claim.tag, spent, tell, recorder.should_stop)
        try:
            outcome = run_work(work)
        except MeasureError:
            # Whoever ends us may have ended the workers first; that is no failure of the job.
            recorder.stop = recorder.stop or interrupted()
            if recorder.stop is None:
                raise
            outcome = None
    if outcome is not None:
        ledger.finish(claim, "succeeded", report=outcome.report, artifact=outcome.artifact)
    elif recorder.stop is Stop.RELEASE:
        ledger.release(claim)
    elif recorder.stop is Stop.CANCEL:
        ledger.finish(claim, "cancelled")
