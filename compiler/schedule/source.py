"""ScheduleSource: where the compiler looks schedules up. It knows no database; the caller injects one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from compiler.schedule.schedule import Schedule
from compiler.target import Target
from compiler.workload.ir import Workload

TASK_ERROR_BUDGET = 2e-5
"""Largest error of a Workload's outputs, relative to the largest output, where the caller asks for no other."""

Lookup = Literal["exact", "near", "predicted", "default"]


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: the Schedule, how well it fits, and the expected loss (0.1 = 10 % slower than the best known)."""

    schedule: Schedule
    lookup: Lookup
    expected_loss: float | None = None


class ScheduleSource(Protocol):
    """Answers look-ups. A mismatch is a miss (None), never an error and never another Target's record."""

    @property
    def error_budget(self) -> float:
        """Largest error of a Workload's outputs, relative to the largest; what is picked for a miss keeps to it too."""
        ...

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        """One answer per Workload."""
        ...


@dataclass(frozen=True)
class NoSource:
    """Knows nothing: every Workload gets the analytic default."""

    error_budget: float = TASK_ERROR_BUDGET

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        """A miss for each."""
        return [None] * len(workloads)
