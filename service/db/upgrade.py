"""Opening a database: create or upgrade its schema, refuse one that is newer or not ours."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from compiler.errors import DatabaseError
from service.db.engine import BUSY_TIMEOUT_S, WRITE, check_sqlite_path, database_error, make_engine, parse_url
from service.db.engine import describe as describe_url
from service.db.session import Database
from service.settings import default_database_path

SCHEMA = "0001"
"""The newest revision in `migrations`."""
_LOCK = 0x4C75_7468  # any number that all versions of Luthier share


def open_database(url: str | None = None, *, upgrade: bool = False) -> Database:
    """Open a tuning log at the newest schema.

    An SQLite file is created and upgraded by itself; so is an empty PostgreSQL database. A PostgreSQL schema that is
    older is upgraded only with `upgrade`, because other servers may still use it.

    Args:
        url: a SQLAlchemy URL; None for the SQLite file in the user's data folder.
        upgrade: bring an older PostgreSQL schema up to date (`luthier db upgrade`).

    Raises:
        DatabaseError: it cannot be reached or written, is no tuning log, or its schema is newer than this Luthier.
    """
    if url is None:
        default = default_database_path()
        _make_folder(default.parent)
        url = f"sqlite:///{default}"
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        check_sqlite_path(parsed)
    engine = make_engine(parsed)
    try:
        _prepare(engine, parsed, upgrade=upgrade)
    except (SQLAlchemyError, sqlite3.Error) as error:
        engine.dispose()
        raise _translate(parsed, error) from None
    except DatabaseError:
        engine.dispose()
        raise
    return Database(engine)


def schema_is_current(database: Database) -> bool:
    """Whether the schema is the one that this code expects."""
    with database.read() as session:
        return _revisions(session.connection()) == {SCHEMA}


def _revisions(connection: Connection) -> set[str]:
    """What Alembic noted in the database; nothing where it never ran."""
    if not inspect(connection).has_table("alembic_version"):
        return set()
    return set(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())


def _prepare(engine: Engine, url: URL, *, upgrade: bool) -> None:
    sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        found = _revisions(connection)
        empty = not found and not inspect(connection).get_table_names()
    if found == {SCHEMA}:
        return
    if sqlite and empty:
        _use_wal(url)
    # The lock makes whoever comes second wait and then find the work done.
    with engine.execution_options(**{WRITE: True}).begin() as connection:
        if not sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        _upgrade(connection, url, allowed=sqlite or upgrade)


def _upgrade(connection: Connection, url: URL, *, allowed: bool) -> None:
    found = _revisions(connection)
    where = describe_url(url)
    if found == {SCHEMA}:
        return
    from service.db.migrate import known_revisions, migrate  # Alembic, which most openings never need

    if not found <= known_revisions().keys():
        msg = f"{where} was written by a newer Luthier; upgrade Luthier or name another database"
        raise DatabaseError(msg)
    if not found and inspect(connection).get_table_names():
        msg = f"{where} belongs to another program; name another database"
        raise DatabaseError(msg)
    if found and not allowed:
        msg = f"{where} has an older schema; stop its servers and run: luthier db upgrade"
        raise DatabaseError(msg)
    migrate(connection)


def _use_wal(url: URL) -> None:
    """Readers and the writer do not block each other under WAL. The mode stays with the file.

    SQLite does not always wait by itself when two processes switch a new file at once, hence the loop.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            with closing(sqlite3.connect(url.database or "", timeout=1.0)) as connection:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
                return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {folder} cannot be created ({error.strerror}); set LUTHIER_DATABASE_URL to another place"
        raise DatabaseError(msg) from None


def _translate(url: URL, error: SQLAlchemyError | sqlite3.Error) -> DatabaseError:
    if isinstance(error, sqlite3.Error):
        return database_error(url, DBAPIError(None, None, error))
    return database_error(url, error)
