"""Trials and records that the tests of the service share: real Tasks, invented times."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from tests.tuner import toy
from tuner.measure import FailureKind, Measured, MeasureFailed
from tuner.record import CODEGEN_EPOCH, Trial, TuningRecord
from tuner.task import RecordKey, Task

TASK = toy.task(32)
KEY = TASK.key


def schedule(factor: int) -> Schedule:
    return Schedule((Split("anchor", "i", factor),))


def trial(
    factor: int, seconds: float | None = 1e-3, key: RecordKey = KEY, epoch: int = CODEGEN_EPOCH
) -> Trial:
    result = (
        MeasureFailed(FailureKind.TIMEOUT, "did not end within 10 s")
        if seconds is None
        else Measured((seconds, seconds * 1.5, seconds), error=1e-6, build_s=0.02)
    )
    return Trial(key, schedule(factor), result, "bench-1", seed=factor, codegen_epoch=epoch)


def record(
    seconds: float, factor: int = 4, key: RecordKey = KEY, epoch: int = CODEGEN_EPOCH, error: float = 1e-6
) -> TuningRecord:
    measured = Measured((seconds, seconds, seconds), error=error)
    return TuningRecord(
        key, schedule(factor), measured, "bench-1", 7, epoch, untuned_s=2 * seconds, provenance={"by": "test"}
    )


def keys(tasks: Sequence[Task]) -> list[RecordKey]:
    return [task.key for task in tasks]
