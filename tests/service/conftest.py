"""Databases and a server for the tests: each contract of the database runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from service.db.models import Base
from service.db.session import Database
from service.db.upgrade import open_database
from tests.service.postgres import cluster
from tests.service.server import Server, serve

KINDS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server that lives as long as the tests."""
    with cluster() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_database(postgres_url: str) -> Iterator[Database]:
    """One tuning log on it, for tests that need no database of their own."""
    opened = open_database(_new_database(postgres_url))
    yield opened
    opened.close()


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'log.db'}"
    return _new_database(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An open, empty tuning log of each kind."""
    if request.param == "sqlite":
        opened = open_database(f"sqlite:///{tmp_path / 'log.db'}")
        yield opened
        opened.close()
    else:
        opened = request.getfixturevalue("postgres_database")
        with opened.write() as session:
            session.execute(text(f"TRUNCATE {', '.join(Base.metadata.tables)} RESTART IDENTITY"))
        yield opened


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with a tuning log of its own."""
    with serve(f"sqlite:///{tmp_path_factory.mktemp('server') / 'log.db'}") as running:
        yield running


def _new_database(server: str) -> str:
    url = make_url(server)
    name = f"luthier_{uuid.uuid4().hex}"
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return str(url.set(database=name))
