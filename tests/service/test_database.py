"""Opening, upgrading and refusing databases."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, make_url, text

from compiler.errors import DatabaseError
from service.db.engine import parse_url
from service.db.migrate import known_revisions, migrations_config
from service.db.models import Base
from service.db.session import Database
from service.db.upgrade import SCHEMA, open_database, schema_is_current


def test_the_migrations_give_the_tables_of_the_models(database: Database) -> None:
    with database.read() as session:
        context = MigrationContext.configure(session.connection(), opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    assert schema_is_current(database)


def test_the_schema_is_the_newest_revision() -> None:
    assert [name for name, newest in known_revisions().items() if newest] == [SCHEMA]


def test_opening_again_finds_what_was_written(database_url: str) -> None:
    first = open_database(database_url)
    with first.write() as session:
        session.execute(text("INSERT INTO workloads VALUES ('a', 'b')"))
    first.close()
    second = open_database(database_url)
    with second.read() as session:
        assert session.execute(text("SELECT body FROM workloads")).scalar() == "b"
    second.close()


def test_downgrade_removes_everything(database_url: str) -> None:
    open_database(database_url).close()
    engine = create_engine(parse_url(database_url))
    with engine.begin() as connection:
        config = migrations_config()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()


def test_processes_that_upgrade_at_once_do_not_meet(database_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_open, args=(database_url,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    opened = open_database(database_url)
    assert schema_is_current(opened)
    opened.close()


def test_a_newer_schema_is_refused(database_url: str) -> None:
    first = open_database(database_url)
    with first.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    first.close()
    with pytest.raises(DatabaseError, match="newer Luthier; upgrade"):
        open_database(database_url)


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="another program"):
        open_database(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "malformed"),
        ("no url", "malformed"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("mysql://root:secret@localhost/x", "cannot live in 'mysql'"),
        ("postgresql://user:secret@host:port/x", "malformed"),
        ("sqlite:////proc/none/such/log.db", "does not exist"),
        ("sqlite:////proc/log.db", "cannot be opened for writing"),
        ("postgresql://someone:secret@127.0.0.1:1/x", "failed"),
        ("postgresql://someone:secret@nowhere.invalid/x?password=secret", "failed"),
    ],
)
def test_a_url_that_cannot_be_used_is_one_sentence_without_the_password(url: str, reason: str) -> None:
    with pytest.raises(DatabaseError, match=reason) as caught:
        open_database(url)
    message = str(caught.value)
    assert "secret" not in message
    assert "\n" not in message
    assert ";" in message


def test_files_that_are_no_database_are_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is a text, and longer than the header of a database " * 20)
    with pytest.raises(DatabaseError, match="no SQLite database"):
        open_database(f"sqlite:///{path}")
    with pytest.raises(DatabaseError, match="is a folder"):
        open_database(f"sqlite:///{tmp_path}")
    assert path.read_text().startswith("this is a text")


def test_sqlite_keeps_its_promises(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'log.db'}")
    with database.write() as session:
        for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):
            assert session.execute(text(f"PRAGMA {pragma}")).scalar() == value
    database.close()


def test_readers_are_not_blocked_by_a_writer(database: Database) -> None:
    with database.write() as writer:
        writer.execute(text("INSERT INTO workloads VALUES ('a', 'b')"))
        with database.read() as reader:
            assert reader.execute(text("SELECT count(*) FROM workloads")).scalar() == 0


def test_an_exception_rolls_back(database: Database) -> None:
    def fail() -> None:
        with database.write() as session:
            session.execute(text("INSERT INTO workloads VALUES ('a', 'b')"))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with database.read() as session:
        assert session.execute(text("SELECT count(*) FROM workloads")).scalar() == 0


def test_the_url_is_shown_without_its_password() -> None:
    url = make_url("postgresql://someone:secret@db.example:5433/luthier?password=secret")
    engine = create_engine(url.set(drivername="postgresql+psycopg"))
    assert Database(engine).url == "postgresql://db.example:5433/luthier"
    engine.dispose()


def _open(url: str) -> None:
    open_database(url).close()
