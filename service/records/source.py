"""SqlScheduleSource: the compiler's look-ups answered by the tuning log."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.schedule.source import Found
from compiler.target import Target
from compiler.workload.ir import Workload
from tuner.database import TuningLog
from tuner.record import CODEGEN_EPOCH
from tuner.task import RecordKey, error_class

MODEL_ERROR_BUDGET = 1e-4
"""Largest error of a model's outputs, relative to the largest output, that a user gets without asking for another."""

TASK_SHARE = 0.2
"""Share of a model's error budget that each of its Tasks may use; publication checks the whole model."""


SINGLES = 2e-6
"""What each Task may use where a model enlarges errors; sums in float32, as others make them, are off by less."""


def model_error_budget(asked: float | None) -> float:
    """What a model gets that asks for this; None: the default."""
    return MODEL_ERROR_BUDGET if asked is None else asked


def task_error_budget(model_budget: float | None, *, careful: bool = False) -> float:
    """What one Task may use of a model's error budget (None: the default): 1e-4 gives 2e-5, and SINGLES with care."""
    share = TASK_SHARE * model_error_budget(model_budget)
    return min(share, SINGLES) if careful else share


class SqlScheduleSource:
    """A ScheduleSource over a TuningLog. Exact answers only; a record of another codegen epoch is a miss."""

    def __init__(self, log: TuningLog, error_budget: float | None = None, *, careful: bool = False) -> None:
        """Answer for this error budget of the whole model; None for the default."""
        self._log = log
        self._error_budget = task_error_budget(error_budget, careful=careful)

    @property
    def error_budget(self) -> float:
        """What a Task may use of the model's."""
        return self._error_budget

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        """One answer per Workload; raises DatabaseError where the log cannot be read."""
        keys = [
            RecordKey(w.digest, target.digest, threads, error_class(self._error_budget)) for w in workloads
        ]
        records = self._log.records(keys)
        found: list[Found | None] = []
        for key in keys:
            record = records.get(key)
            fresh = record is not None and record.codegen_epoch == CODEGEN_EPOCH
            found.append(Found(record.schedule, "exact", 0.0) if record is not None and fresh else None)
        return found
