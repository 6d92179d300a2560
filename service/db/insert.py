"""INSERT with ON CONFLICT, which SQLAlchemy spells per dialect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import CursorResult, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from service.db.models import Base

CHUNK = 500
"""Rows or values a statement; SQLite allows 32,766 variables."""

T = TypeVar("T")


def insert(session: Session, row: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that has `on_conflict_do_nothing` and `on_conflict_do_update`."""
    table = cast("Table", row.__table__)
    if session.get_bind().dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


def insert_new(session: Session, row: type[Base], values: Sequence[dict[str, Any]]) -> int:
    """Insert the rows that break no unique constraint; how many those were."""
    added = 0
    for chunk in chunks(values):
        statement = insert(session, row).values(list(chunk)).on_conflict_do_nothing()
        added += affected(session, statement)
    return added


def affected(session: Session, statement: Any) -> int:
    """Execute a statement that changes rows; how many it changed."""
    # An INSERT's count is thrown away unless it is asked for.
    result = session.execute(statement, execution_options={"preserve_rowcount": True})
    return cast("CursorResult[Any]", result).rowcount


def chunks(values: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """Slices of at most `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
