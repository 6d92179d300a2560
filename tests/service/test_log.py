"""The tuning log's contract, on SQLite and on PostgreSQL."""

from __future__ import annotations

import io
import json
import threading
from dataclasses import replace

import pytest

from compiler.errors import InputError
from service.db.session import Database
from service.records.log import SqlTuningLog
from service.records.source import SqlScheduleSource
from tests.service import samples
from tests.tuner import toy
from tuner.measure import Measured
from tuner.record import CODEGEN_EPOCH
from tuner.task import RecordKey


@pytest.fixture
def log(database: Database) -> SqlTuningLog:
    return SqlTuningLog(database)


def test_trials_come_back_in_order_with_failures(log: SqlTuningLog) -> None:
    trials = [samples.trial(1), samples.trial(2, seconds=None), samples.trial(3, 5e-4)]
    log.append_trials(trials)
    assert log.trials(samples.KEY) == trials
    assert log.trials(samples.KEY, limit=2) == trials[1:]
    assert log.trials(toy.task(128).key) == []


def test_a_batch_that_is_sent_again_adds_nothing(log: SqlTuningLog) -> None:
    batch = [samples.trial(n) for n in range(1, 5)]
    log.append_trials(batch, job="a")
    log.append_trials([*batch, samples.trial(9)], job="a")
    assert [t.seed for t in log.trials(samples.KEY)] == [1, 2, 3, 4, 9]


def test_another_epoch_measures_the_same_candidate_again(log: SqlTuningLog) -> None:
    log.append_trials([samples.trial(1), samples.trial(1, epoch=CODEGEN_EPOCH + 1)])
    assert len(log.trials(samples.KEY)) == 2


def test_a_trial_that_is_not_finite_is_kept(log: SqlTuningLog) -> None:
    odd = replace(samples.trial(1), result=Measured((1e-3,), error=float("inf")))
    log.append_trials([odd])
    assert log.trials(samples.KEY) == [odd]


def test_the_faster_record_of_a_key_is_kept(log: SqlTuningLog) -> None:
    other = toy.task(128).key
    assert log.put_records([samples.record(2e-3), samples.record(5e-3, key=other)]) == 2
    assert log.put_records([samples.record(3e-3, factor=8)]) == 0
    assert log.put_records([samples.record(1e-3, factor=16)]) == 1
    kept = log.records([samples.KEY, other, toy.task(64).key])
    assert kept == {
        samples.KEY: samples.record(1e-3, factor=16),
        other: samples.record(5e-3, key=other),
    }


def test_a_record_that_is_not_verified_is_not_kept(log: SqlTuningLog) -> None:
    bad = [
        samples.record(1e-3, error=1e-3),
        samples.record(1e-3, error=float("nan")),
        samples.record(0.0),
        samples.record(float("inf")),
    ]
    assert log.put_records(bad) == 0
    assert log.records([samples.KEY]) == {}


def test_a_newer_code_generator_wins_whatever_the_time(log: SqlTuningLog) -> None:
    log.put_records([samples.record(1e-3)])
    newer = samples.record(5e-3, epoch=CODEGEN_EPOCH + 1)
    assert log.put_records([newer]) == 1
    assert log.put_records([samples.record(1e-4)]) == 0
    assert log.records([samples.KEY]) == {samples.KEY: newer}


def test_a_lookup_is_exact_or_a_miss(log: SqlTuningLog) -> None:
    task = samples.TASK
    log.put_records([samples.record(1e-3)])
    source = SqlScheduleSource(log)

    def lookup(**changed: object) -> list[object]:
        asked = {"workloads": [task.workload], "target": task.target, "threads": task.threads, **changed}
        return [found and (found.lookup, found.schedule) for found in source.lookup(**asked)]  # type: ignore[arg-type]

    assert lookup() == [("exact", samples.schedule(4))]
    assert lookup(threads=task.threads + 1) == [None]
    assert lookup(target=replace(task.target, l2_bytes=1)) == [None]
    assert lookup(workloads=[toy.task(64).workload, task.workload])[0] is None
    assert SqlScheduleSource(log, error_budget=1e-5).lookup([task.workload], task.target, task.threads) == [
        None
    ]


def test_a_record_of_another_code_generator_is_a_miss(log: SqlTuningLog) -> None:
    log.put_records([samples.record(1e-3, epoch=CODEGEN_EPOCH + 1)])
    task = samples.TASK
    assert SqlScheduleSource(log).lookup([task.workload], task.target, task.threads) == [None]


def test_export_and_import_give_the_same_log(log: SqlTuningLog, tmp_path: object) -> None:
    _fill(log)
    text = _export(log)
    with SqlTuningLogCopy(str(tmp_path)) as copy:
        assert copy.merge(io.StringIO(text)) == {"lines": len(text.splitlines()), "records": 1, "trials": 2}
        assert _export(copy) == text
        assert copy.merge(io.StringIO(text))["records"] == 0
        assert copy.stats() == log.stats()


def test_a_bad_line_is_named_and_nothing_is_imported(log: SqlTuningLog) -> None:
    _fill(log)
    lines = _export(log).splitlines()
    empty = log.stats()
    for broken in _broken(lines):
        with pytest.raises(InputError, match=r"^line \d+ "):
            log.merge(broken)
    with pytest.raises(InputError, match="empty"):
        log.merge([])
    assert log.stats() == empty


def test_prune_keeps_what_is_served(log: SqlTuningLog) -> None:
    _fill(log)
    log.put_records([samples.record(1e-3, key=toy.task(128).key, epoch=CODEGEN_EPOCH + 1)])
    pruned = log.prune(days=0.0)
    assert (pruned["trials"], pruned["records"]) == (2, 1)
    assert list(log.records([samples.KEY])) == [samples.KEY]


def test_many_writers_lose_nothing(log: SqlTuningLog) -> None:
    tasks = [toy.task(size).key for size in (32, 64, 128)]

    def write(worker: int) -> None:
        for number in range(6):
            key: RecordKey = tasks[(worker + number) % 3]
            log.append_trials([samples.trial(100 * worker + number * 10 + n + 1, key=key) for n in range(3)])
            log.append_trials([samples.trial(77, key=tasks[0]), samples.trial(77, key=tasks[1])])
            log.put_records(
                [samples.record(1e-3 / (worker + 1), key=k) for k in tasks[:: 1 - 2 * (worker % 2)]]
            )

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.stats()["trials"] == 4 * 6 * 3 + 2
    assert {r.measured.median_s for r in log.records(tasks).values()} == {1e-3 / 4}


def _fill(log: SqlTuningLog) -> None:
    log.put_tasks([samples.TASK])
    log.append_trials([samples.trial(1), samples.trial(2, seconds=None)])
    log.put_records([samples.record(1e-3)])


def _export(log: SqlTuningLog) -> str:
    stream = io.StringIO()
    assert log.export(stream) == len(stream.getvalue().splitlines())
    return stream.getvalue()


def _broken(lines: list[str]) -> list[list[str]]:
    record = next(json.loads(line) for line in lines if '"type":"record"' in line)
    cases = [
        {**record, "key": {**record["key"], "workload": "../etc"}},
        {**record, "key": {**record["key"], "threads": True}},
        {
            **record,
            "key": {**record["key"], "error_class": "1e-1"},
            "measured": {**record["measured"], "error": 1},
        },
        {**record, "measured": {"kind": "timeout", "message": ""}},
        {**record, "measured": {**record["measured"], "samples_s": [-1.0]}},
        {**record, "schedule": [{"step": "fly"}]},
        {"type": "record"},
        {"type": "pickle"},
        ["record"],
    ]
    texts = [*map(json.dumps, cases), "{", "[" * 100_000, '{"type":"record","untuned_s":NaN}', lines[-1][:-3]]
    return [[*lines, text] for text in texts] + [lines[1:], ["not json"], [lines[0].replace("1", "2")]]


class SqlTuningLogCopy(SqlTuningLog):
    """A second log, on SQLite."""

    def __init__(self, folder: str) -> None:
        from service.db.upgrade import open_database

        super().__init__(open_database(f"sqlite:///{folder}/copy.db"))

    def __enter__(self) -> SqlTuningLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()
