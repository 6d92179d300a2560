"""Engines from URLs: SQLite files and PostgreSQL servers, nothing else. No message ever shows a password."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from compiler.errors import DatabaseError

BUSY_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 10
WRITE = "luthier_write"
"""Execution option of connections that will write: on SQLite they take the write lock at BEGIN."""

_EXPECTED = "use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def parse_url(text: str) -> URL:
    """A database URL; raises DatabaseError where it is malformed or names another kind of database."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        msg = f"the database URL is malformed; {_EXPECTED}"
        raise DatabaseError(msg) from None
    match url.get_backend_name():
        case "sqlite" if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
            return url.set(drivername="sqlite+pysqlite")
        case "sqlite":
            msg = f"an SQLite tuning log needs a file; {_EXPECTED}"
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            msg = f"a tuning log cannot live in {other!r}; {_EXPECTED}"
    raise DatabaseError(msg)


def describe(url: URL) -> str:
    """The URL for messages: never a password, never the query."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{url.database}"
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{url.host or 'localhost'}{port}/{url.database or ''}"


def make_engine(url: URL) -> Engine:
    """An Engine that has not connected yet; raises DatabaseError where the driver is missing."""
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url)
    try:
        return create_engine(
            url,
            pool_pre_ping=True,
            pool_size=10,
            max_overflow=10,
            pool_timeout=BUSY_TIMEOUT_S,
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
        )
    except ModuleNotFoundError:
        msg = "PostgreSQL needs the driver psycopg; install it with: pip install 'luthier[postgres]'"
        raise DatabaseError(msg) from None


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url,
        pool_size=10,
        max_overflow=10,
        pool_timeout=BUSY_TIMEOUT_S,
        connect_args={"timeout": BUSY_TIMEOUT_S},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # Python's own transaction control begins too late (at the first write) and never IMMEDIATE.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        # FULL, not NORMAL: under WAL, NORMAL may lose the last commits when the power fails, and an acknowledged
        # trial must not be lost. Trials come in batches, so one fsync a batch costs nothing.
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A deferred transaction that turns into a writer fails at once when another wrote meanwhile; IMMEDIATE waits.
        immediate = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def database_error(url: URL, error: SQLAlchemyError | OSError) -> DatabaseError:
    """What a failure of the driver means to the user."""
    where = describe(url)
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(original).split())
    low = text.lower()
    if "not a database" in low or "malformed" in low:
        return DatabaseError(
            f"{where} is no SQLite database or is damaged; name another file or restore a backup"
        )
    if "readonly" in low or "unable to open" in low or "permission" in low:
        return DatabaseError(f"{where} cannot be opened for writing; check the folder and its permissions")
    if "database is locked" in low or "table is locked" in low:
        return DatabaseError(f"{where} is locked by another program; close it and try again")
    if "disk is full" in low or "no space" in low:
        return DatabaseError(f"{where} cannot grow, the disk is full; free some space and try again")
    return DatabaseError(f"{where} failed: {_short(text, url)}; check that it runs and that the URL is right")


def check_sqlite_path(url: URL) -> None:
    """Refuse a path that cannot be a database file, before SQLite creates anything."""
    path = Path(url.database or "")
    try:
        if path.is_dir():
            msg = f"{path} is a folder, not a database file; add a file name, such as {path}/luthier.db"
            raise DatabaseError(msg)
        if not path.absolute().parent.is_dir():
            msg = (
                f"the folder {path.absolute().parent} does not exist; create it or name another database file"
            )
            raise DatabaseError(msg)
    except OSError as error:
        raise database_error(url, error) from None


def _short(text: str, url: URL, limit: int = 200) -> str:
    password = str(url.password) if url.password else ""
    text = text.replace(password, "***") if password else text
    return text if len(text) <= limit else f"{text[:limit]}…"
