from __future__ import annotations

from dataclasses import replace

import pytest

from service.db.session import Database
from service.records.log import SqlTuningLog
from tests.service.samples import KEY, record, schedule
from tuner.database import MemoryLog, TuningLog
from tuner.record import CODEGEN_EPOCH, TuningRecord


@pytest.fixture
def log(database: Database) -> SqlTuningLog:
    return SqlTuningLog(database)


def against(new: TuningRecord, *factors: int) -> TuningRecord:
    return replace(new, provenance={"compared": [schedule(f).digest for f in factors]})


def test_a_comparison_in_alternation_counts_more_than_an_old_time(log: SqlTuningLog) -> None:
    check_comparison(log)


def test_the_log_in_memory_does_the_same() -> None:
    check_comparison(MemoryLog())


def check_comparison(log: TuningLog) -> None:
    lucky = record(1e-3, factor=4)
    assert log.put_records([lucky]) == 1
    assert log.put_records([against(record(2e-3, factor=8), 2, 8)]) == 0
    winner = against(record(2e-3, factor=8), 2, 4, 8)
    assert log.put_records([winner]) == 1
    assert log.records([KEY])[KEY] == winner


def test_a_comparison_by_an_older_code_generator_counts_nothing(log: SqlTuningLog) -> None:
    log.put_records([record(2e-3)])
    assert log.put_records([against(record(1e-3, epoch=CODEGEN_EPOCH - 1), 4)]) == 0
