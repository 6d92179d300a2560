"""SQL over jobs and their events. Nothing here commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, or_, select, tuple_
from sqlalchemy.orm import Session

from service import json_text
from service.db.insert import chunks, insert
from service.db.models import EventRow, JobRow, TrialRow
from service.db.session import now_s
from service.jobs.job import JobEvent


class JobRepository:
    """Queries of one session."""

    def __init__(self, session: Session) -> None:
        """Use this session."""
        self._session = session

    def get(self, job: str, *, lock: bool = False) -> JobRow | None:
        """A job's row, locked against other writers where asked (SQLite's writers are alone anyway)."""
        statement = select(JobRow).where(JobRow.id == job)
        return self._session.scalar(statement.with_for_update() if lock else statement)

    def add(self, row: JobRow) -> None:
        """Add a new job."""
        self._session.add(row)
        self._session.flush()

    def page(self, after: tuple[float, str] | None, limit: int, state: str | None) -> list[JobRow]:
        """Newest first, from behind (created_s, id)."""
        statement = select(JobRow).order_by(JobRow.created_s.desc(), JobRow.id.desc()).limit(limit)
        if after is not None:
            statement = statement.where(tuple_(JobRow.created_s, JobRow.id) < tuple_(*after))
        if state is not None:
            statement = statement.where(JobRow.state == state)
        return list(self._session.scalars(statement))

    def waiting(self) -> list[JobRow]:
        """Queued and running jobs that no other transaction is about to change, oldest first, locked."""
        statement = select(JobRow).where(JobRow.state.in_(("queued", "running"))).order_by(JobRow.queued_s)
        return list(self._session.scalars(statement.with_for_update(skip_locked=True)))

    def late(self, clock_s: float) -> list[JobRow]:
        """Queued jobs that have missed a deadline, locked."""
        missed = or_(JobRow.start_by_s < clock_s, JobRow.end_by_s < clock_s)
        statement = select(JobRow).where(JobRow.state == "queued", missed)
        return list(self._session.scalars(statement.with_for_update(skip_locked=True)))

    def count_states(self) -> dict[str, int]:
        """Jobs in each state that has any."""
        rows = self._session.execute(select(JobRow.state, func.count()).group_by(JobRow.state))
        return {state: int(count) for state, count in rows}

    def add_events(self, row: JobRow, events: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Number events and add them; the row must be locked."""
        created_s = now_s(self._session)
        values = [
            {"job": row.id, "seq": seq, "type": kind, "data": json_text.dump(data), "created_s": created_s}
            for seq, (kind, data) in enumerate(events, row.next_event)
        ]
        row.next_event += len(values)
        for chunk in chunks(values):
            self._session.execute(insert(self._session, EventRow).values(list(chunk)))

    def events(self, job: str, after: int, limit: int) -> list[JobEvent]:
        """Events numbered above `after`, in order."""
        statement = select(EventRow).where(EventRow.job == job, EventRow.seq > after)
        rows = self._session.scalars(statement.order_by(EventRow.seq).limit(limit))
        return [JobEvent(r.seq, r.type, json_text.parse(r.data), r.created_s) for r in rows]

    def forget_events(self, job: str) -> None:
        """Delete the events of an earlier run."""
        self._session.execute(delete(EventRow).where(EventRow.job == job))

    def count_trials(self, tag: str) -> tuple[int, int]:
        """Trials marked with the tag, and how many of them failed."""
        failed = func.count().filter(TrialRow.failed)
        row = self._session.execute(select(func.count(), failed).where(TrialRow.job == tag)).one()
        return int(row[0]), int(row[1])
