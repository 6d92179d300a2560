"""What the tuning log keeps: every Trial, and the TuningRecords worth serving."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compiler.schedule.schedule import Schedule
from tuner.measure import Measured, MeasureResult
from tuner.task import RecordKey, Task

CODEGEN_EPOCH = 21
"""Raised when the code generator's output changes: older records become seeds to verify again."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured candidate, kept even when it failed."""

    key: RecordKey
    schedule: Schedule
    result: MeasureResult
    device: str
    seed: int
    codegen_epoch: int = CODEGEN_EPOCH


@dataclass(frozen=True, slots=True)
class TuningRecord:
    """A verified Schedule worth serving, with its evidence.

    Attributes:
        untuned_s: median of the default Schedule timed in the same run, 0 where it was not.
        provenance: who measured it, when and for which job (plain JSON values). "compared" lists the digests of the
            schedules that it was timed against in alternation, see `supersedes`; "evidence" what that found, see
            `tuner.finals.evidence`.
    """

    key: RecordKey
    schedule: Schedule
    measured: Measured
    device: str
    seed: int
    codegen_epoch: int = CODEGEN_EPOCH
    untuned_s: float = 0.0
    provenance: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Relative:
    """What the log serves for some Task, as a seed for others; `task` has no name, and counts once."""

    task: Task
    schedule: Schedule


def supersedes(new: TuningRecord, kept: TuningRecord | None) -> bool:
    """Whether a record takes the place of the kept one of its key.

    It does where it was made by newer code generation, where it was timed in alternation with the kept schedule (then
    that comparison counts, not the old time), and otherwise where it is faster.
    """
    if kept is None:
        return True
    if new.codegen_epoch != kept.codegen_epoch:
        return new.codegen_epoch > kept.codegen_epoch
    if kept.schedule.digest in new.provenance.get("compared", ()):
        return True
    return new.measured.median_s < kept.measured.median_s
