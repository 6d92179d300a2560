"""SqlTuningLog: the tuning log over SQL (tuner.database.TuningLog), with what people do to a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from sqlalchemy import delete, select, update

from service.db.blobs import delete_unused_blobs
from service.db.insert import affected
from service.db.models import EventRow, IdempotencyRow, JobRow
from service.db.session import Database, now_s
from service.records.convert import is_verified
from service.records.exchange import export_lines, import_lines
from service.records.repository import RecordRepository
from tuner.record import CODEGEN_EPOCH, Relative, Trial, TuningRecord
from tuner.task import RecordKey, Task

DAY_S = 86_400.0


class SqlTuningLog:
    """Thread-safe. A write is durable when the call returns. Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        """Use an open database; closing it stays with the caller."""
        self.database = database

    def append_trials(self, trials: Sequence[Trial], job: str | None = None) -> None:
        """Add trials in one transaction; a candidate that is known already (a batch sent twice) adds nothing."""
        if not trials:
            return
        with self.database.write() as session:
            RecordRepository(session).add_trials(trials, job)

    def trials(self, key: RecordKey, limit: int = 10_000) -> list[Trial]:
        """The newest `limit` trials of a key, oldest first."""
        with self.database.read() as session:
            return RecordRepository(session).trials(key, limit)

    def records(self, keys: Iterable[RecordKey]) -> Mapping[RecordKey, TuningRecord]:
        """The record of each key that has one, whatever its codegen epoch."""
        with self.database.read() as session:
            return RecordRepository(session).records(keys)

    def put_records(self, records: Sequence[TuningRecord]) -> int:
        """Keep each verified record that supersedes the kept one of its key; how many were kept."""
        verified = [record for record in records if is_verified(record)]
        if not verified:
            return 0
        with self.database.write() as session:
            return RecordRepository(session).put_records(verified)

    def put_tasks(self, tasks: Sequence[Task]) -> None:
        """Remember the workloads and targets that the keys of these tasks name."""
        with self.database.write() as session:
            repository = RecordRepository(session)
            repository.put_workloads(task.workload for task in tasks)
            for target in {task.target.digest: task.target for task in tasks}.values():
                repository.put_target(target)

    def relatives(self, limit: int = 1000) -> list[Relative]:
        """The newest records of any key whose Workload and Target are known, newest first."""
        with self.database.read() as session:
            return RecordRepository(session).relatives(limit)

    def stats(self) -> dict[str, int]:
        """How many records, trials, failed_trials, tasks, workloads and targets there are."""
        with self.database.read() as session:
            return RecordRepository(session).count()

    def export(self, stream: IO[str], *, trials: bool = True) -> int:
        """Write the log as JSON lines (see service.records.exchange); how many lines that made."""
        lines = 0
        with self.database.read() as session:
            for line in export_lines(RecordRepository(session), trials=trials):
                stream.write(line + "\n")
                lines += 1
        return lines

    def merge(self, lines: Iterable[str]) -> dict[str, int]:
        """Merge exported lines by key, all or nothing; counts of new records and trials, and of lines.

        Raises:
            InputError: a line is not valid; the message names its number, and nothing was written.
        """
        with self.database.write() as session:
            return import_lines(RecordRepository(session), lines)

    def prune(self, days: float = 90.0) -> dict[str, int]:
        """Delete what is older than `days` and not served, and give the space back; counts of what is gone.

        That is: trials; events, artifacts and models of jobs that have ended; records of other codegen epochs.
        """
        with self.database.write() as session:
            repository = RecordRepository(session)
            before_s = now_s(session) - days * DAY_S
            ended = JobRow.finished_s < before_s
            session.execute(delete(EventRow).where(EventRow.job.in_(select(JobRow.id).where(ended))))
            session.execute(update(JobRow).where(ended).values(artifact=None))
            answered = delete(IdempotencyRow).where(IdempotencyRow.created_s < before_s)
            counts = {
                "trials": repository.delete_trials_before(before_s),
                "records": repository.delete_records_of_other_epochs(CODEGEN_EPOCH),
                "answers": affected(session, answered),
                "blobs": delete_unused_blobs(session, before_s),
            }
        self.database.compact()
        return counts
