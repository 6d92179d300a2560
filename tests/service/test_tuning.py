"""Tuning without a server: the same job, in the caller's process."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.errors import InputError, ModelError, ServiceError
from compiler.pipeline import compile_program
from compiler.target import native_target
from service.db.session import Database
from service.db.upgrade import open_database
from service.jobs.ledger import JobLedger
from service.jobs.repository import JobRepository
from service.jobs.tune import COMPARE_S, load_program, seconds_to_tune
from service.records.log import SqlTuningLog
from service.records.source import SqlScheduleSource
from service.tuning import TuneRequest, tune_model
from tests.service.server import ROOT, small_model
from tuner.outcome import Event

REQUEST = TuneRequest(small_model(), "small", native_target(), threads=1, trials=10)
_CODE = """
import sys
from compiler.target import native_target
from service.db.upgrade import open_database
from service.tuning import TuneRequest, tune_model
if __name__ == "__main__":
    request = TuneRequest(sys.stdin.buffer.read(), "small", native_target(), threads=1, trials=int(sys.argv[2]))
    tune_model(request, open_database(sys.argv[1]))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


def test_what_follows_the_tuning_is_taken_off_its_seconds() -> None:
    assert seconds_to_tune(None, used_s=5.0, compiling_s=1.0) is None
    long, longer = (
        seconds_to_tune(600.0, used_s=10.0, compiling_s=2.0),
        seconds_to_tune(600.0, used_s=10.0, compiling_s=4.0),
    )
    assert long is not None
    assert longer is not None
    assert longer < long < 590.0 - COMPARE_S[1]
    # No more than a quarter is kept.
    assert seconds_to_tune(8.0, used_s=1.0, compiling_s=60.0) == pytest.approx(5.0)
    assert seconds_to_tune(8.0, used_s=9.0, compiling_s=1.0) == 0.0


def test_what_was_tuned_is_found_by_every_later_compile(database: Database) -> None:
    events: list[Event] = []
    report = tune_model(REQUEST, database, progress=events.append)
    assert (report["model"], report["trials"], report["cache_hits"]) == ("small", 10, 0)
    assert report["records_added"] == len(report["tasks"]) == 2
    assert sum(e.type == "trial" for e in events) == 10
    assert {e.data["phase"] for e in events if "phase" in e.data} == {"tuning", "compiling", "comparing"}

    log = SqlTuningLog(database)
    program = load_program(REQUEST.model, REQUEST.spec())
    module = compile_program(program, REQUEST.target, 1, SqlScheduleSource(log))
    assert [task.lookup for task in module.lookups] == ["exact", "exact"]
    module.close()
    trials = log.stats()["trials"]
    again = tune_model(dataclasses.replace(REQUEST, trials=0), database)
    assert (again["trials"], log.stats()["trials"]) == (0, trials)


def test_a_bad_model_leaves_no_trace(database: Database) -> None:
    with pytest.raises(ModelError):
        tune_model(dataclasses.replace(REQUEST, model=b"garbage"), database)
    assert JobLedger(database).page() == []
    assert database_is_empty(database)


@pytest.mark.parametrize(
    "change",
    [
        *({"runner": "cloud"}, {"threads": 0}, {"trials": -1}, {"seconds": 0.0}),
        *({"seconds": float("nan")}, {"error_budget": 0.0}),
    ],
)
def test_bad_options_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError, match=";"):
        dataclasses.replace(REQUEST, **change)  # type: ignore[arg-type]


def test_it_can_be_cancelled(database: Database) -> None:
    stop = threading.Event()
    request = dataclasses.replace(REQUEST, trials=400)

    def progress(event: Event) -> None:
        if event.type == "trial":
            stop.set()

    with pytest.raises(ServiceError, match="cancelled; what it measured is kept"):
        tune_model(request, database, progress=progress, cancelled=stop.is_set)
    job = JobLedger(database).get(request.spec().id)
    assert job is not None
    assert job.state == "cancelled"
    assert SqlTuningLog(database).stats()["trials"] > 0


@pytest.mark.faults
def test_the_same_command_after_kill_9_goes_on(url: str, database: Database) -> None:
    request = dataclasses.replace(REQUEST, trials=24)
    tag = f"{request.spec().id}.1"
    process = start(url, 24)
    limit = time.monotonic() + 40
    while count(database, tag) == 0:
        assert time.monotonic() < limit
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = count(database, tag)
    report = tune_model(request, database)
    assert before > 0
    assert report["trials"] == count(database, tag) == 24
    job = JobLedger(database).get(request.spec().id)
    assert job is not None
    assert (job.state, job.run, job.attempt) == ("succeeded", 1, 2)


def test_two_commands_for_one_job_do_not_both_run(url: str, database: Database) -> None:
    request = dataclasses.replace(REQUEST, trials=400)
    process = start(url, 400)
    ledger = JobLedger(database)
    limit = time.monotonic() + 40
    while (job := ledger.get(request.spec().id)) is None or job.state != "running":
        assert time.monotonic() < limit
        time.sleep(0.02)
    with pytest.raises(ServiceError, match=f"process {process.pid} is running it already"):
        tune_model(request, database)
    ledger.cancel(job.id)
    process.wait(30)
    found = ledger.get(job.id)
    assert found is not None
    assert found.state == "cancelled"


def start(url: str, trials: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-c", _CODE, url, str(trials))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert process.stdin is not None
    process.stdin.write(REQUEST.model)
    process.stdin.close()
    return process


def count(database: Database, tag: str) -> int:
    with database.read() as session:
        return JobRepository(session).count_trials(tag)[0]


def database_is_empty(database: Database) -> bool:
    return not any(SqlTuningLog(database).stats().values())
