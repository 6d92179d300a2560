"""Database: transactions over an Engine. The only place that commits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from sqlalchemy import Engine, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from compiler.errors import DatabaseError
from service.db.engine import WRITE, database_error, describe

WORTH_COMPACTING = 4
"""The file is written afresh where more than one page in so many is free."""


class Database:
    """The tuning log's database at the newest schema. Thread-safe. Close it after use."""

    def __init__(self, engine: Engine) -> None:
        """Take over an engine whose schema is up to date; `open_database` makes one."""
        self._engine = engine
        self._writer = engine.execution_options(**{WRITE: True})

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return describe(self._engine.url)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session on one consistent state; nothing it changes is kept. Raises DatabaseError."""
        with self._translated(), Session(self._engine) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that is committed durably at the end, or rolled back on any exception. Raises DatabaseError."""
        with self._translated(), Session(self._writer) as session:
            yield session
            session.commit()

    def compact(self) -> None:
        """Give the file system back what deletions left free, where that is much; PostgreSQL does so by itself."""
        if self._engine.dialect.name != "sqlite":
            return
        with self._translated(), closing(self._engine.raw_connection()) as connection:
            cursor = connection.cursor()
            free, pages = (
                cursor.execute(f"PRAGMA {n}").fetchone()[0] for n in ("freelist_count", "page_count")
            )
            if free * WORTH_COMPACTING > pages:
                cursor.execute("VACUUM")

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout:
            msg = f"{self.url} has no free connection; try again in a moment"
            raise DatabaseError(msg) from None
        except DBAPIError as error:
            raise database_error(self._engine.url, error) from error
        except SQLAlchemyError as error:
            raise database_error(self._engine.url, error) from error


def now_s(session: Session) -> float:
    """Seconds since 1970 by the clock that all writers share: the server's on PostgreSQL, this machine's on SQLite."""
    if session.get_bind().dialect.name == "sqlite":
        return time.time()
    return float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)
