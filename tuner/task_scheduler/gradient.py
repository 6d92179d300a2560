"""GradientScheduler: gives the next trials to the Task from which the whole model gains most.

    gain per trial = weight * (alpha * recent improvement per trial + (1 - alpha) * best time / trials)

The first term believes in what a Task has just shown, the second in what every Task can still give: a slow one that had
few trials. First comes a small round over all Tasks, heaviest first, because nothing is known of a Task without trials.
A Task that did not improve by MIN_GAIN for `patience` batches is done, and so is one that will not be chosen before the
budget ends: there are at least as many of larger gain as batches are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ALPHA = 0.2
WINDOW = 3
"""Batches over which recent improvement is taken."""
MIN_GAIN = 0.01
FIRST_BATCH = 4
MIN_BATCH = 8
BATCH_S = 1.0
"""A batch takes no longer than this on the Device, but for FIRST_BATCH trials: what it teaches should not be late."""


@dataclass(frozen=True, slots=True)
class TaskShare:
    """What the scheduler knows of a Task before any trial.

    Attributes:
        weight: runs of the Task per run of the model.
        operations: of one run.
        starts: candidates that the rules think well of, one per algorithm: no fewer make its first batch.
    """

    weight: int
    operations: int
    starts: int = 1


@dataclass
class _Progress:
    """Trials that were started, and the results and best time (None: no success yet) after each batch, newest last."""

    trials: int = 0
    results: int = 0
    trial_s: float = 0.0
    history: list[tuple[int, float | None]] = field(default_factory=list)
    idle: int = 0
    done: bool = False

    @property
    def best_s(self) -> float | None:
        return self.history[-1][1] if self.history else None


class GradientScheduler:
    """Deterministic: the same observations give the same choices; equal gains go to the earlier Task."""

    def __init__(
        self, shares: Sequence[TaskShare], trials: int | None, batch_size: int, patience: int
    ) -> None:
        """`trials` is the whole budget, None without one."""
        self._shares = tuple(shares)
        self._progress = [_Progress() for _ in shares]
        self._left = trials
        self._batch_size = batch_size
        self._patience = patience
        self._first = _first_batch(trials, len(shares), batch_size)

    def next(self) -> tuple[int, int] | None:
        """Place of a Task and the size of its next batch; None when all are done or the budget is spent."""
        open_tasks = [i for i, progress in enumerate(self._progress) if not progress.done]
        if not open_tasks or self._left == 0:
            return None
        fresh = [i for i in open_tasks if self._progress[i].trials == 0]
        if fresh:
            chosen = max(fresh, key=lambda i: (self._expected_time_s(i), -i))
            size = max(self._first, min(self._shares[chosen].starts, FIRST_BATCH, self._batch_size))
        else:
            chosen = max(open_tasks, key=lambda i: (self._gain_s(i), -i))
            size = self._later_batch(self._progress[chosen].trial_s, self._left)
        return chosen, size if self._left is None else min(size, self._left)

    def start(self, task: int, trials: int) -> None:
        """Count trials that are on their way."""
        self._progress[task].trials += trials
        if self._left is not None:
            self._left = max(0, self._left - trials)
            self._leave_out(self._left)

    def observe(self, task: int, trials: int, best_s: float | None, trial_s: float = 0.0) -> None:
        """Note the Task's best time after some results, and how long one took on the Device (0: not known)."""
        progress = self._progress[task]
        improved = best_s is not None and (
            progress.best_s is None or best_s < progress.best_s * (1 - MIN_GAIN)
        )
        progress.idle = 0 if improved else progress.idle + 1
        progress.results += trials
        progress.trial_s = trial_s or progress.trial_s
        progress.history.append((progress.results, best_s))
        if progress.idle >= self._patience:
            progress.done = True

    def know(self, task: int, trials: int, best_s: float | None) -> None:
        """Note results of the log, which cost nothing."""
        self._progress[task].trials += trials
        self.observe(task, trials, best_s)

    def finish(self, task: int) -> None:
        """Give a Task no more trials."""
        self._progress[task].done = True

    def is_done(self, task: int) -> bool:
        """Whether a Task gets no more trials."""
        return self._progress[task].done

    def _leave_out(self, left: int) -> None:
        """Tasks that will not be chosen again are done. Giving one a batch raises no other's gain."""
        if any(p.trials == 0 and not p.done for p in self._progress):
            return
        open_tasks = [i for i, progress in enumerate(self._progress) if not progress.done]
        slowest_s = max((self._progress[i].trial_s for i in open_tasks), default=0.0)
        batches = 0
        while left > 0:
            batches, left = batches + 1, left - self._later_batch(slowest_s, left)
        for i in sorted(open_tasks, key=lambda i: (-self._gain_s(i), i))[batches:]:
            if self._progress[i].results == self._progress[i].trials:
                self._progress[i].done = True

    def _later_batch(self, trial_s: float, left: int | None) -> int:
        size = self._batch_size
        if left is not None:
            size = min(size, max(MIN_BATCH, left // MIN_BATCH))
        return size if not trial_s else min(size, max(FIRST_BATCH, int(BATCH_S / trial_s)))

    def _gain_s(self, task: int) -> float:
        """Seconds of the whole model that one more trial is expected to save."""
        progress = self._progress[task]
        if progress.best_s is None:
            return (1 - ALPHA) * self._expected_time_s(task) / progress.trials
        rate = 0.0
        timed = [(trials, best) for trials, best in progress.history if best is not None][-WINDOW - 1 :]
        if timed[-1][0] > timed[0][0]:
            rate = (timed[0][1] - timed[-1][1]) / (timed[-1][0] - timed[0][0])
        return self._shares[task].weight * (ALPHA * rate + (1 - ALPHA) * progress.best_s / progress.trials)

    def _expected_time_s(self, task: int) -> float:
        """Weight times operations, at the mean speed of the Tasks that have a time."""
        timed = [
            (p.best_s, s.operations) for p, s in zip(self._progress, self._shares, strict=True) if p.best_s
        ]
        speed = sum(s for s, _ in timed) / max(1, sum(o for _, o in timed)) if timed else 1.0
        share = self._shares[task]
        return share.weight * max(1, share.operations) * speed


def _first_batch(trials: int | None, tasks: int, batch_size: int) -> int:
    """Size of a Task's first batch: about half the budget over all Tasks, or proper batches for a few of them."""
    if trials is None or trials < 2 * tasks:
        return min(FIRST_BATCH, batch_size)
    return min(FIRST_BATCH, batch_size, max(1, trials // (2 * max(1, tasks))))
