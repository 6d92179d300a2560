"""Databases for the tests: each contract runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from service.db.session import Database
from service.db.upgrade import open_database
from tests.service.postgres import cluster


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server that lives as long as the tests."""
    with cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'log.db'}"
    server = make_url(request.getfixturevalue("postgres_url"))
    name = f"luthier_{uuid.uuid4().hex}"
    engine = create_engine(server.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return str(server.set(database=name))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open, empty tuning log of each kind."""
    opened = open_database(database_url)
    yield opened
    opened.close()
