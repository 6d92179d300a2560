"""Whole jobs on a real service: real candidates, real measurements, real kills."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler.runtime.module import load_module
from luthier.client import Client, Event, Job
from service.db.session import Database
from service.db.upgrade import open_database
from service.jobs.ledger import JobLedger
from service.jobs.repository import JobRepository
from service.records.log import SqlTuningLog
from tests.service.server import TOKEN, Server, serve, small_model

Submit = Callable[..., Job]
ENOUGH = 12
"""Trials that take more than one batch."""
LONG = 400
"""Trials that no test waits for."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


def until(condition: Callable[[], bool], timeout_s: float = 40.0) -> None:
    limit = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def submit() -> Iterator[Submit]:
    """`submit(server, trials)` queues a job of the small model."""
    with ExitStack() as clients:

        def submit_to(server: Server, trials: int, seed: int = 0) -> Job:
            client = clients.enter_context(Client(server.url, TOKEN))
            return client.submit(small_model(seed), name="small", trials=trials, threads=1)

        yield submit_to


def trials_of(database: Database, job: str) -> int:
    with database.read() as session:
        return JobRepository(session).count_trials(f"{job}.1")[0]


def owner(database: Database, job: str) -> int:
    found = JobLedger(database).get(job)
    assert found is not None
    assert found.owner is not None
    return found.owner.pid


def stored(database: Database, job: str) -> Callable[[], bool]:
    """Whether the first batch of trials is safe."""
    return lambda: trials_of(database, job) > 0


def check_finished(database: Database, job: Job, trials: int) -> None:
    """It ended well, and every trial was measured once."""
    report = job.wait(timeout=90).report()
    assert report["trials"] == trials_of(database, job.id) == trials
    assert SqlTuningLog(database).stats()["records"] == len(report["tasks"]) == 2


def test_a_job_from_submission_to_a_model_that_runs(server: Server, tmp_path: Path) -> None:
    events: list[Event] = []
    with Client(server.url, TOKEN) as client:
        job = client.submit(small_model(), name="small", trials=6, threads=1)
        job.wait(timeout=90, progress=events.append)
        assert job.status == "succeeded"
        assert job.id in [other.id for other in client.jobs()]
        assert client.job(job.id).document == job.document
        report = job.report()
        path = job.artifact(tmp_path / "small.luthier")

    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert sum(e.type == "trial" for e in events) == 6
    assert {"task", "trial", "best", "state"} == {e.type for e in events}
    assert [e.data["state"] for e in events if e.type == "state"][-1] == "succeeded"
    assert report["trials"] == 6
    assert report["published"] is (report["speedup_interval"][0] > 1)
    assert report["speedup"] == pytest.approx(report["untuned_ms"] / report["tuned_ms"])
    assert all(task["tuned_us"] > 0 for task in report["tasks"])

    x = np.random.default_rng(3).standard_normal((16, 96)).astype(np.float32)
    weights = {
        t.name: numpy_helper.to_array(t) for t in onnx.load_from_string(small_model()).graph.initializer
    }
    wanted = np.maximum(x @ weights["a"] + weights["b"], 0) @ weights["c"]
    module = load_module(path)
    np.testing.assert_allclose(module.run({"x": x})["y"], wanted, rtol=1e-3, atol=1e-3)
    module.close()


def test_events_go_on_behind_the_last_one_seen(server: Server, submit: Submit) -> None:
    job = submit(server, trials=4, seed=31)
    every = [(e.seq, e.type) for e in job.events(timeout=60)]
    assert [(e.seq, e.type) for e in job.events(after=every[2][0], timeout=60)] == every[3:]
    with server.client() as client:
        answer = client.get(f"/v1/jobs/{job.id}/events", headers={"Last-Event-ID": str(every[-2][0])})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("event: state\n")
    assert f"id: {every[-1][0]}\n" in answer.text


def test_a_running_job_is_cancelled_within_seconds(url: str, database: Database, submit: Submit) -> None:
    with serve(url) as server:
        job = submit(server, LONG)
        until(stored(database, job.id))
        start_s = time.monotonic()
        job.cancel()
        until(lambda: job.status == "cancelled")
        assert time.monotonic() - start_s < 12
        assert trials_of(database, job.id) > 0
        with server.client() as client:
            assert client.get(f"/v1/jobs/{job.id}/artifact").status_code == 409


@pytest.mark.faults
def test_kill_9_of_the_server_loses_nothing(url: str, database: Database, submit: Submit) -> None:
    with serve(url) as server:
        job = submit(server, ENOUGH)
        until(stored(database, job.id))
        child = owner(database, job.id)
        port = server.port
        server.kill()
        os.kill(child, signal.SIGKILL)
    acknowledged = trials_of(database, job.id)
    with serve(url, port):
        check_finished(database, job, ENOUGH)
    assert 0 < acknowledged <= ENOUGH
    found = JobLedger(database).get(job.id)
    assert found is not None
    assert found.attempt == 2


@pytest.mark.faults
def test_the_process_of_a_job_follows_its_server(url: str, database: Database, submit: Submit) -> None:
    with serve(url) as server:
        job = submit(server, LONG)
        until(stored(database, job.id))
        os.kill(owner(database, job.id), signal.SIGKILL)
        until(lambda: JobLedger(database).get(job.id).attempt == 2)  # type: ignore[union-attr]
        server.kill()
        until(lambda: job_state(database, job.id) == "queued")
    assert trials_of(database, job.id) > 0


def test_sigterm_puts_the_job_back_into_the_queue(url: str, database: Database, submit: Submit) -> None:
    with serve(url) as server:
        job = submit(server, LONG)
        until(stored(database, job.id))
        assert server.stop() == 0
        found = JobLedger(database).get(job.id)
        assert found is not None
        assert found.state == "queued"
        assert found.progress["seconds"] > 0


def job_state(database: Database, job: str) -> str:
    found = JobLedger(database).get(job)
    assert found is not None
    return found.state
