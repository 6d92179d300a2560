"""Where compiled Schedules come from: the tuning log; what it has no record for, the shipped cost model; the default.

Nothing is measured. What the model chooses is as sure to be right as the default is: by the legality of its Steps, and
because algorithms whose error is not known to be within the budget are no choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from compiler.choice import look_up
from compiler.schedule.source import Found, ScheduleSource
from compiler.space.rules import build_space
from compiler.target import Target
from compiler.workload.ir import Workload
from tuner.cost_model.shipped import shipped_digest
from tuner.task import Task

if TYPE_CHECKING:
    from tuner.instant import Instant


class Lookups:
    """A ScheduleSource that has an answer for everything, and gives each Workload the same one every time."""

    def __init__(self, log: ScheduleSource, *, predict: bool) -> None:
        """`log`: asked first, and what else is chosen keeps to its error budget; `predict`: ask the cost model too."""
        self._log, self._predict = log, predict
        self._recorded: dict[str, Found | None] = {}
        self._answers: dict[str, Found] = {}

    def recorded(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        """What the tuning log says of each."""
        new = [w for w in workloads if w.digest not in self._recorded]
        answers = look_up(new, target, threads, self._log) if new else []
        self._recorded |= {w.digest: answer for w, answer in zip(new, answers, strict=True)}
        return [self._recorded[w.digest] for w in workloads]

    @property
    def error_budget(self) -> float:
        """What a Task may use of the model's."""
        return self._log.error_budget

    @property
    def chooser(self) -> str:
        """What answers where the log has nothing: the digest of a cost model, or "" for none, and the error budget."""
        return f"{shipped_digest() if self._predict else ''} {self.error_budget!r}"

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        """One answer per Workload."""
        recorded = self.recorded(workloads, target, threads)
        for workload, found in zip(workloads, recorded, strict=True):
            if workload.digest not in self._answers:
                self._answers[workload.digest] = found or self._unmeasured(workload, target, threads)
        return [self._answers[w.digest] for w in workloads]

    def _unmeasured(self, workload: Workload, target: Target, threads: int) -> Found:
        space = build_space(workload, target, threads, self.error_budget)
        if self._instant is not None:
            chosen = self._instant(Task(workload, target, threads, 1, "", self.error_budget), space).schedule
            if chosen is not None:
                return Found(chosen, "predicted", self._instant.expected_loss)
        return Found(space.schedule(space.default), "default")

    @cached_property
    def _instant(self) -> Instant | None:
        if not self._predict or not shipped_digest():
            return None
        from tuner.instant import shipped_model  # XGBoost takes a while to import

        return shipped_model()
