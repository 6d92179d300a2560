"""SessionOptions: budgets and choices of a session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler.errors import InputError
from tuner.measure import MeasureOptions
from tuner.search.strategies import check_strategy
from tuner.task import Task

_ENOUGH = 64


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Budgets and choices of a session.

    Attributes:
        trials: most new trials over all Tasks, failed ones included; None for no limit.
        seconds: wall clock, checked between batches; None for no limit.
        seed: of the search.
        strategy: a name of tuner.search.strategies, or of an entry point that it describes.
        batch_size: most trials of a Task at a time.
        ahead: full batches' trials that are proposed and built while earlier ones are measured; 0 where that would
            disturb those.
        patience: batches without an improvement of 1 % after which a Task is done.
        measure: what the Runner was made with; its seed is noted in every trial.
    """

    trials: int | None = None
    seconds: float | None = None
    seed: int = 0
    strategy: str = "evolutionary"
    batch_size: int = 16
    ahead: int = 1
    patience: int = 4
    measure: MeasureOptions = field(default_factory=MeasureOptions)

    def check(self) -> None:
        """Raise InputError on values that make no sense."""
        check_strategy(self.strategy)
        if self.trials is not None and self.trials < 0:
            msg = f"a budget of {self.trials} trials makes no sense; give 0 or more, or none for no limit"
            raise InputError(msg)
        if self.seconds is not None and not self.seconds >= 0:
            msg = f"a budget of {self.seconds} seconds makes no sense; give 0 or more, or none for no limit"
            raise InputError(msg)
        if self.batch_size < 1 or self.patience < 1:
            msg = f"batch size {self.batch_size} and patience {self.patience} must both be at least 1"
            raise InputError(msg)

    def enough_trials(self, tasks: int) -> float:
        """Trials in the log after which a Task with a record gets no more: its share of the budget, 64 at least."""
        return float("inf") if self.trials is None else max(_ENOUGH, self.trials // max(1, tasks))


def check_tasks(tasks: Sequence[Task]) -> None:
    """Raise InputError where two Tasks have one key."""
    if len({task.key for task in tasks}) < len(tasks):
        msg = "two tasks have the same key; merge them into one with the sum of their weights"
        raise InputError(msg)
