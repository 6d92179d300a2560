"""Pruning: what old jobs left is deleted and its space given back; what somebody still needs stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.target import PRESETS
from service.db.blobs import byte_chunks, digest_of, has_blob
from service.db.models import ModelRow
from service.db.session import Database
from service.db.upgrade import open_database
from service.jobs.job import JobSpec
from service.jobs.ledger import JobLedger
from service.models.repository import ModelRepository
from service.records.log import SqlTuningLog
from tests.service.server import Server, serve

MIB = 1 << 20


def spec_of(content: bytes) -> JobSpec:
    return JobSpec(digest_of([content]), PRESETS["x86-64-v4"], threads=1, trials=4)


def stored(database: Database, content: bytes) -> JobSpec:
    """A model in the database, and what asks for its tuning."""
    spec = spec_of(content)
    with database.write() as session:
        row = ModelRow(digest=spec.model, name="toy", size_bytes=len(content), tasks=1)
        ModelRepository(session).add(row, byte_chunks(content))
    return spec


def finished(database: Database, content: bytes, artifact: bytes) -> JobSpec:
    ledger, spec = JobLedger(database), stored(database, content)
    claim = ledger.start(spec)
    ledger.finish(claim, "succeeded", report={}, artifact=artifact)
    return spec


def has(database: Database, *contents: bytes) -> list[bool]:
    with database.read() as session:
        return [has_blob(session, digest_of([c])) for c in contents]


def test_models_and_artifacts_of_jobs_that_ended_go_and_the_others_stay(database: Database) -> None:
    done = finished(database, b"done", b"code")
    JobLedger(database).submit(stored(database, b"waits"))
    log = SqlTuningLog(database)
    assert log.prune(days=1.0)["blobs"] == 0
    assert log.prune(days=0.0)["blobs"] == 2
    assert has(database, b"done", b"code", b"waits") == [False, False, True]
    job = JobLedger(database).get(done.id)
    assert job is not None
    assert (job.state, job.artifact) == ("succeeded", None)


def test_a_model_that_was_pruned_can_be_stored_again(database: Database) -> None:
    finished(database, b"done", b"code")
    SqlTuningLog(database).prune(days=0.0)
    stored(database, b"done")
    assert has(database, b"done") == [True]


def test_a_sqlite_file_gets_smaller(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    database = open_database(f"sqlite:///{path}")
    finished(database, os.urandom(4 * MIB), os.urandom(4 * MIB))
    SqlTuningLog(database).prune(days=0.0)
    database.close()
    assert path.stat().st_size < MIB


@pytest.fixture
def pruned(tmp_path: Path) -> Iterator[tuple[Server, JobSpec]]:
    """A service whose one job has lost its model and its artifact."""
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with serve(url) as server:
        database = open_database(url)
        spec = finished(database, b"done", b"code")
        SqlTuningLog(database).prune(days=0.0)
        database.close()
        yield server, spec


def test_the_service_says_what_was_pruned(pruned: tuple[Server, JobSpec]) -> None:
    server, spec = pruned
    with server.client() as client:
        artifact = client.get(f"/v1/jobs/{spec.id}/artifact")
        again = client.post("/v1/jobs", json={"model": spec.model})
    assert artifact.status_code == 409
    assert "pruned" in artifact.json()["detail"]
    assert again.status_code == 404
    assert "upload it again" in again.json()["detail"]
