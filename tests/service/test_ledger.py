"""The ledger's contract, on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time

import pytest

from compiler.errors import ServiceError
from compiler.target import PRESETS
from service.db.models import JobRow, ModelRow
from service.db.session import Database
from service.jobs.job import Claim, Deadlines, JobSpec
from service.jobs.ledger import HEARTBEAT_TIMEOUT_S, MAX_CRASHES, ClaimLost, JobLedger, submit_in
from service.jobs.owner import Owner, is_alive, this_process
from service.models.repository import ModelRepository
from service.records.log import SqlTuningLog
from tests.service import samples

MODEL = "a" * 64
SPEC = JobSpec(MODEL, PRESETS["x86-64-v4"], threads=2, shapes={"x": (1, 8)}, trials=64)


@pytest.fixture
def ledger(database: Database) -> JobLedger:
    with database.write() as session:
        row = ModelRow(digest=MODEL, name="toy", size_bytes=3, tasks=2)
        ModelRepository(session).add(row, [b"abc"])
    return JobLedger(database)


def claimed(ledger: JobLedger, spec: JobSpec = SPEC) -> Claim:
    ledger.submit(spec)
    claim = ledger.claim(spec.id)
    assert claim is not None
    return claim


def state(ledger: JobLedger, spec: JobSpec = SPEC) -> str:
    job = ledger.get(spec.id)
    assert job is not None
    return job.state


def dead_process() -> Owner:
    code = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        owner = Owner(this_process().boot, process.pid, "1")
        process.kill()
    return owner


def give_to(ledger: JobLedger, owner: Owner, heartbeat_s: float | None = None) -> None:
    """Pretend that another process claimed the job."""
    with ledger.database.write() as session:
        row = session.get_one(JobRow, SPEC.id)
        row.owner_boot, row.owner_pid, row.owner_start = owner.boot, owner.pid, owner.start
        if heartbeat_s is not None:
            row.heartbeat_s = heartbeat_s


@pytest.mark.parametrize(
    "change",
    [
        {"model": "b" * 64},
        {"target": PRESETS["x86-64-v3"]},
        {"threads": 1},
        {"shapes": {}},
        {"error_budget": 1e-3},
        {"trials": None},
        {"seconds": 60.0},
        {"seed": 1},
        {"runner": "ray"},
    ],
)
def test_a_job_is_known_by_what_was_asked_for(change: dict[str, object]) -> None:
    same = dataclasses.replace(
        SPEC, shapes=dict(SPEC.shapes), target=dataclasses.replace(SPEC.target, name="other")
    )
    assert same.id == SPEC.id
    assert dataclasses.replace(SPEC, **change).id != SPEC.id  # type: ignore[arg-type]


def test_a_job_goes_from_queued_to_succeeded(ledger: JobLedger) -> None:
    claim = claimed(ledger)
    assert claim.spec == SPEC
    assert ledger.note(claim, [("trial", {"best_s": 1.0})], {"trials": 1, "seconds": 2.5}) is False
    ledger.finish(claim, "succeeded", report={"trials": 1}, artifact=b"code")
    job = ledger.get(SPEC.id)
    assert job is not None
    assert (job.state, job.report, job.owner) == ("succeeded", {"trials": 1}, None)
    assert job.artifact is not None
    events = ledger.events(SPEC.id)
    assert [event.seq for event in events] == [1, 2, 3, 4]
    shown = [event.data.get("state", event.type) for event in events]
    assert shown == ["queued", "running", "trial", "succeeded"]
    assert ledger.events(SPEC.id, after=3) == events[3:]


def test_submitting_a_waiting_job_finds_it(ledger: JobLedger) -> None:
    first = ledger.submit(SPEC)
    assert ledger.submit(SPEC) == first
    claim = ledger.claim()
    assert claim is not None
    assert ledger.submit(SPEC).state == "running"
    assert ledger.claim() is None
    assert len(ledger.page()) == 1


def test_submitting_a_finished_job_runs_it_afresh(ledger: JobLedger) -> None:
    first = claimed(ledger)
    SqlTuningLog(ledger.database).append_trials([samples.trial(1), samples.trial(2, None)], first.tag)
    assert ledger.count_trials(first) == (2, 1)
    ledger.finish(first, "succeeded", report={}, artifact=b"code")
    last = ledger.events(SPEC.id)[-1].seq
    second = claimed(ledger)
    assert second.tag != first.tag
    assert ledger.count_trials(second) == (0, 0)
    events = ledger.events(SPEC.id)
    assert [event.seq for event in events] == [last + 1, last + 2]


def test_a_released_job_is_resumed_with_what_it_spent(ledger: JobLedger) -> None:
    claim = claimed(ledger)
    ledger.note(claim, progress={"seconds": 12.5})
    ledger.release(claim)
    assert state(ledger) == "queued"
    again = claimed(ledger)
    assert (again.tag, again.seconds) == (claim.tag, 12.5)


def test_a_job_whose_process_was_killed_is_resumed(ledger: JobLedger) -> None:
    lost = claimed(ledger)
    assert ledger.next_job() is None
    give_to(ledger, dead_process())
    assert ledger.next_job() == SPEC.id
    again = ledger.claim()
    assert again is not None
    assert (again.tag, again.attempt) == (lost.tag, lost.attempt + 1)
    for write in (
        lambda: ledger.note(lost),
        lambda: ledger.release(lost),
        lambda: ledger.finish(lost, "succeeded", report={}),
    ):
        with pytest.raises(ClaimLost):
            write()
    assert state(ledger) == "running"


def test_a_process_that_cannot_be_seen_needs_a_heartbeat(ledger: JobLedger) -> None:
    claim = claimed(ledger)
    ledger.note(claim)
    elsewhere = Owner("another machine", 1, "1")
    assert is_alive(elsewhere) is None
    give_to(ledger, elsewhere)
    assert ledger.claim() is None
    job = ledger.get(SPEC.id)
    assert job is not None
    give_to(ledger, elsewhere, heartbeat_s=job.queued_s - 2 * HEARTBEAT_TIMEOUT_S)
    assert ledger.claim() is not None


def test_a_reused_process_id_is_not_the_owner() -> None:
    me = this_process()
    assert is_alive(me) is True
    assert is_alive(dataclasses.replace(me, start="1")) is False
    assert is_alive(dead_process()) is False


def test_a_job_that_kills_its_process_again_and_again_fails(ledger: JobLedger) -> None:
    claimed(ledger)
    owner = dead_process()
    for _ in range(MAX_CRASHES - 1):
        give_to(ledger, owner)
        assert ledger.claim() is not None
    give_to(ledger, owner)
    assert ledger.claim() is None
    job = ledger.get(SPEC.id)
    assert job is not None
    assert job.state == "failed"
    assert "died 5 times" in str(job.error)


def test_progress_forgives_crashes(ledger: JobLedger) -> None:
    claim = claimed(ledger)
    owner = dead_process()
    for _ in range(2 * MAX_CRASHES):
        ledger.note(claim, progress={"new_trials": 3})
        give_to(ledger, owner)
        again = ledger.claim()
        assert again is not None
        claim = again


def test_cancel(ledger: JobLedger) -> None:
    assert ledger.cancel("f" * 64) is None
    ledger.submit(SPEC)
    job = ledger.cancel(SPEC.id)
    assert job is not None
    assert job.state == "cancelled"
    claim = claimed(ledger)
    job = ledger.cancel(SPEC.id)
    assert job is not None
    assert job.state == "running"
    assert ledger.note(claim) is True
    ledger.finish(claim, "cancelled")
    assert state(ledger) == "cancelled"
    assert ledger.cancel(SPEC.id) == ledger.get(SPEC.id)


def test_a_cancelled_job_whose_process_was_killed_is_not_resumed(ledger: JobLedger) -> None:
    claimed(ledger)
    ledger.cancel(SPEC.id)
    give_to(ledger, dead_process())
    assert ledger.claim() is None
    assert state(ledger) == "cancelled"


def submit_with(ledger: JobLedger, deadlines: Deadlines) -> None:
    with ledger.database.write() as session:
        submit_in(session, SPEC, deadlines)


@pytest.mark.parametrize("deadlines", [Deadlines(start_s=1e-6), Deadlines(total_s=1e-6)])
def test_a_job_that_waits_for_too_long_fails(ledger: JobLedger, deadlines: Deadlines) -> None:
    submit_with(ledger, deadlines)
    time.sleep(0.01)
    ledger.expire()
    job = ledger.get(SPEC.id)
    assert job is not None
    assert job.state == "failed"
    assert "missed its deadline; " in str(job.error)
    ledger.submit(SPEC)
    ledger.expire()
    assert state(ledger) == "queued"


def test_a_job_that_takes_too_long_is_stopped_and_fails(ledger: JobLedger) -> None:
    submit_with(ledger, Deadlines(start_s=60, total_s=0.2))
    claim = ledger.claim()
    assert claim is not None
    assert ledger.note(claim) is False
    time.sleep(0.25)
    ledger.expire()
    assert state(ledger) == "running"
    assert ledger.note(claim) is True
    ledger.finish(claim, "cancelled")
    assert state(ledger) == "failed"


def test_start_claims_at_once_or_says_who_has_it(ledger: JobLedger) -> None:
    assert ledger.start(SPEC).attempt == 1
    with pytest.raises(ServiceError, match=f"process {this_process().pid} is running it"):
        ledger.start(SPEC)


def test_one_claim_among_many(ledger: JobLedger) -> None:
    specs = [dataclasses.replace(SPEC, seed=seed) for seed in range(6)]
    for spec in specs:
        ledger.submit(spec)
    claims: list[Claim | None] = []

    def take() -> None:
        claims.extend(ledger.claim() for _ in range(3))

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = [claim.job for claim in claims if claim is not None]
    assert len(taken) == len(set(taken))
    while (claim := ledger.claim()) is not None:
        taken.append(claim.job)
    assert sorted(taken) == sorted(spec.id for spec in specs)


def test_pages_go_from_new_to_old(ledger: JobLedger) -> None:
    ids = [ledger.submit(dataclasses.replace(SPEC, seed=seed)).id for seed in range(5)]
    found: list[str] = []
    after = None
    while page := ledger.page(after, limit=2):
        found += [job.id for job in page]
        after = (page[-1].created_s, page[-1].id)
    assert sorted(found) == sorted(ids)
    assert [job.created_s for job in ledger.page()] == sorted(
        (j.created_s for j in ledger.page()), reverse=True
    )
