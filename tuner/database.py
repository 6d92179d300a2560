"""TuningLog: what the search needs of the tuning log. The service implements it over SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tuner.record import Relative, Trial, TuningRecord, supersedes
from tuner.task import RecordKey, Task


class TuningLog(Protocol):
    """Thread-safe. A write is durable when the call returns; a crash at any moment loses nothing acknowledged."""

    def append_trials(self, trials: Sequence[Trial], job: str | None = None) -> None:
        """Add trials in one transaction."""
        ...

    def trials(self, key: RecordKey, limit: int = 10_000) -> list[Trial]:
        """Trials of a key in the order they were added (the newest `limit`)."""
        ...

    def records(self, keys: Iterable[RecordKey]) -> Mapping[RecordKey, TuningRecord]:
        """The record of each key that has one."""
        ...

    def put_records(self, records: Sequence[TuningRecord]) -> int:
        """Keep each record that supersedes the kept one of its key (tuner.record.supersedes); how many were kept."""
        ...

    def put_tasks(self, tasks: Sequence[Task]) -> None:
        """Remember the Workloads and Targets that the keys of these Tasks name."""
        ...

    def relatives(self, limit: int = 1000) -> list[Relative]:
        """The newest `limit` records of any key whose Workload and Target are known, newest first."""
        ...


class MemoryLog:
    """A TuningLog without a file, for tests and replays."""

    def __init__(self) -> None:
        """Start empty."""
        self._trials: dict[RecordKey, list[Trial]] = {}
        self._records: dict[RecordKey, TuningRecord] = {}
        self._tasks: dict[RecordKey, Task] = {}

    def append_trials(self, trials: Sequence[Trial], job: str | None = None) -> None:
        """Add trials; `job` is not kept."""
        for trial in trials:
            self._trials.setdefault(trial.key, []).append(trial)

    def trials(self, key: RecordKey, limit: int = 10_000) -> list[Trial]:
        """The newest `limit` trials of a key, oldest first."""
        return self._trials.get(key, [])[-limit:]

    def records(self, keys: Iterable[RecordKey]) -> Mapping[RecordKey, TuningRecord]:
        """The record of each key that has one."""
        return {key: self._records[key] for key in keys if key in self._records}

    def put_records(self, records: Sequence[TuningRecord]) -> int:
        """Keep those that supersede."""
        kept = 0
        for record in records:
            if supersedes(record, self._records.get(record.key)):
                self._records[record.key] = record
                kept += 1
        return kept

    def put_tasks(self, tasks: Sequence[Task]) -> None:
        """Remember them."""
        self._tasks |= {task.key: task for task in tasks}

    def relatives(self, limit: int = 1000) -> list[Relative]:
        """The newest records whose Tasks are known."""
        known = [key for key in reversed(self._records) if key in self._tasks]
        return [Relative(self._tasks[key], self._records[key].schedule) for key in known[:limit]]
