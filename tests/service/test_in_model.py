"""A record that is slower inside of its model gives way to the default."""

from __future__ import annotations

import pytest

from compiler.pipeline import digests_of, kernel_name
from service.db.session import Database
from service.jobs.in_model import withdraw
from service.records.log import SqlTuningLog
from tests.service.samples import KEY, TASK, record, schedule, trial
from workers.end_to_end import Compared

ROUNDS = 20
DEFAULT, CHOSEN = 2, 4


@pytest.fixture
def log(database: Database) -> SqlTuningLog:
    """A log that serves CHOSEN, which was the faster one alone."""
    found = SqlTuningLog(database)
    found.append_trials([trial(DEFAULT, 1.1e-3), trial(CHOSEN, 1e-3)])
    found.put_records([record(1e-3, CHOSEN)])
    return found


def inside(factor: int, seconds: float, rounds: int = ROUNDS) -> Compared:
    """A model of one kernel."""
    symbol = kernel_name(TASK.workload, schedule(factor))
    times = [seconds * (1 + 0.01 * (n % 3)) for n in range(rounds)]
    return Compared(samples_s=times, max_relative_error=0.0, kernels_s={symbol: times})


def served(log: SqlTuningLog) -> str:
    return log.records([KEY])[KEY].schedule.digest


def test_a_symbol_tells_both_digests() -> None:
    workload, own = digests_of(kernel_name(TASK.workload, schedule(CHOSEN)))
    assert TASK.workload.digest.startswith(workload)
    assert schedule(CHOSEN).digest.startswith(own)


def test_what_is_slower_in_the_model_gives_way_to_the_default(log: SqlTuningLog) -> None:
    assert withdraw(log, [TASK], inside(DEFAULT, 1e-3), inside(CHOSEN, 1.3e-3), "m", "j") == {KEY}
    assert served(log) == schedule(DEFAULT).digest
    kept = log.records([KEY])[KEY]
    assert kept.provenance["stage"] == "in_model"
    assert kept.measured.error == trial(DEFAULT).result.error  # type: ignore[union-attr]
    _, other = kept.provenance["evidence"]
    assert other["schedule"] == schedule(CHOSEN).digest
    assert other["slower"][0] > 1.2


@pytest.mark.parametrize("seconds", [0.7e-3, 1e-3, 1.01e-3])
def test_what_is_no_slower_stays(log: SqlTuningLog, seconds: float) -> None:
    assert not withdraw(log, [TASK], inside(DEFAULT, 1e-3), inside(CHOSEN, seconds), "m", "j")
    assert served(log) == schedule(CHOSEN).digest


def test_a_few_rounds_prove_nothing(log: SqlTuningLog) -> None:
    assert not withdraw(log, [TASK], inside(DEFAULT, 1e-3, 4), inside(CHOSEN, 2e-3, 4), "m", "j")
    assert served(log) == schedule(CHOSEN).digest


def test_a_record_that_was_not_in_the_model_stays(log: SqlTuningLog) -> None:
    """Somebody else's job may have found a better one meanwhile."""
    log.append_trials([trial(8, 0.5e-3)])
    log.put_records([record(0.5e-3, 8)])
    assert not withdraw(log, [TASK], inside(DEFAULT, 1e-3), inside(CHOSEN, 2e-3), "m", "j")
    assert served(log) == schedule(8).digest


def test_a_default_that_was_never_verified_is_not_put(
    log: SqlTuningLog, caplog: pytest.LogCaptureFixture
) -> None:
    assert not withdraw(log, [TASK], inside(16, 1e-3), inside(CHOSEN, 2e-3), "m", "j")
    assert served(log) == schedule(CHOSEN).digest
    assert "tune the model again" in caplog.text
