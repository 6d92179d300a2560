"""SQL over keys, trials and records. Nothing here commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from sqlalchemy import Select, delete, func, select, text
from sqlalchemy.orm import Session

from compiler.schedule.schedule import LANGUAGE
from compiler.target import Target, target_json
from compiler.workload.ir import Workload, workload_json
from service import json_text
from service.db.insert import affected, chunks, insert, insert_new
from service.db.models import KeyRow, RecordRow, TargetRow, TrialRow, WorkloadRow
from service.db.session import now_s
from service.records.convert import (
    key_digest,
    key_of,
    record_of,
    record_values,
    relative_of,
    trial_of,
    trial_values,
)
from tuner.record import Relative, Trial, TuningRecord, supersedes
from tuner.task import RecordKey


class RecordRepository:
    """Queries of one session."""

    def __init__(self, session: Session) -> None:
        """Use this session."""
        self._session = session

    def add_trials(self, trials: Sequence[Trial], job: str | None) -> int:
        """Add those not known yet (same key, schedule and epoch); how many those were."""
        ids = self._ensure_keys({trial.key for trial in trials})
        created_s = now_s(self._session)
        rows = [{**trial_values(t), "key_id": ids[t.key], "job": job, "created_s": created_s} for t in trials]
        return insert_new(self._session, TrialRow, rows)

    def put_records(self, records: Sequence[TuningRecord]) -> int:
        """Keep each that supersedes the kept one of its key (tuner.record.supersedes); how many were kept."""
        ids = self._ensure_keys({record.key for record in records})  # locks them, so that the kept ones stay
        known = self.records(ids)
        count = 0
        for record in records:
            kept = known.get(record.key)
            if record != kept and supersedes(record, kept):
                self._replace_record(record, ids[record.key])
                known[record.key] = record
                count += 1
        return count

    def lock_keys(self) -> None:
        """Keep all other writers out until the end of the transaction, for one that touches keys in any order."""
        if self._session.get_bind().dialect.name == "postgresql":
            self._session.execute(text("LOCK TABLE record_keys IN EXCLUSIVE MODE"))

    def trials(self, key: RecordKey, limit: int) -> list[Trial]:
        """The newest `limit` of a key, oldest first."""
        rows = self._session.scalars(
            select(TrialRow)
            .join(KeyRow, KeyRow.id == TrialRow.key_id)
            .where(KeyRow.digest == key_digest(key))
            .order_by(TrialRow.id.desc())
            .limit(limit)
        ).all()
        return [trial_of(row, key) for row in reversed(rows)]

    def records(self, keys: Iterable[RecordKey]) -> dict[RecordKey, TuningRecord]:
        """The record of each key that has one."""
        wanted = {key_digest(key): key for key in keys}
        found: dict[RecordKey, TuningRecord] = {}
        for chunk in chunks(list(wanted)):
            statement = select(KeyRow.digest, RecordRow).join(RecordRow, RecordRow.key_id == KeyRow.id)
            for digest, row in self._session.execute(statement.where(KeyRow.digest.in_(chunk))):
                with suppress(ValueError, KeyError, TypeError):  # what cannot be read is a miss, not an error
                    found[wanted[digest]] = record_of(row, wanted[digest])
        return found

    def relatives(self, limit: int) -> list[Relative]:
        """The newest records whose Workloads and Targets are remembered, newest first."""
        statement = (
            select(KeyRow, RecordRow.schedule, WorkloadRow.body, TargetRow.body)
            .join(RecordRow, RecordRow.key_id == KeyRow.id)
            .join(WorkloadRow, WorkloadRow.digest == KeyRow.workload)
            .join(TargetRow, TargetRow.digest == KeyRow.target)
            .where(KeyRow.language == LANGUAGE)
            .order_by(RecordRow.created_s.desc(), KeyRow.id.desc())
            .limit(limit)
        )
        found = []
        for key, schedule, workload, target in self._session.execute(statement):
            with suppress(ValueError, KeyError, TypeError):  # what cannot be read is no seed, and no error
                found.append(relative_of(key_of(key), schedule, workload, target))
        return found

    def list_records(
        self, after: int, limit: int, target: str | None = None
    ) -> list[tuple[int, TuningRecord]]:
        """Records with an id above `after`, in order of id."""
        statement = _records().where(RecordRow.key_id > after).order_by(RecordRow.key_id).limit(limit)
        if target is not None:
            statement = statement.where(KeyRow.target == target)
        return [(row.key_id, record_of(row, key_of(key))) for row, key in self._session.execute(statement)]

    def all_records(self) -> Iterator[TuningRecord]:
        """Every record, streamed in order of id."""
        statement = _records().order_by(RecordRow.key_id).execution_options(yield_per=CHUNK_ROWS)
        for row, key in self._session.execute(statement):
            yield record_of(row, key_of(key))

    def all_trials(self) -> Iterator[Trial]:
        """Every trial, streamed in the order they were added."""
        statement = select(TrialRow, KeyRow).join(KeyRow, KeyRow.id == TrialRow.key_id).order_by(TrialRow.id)
        for row, key in self._session.execute(statement.execution_options(yield_per=CHUNK_ROWS)):
            yield trial_of(row, key_of(key))

    def put_workloads(self, workloads: Iterable[Workload]) -> None:
        """Remember what their digests stand for."""
        rows = {w.digest: {"digest": w.digest, "body": json_text.dump(workload_json(w))} for w in workloads}
        insert_new(self._session, WorkloadRow, [rows[d] for d in sorted(rows)])

    def put_target(self, target: Target) -> None:
        """Remember what its digest stands for."""
        body = json_text.dump(target_json(target))
        insert_new(self._session, TargetRow, [{"digest": target.digest, "name": target.name, "body": body}])

    def workloads(self) -> Iterator[str]:
        """Canonical JSON of every workload, in order of digest."""
        yield from self._session.scalars(select(WorkloadRow.body).order_by(WorkloadRow.digest))

    def targets(self) -> list[TargetRow]:
        """Every target, in order of digest."""
        return list(self._session.scalars(select(TargetRow).order_by(TargetRow.digest)))

    def count(self) -> dict[str, int]:
        """Rows of each kind."""
        session = self._session

        def rows(statement: Select[int]) -> int:
            return int(session.scalar(statement) or 0)

        count = func.count
        return {
            "records": rows(select(count()).select_from(RecordRow)),
            "trials": rows(select(count()).select_from(TrialRow)),
            "failed_trials": rows(select(count()).select_from(TrialRow).where(TrialRow.failed)),
            "tasks": rows(select(count()).select_from(KeyRow)),
            "workloads": rows(select(count(KeyRow.workload.distinct()))),
            "targets": rows(select(count(KeyRow.target.distinct()))),
        }

    def delete_trials_before(self, created_s: float) -> int:
        """Delete older trials; how many those were."""
        return affected(self._session, delete(TrialRow).where(TrialRow.created_s < created_s))

    def delete_records_of_other_epochs(self, epoch: int) -> int:
        """Delete records that are not served any more; how many those were."""
        return affected(self._session, delete(RecordRow).where(RecordRow.codegen_epoch != epoch))

    def _replace_record(self, record: TuningRecord, key_id: int) -> None:
        values = {**record_values(record), "key_id": key_id, "created_s": now_s(self._session)}
        statement = insert(self._session, RecordRow).values(values)
        changed = {name: statement.excluded[name] for name in values if name != "key_id"}
        self._session.execute(
            statement.on_conflict_do_update(index_elements=[RecordRow.key_id], set_=changed)
        )

    def _ensure_keys(self, keys: Iterable[RecordKey]) -> Mapping[RecordKey, int]:
        """Row ids of the keys. Their rows stay locked, always in the same order, so that writers cannot deadlock."""
        by_digest = {key_digest(key): key for key in keys}
        digests = sorted(by_digest)
        insert_new(self._session, KeyRow, [{"digest": d, **asdict(by_digest[d])} for d in digests])
        ids: dict[RecordKey, int] = {}
        for chunk in chunks(digests):
            statement = select(KeyRow.digest, KeyRow.id).where(KeyRow.digest.in_(chunk))
            for digest, key_id in self._session.execute(statement.order_by(KeyRow.digest).with_for_update()):
                ids[by_digest[digest]] = key_id
        return ids


CHUNK_ROWS = 500


def _records() -> Select[RecordRow, KeyRow]:
    return select(RecordRow, KeyRow).join(KeyRow, KeyRow.id == RecordRow.key_id)
