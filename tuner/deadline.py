"""Deadline: how many trials still fit into the wall clock."""

from __future__ import annotations

import math

_RESERVE_SHARE = 0.25
"""No more than this part of the wall clock is kept in reserve for final comparisons."""


class Deadline:
    """Trials and comparisons against a limit of seconds (None: without limit), at the pace measured so far."""

    def __init__(self, seconds: float | None) -> None:
        """Start without a pace."""
        self._seconds = seconds
        self._trials = 0
        self._longest_batch_s = 0.0
        self._comparisons_s: list[float] = []

    def affordable_trials(self, elapsed_s: float, pending: int) -> float:
        """Trials that fit in the time left, with `pending` final comparisons kept in reserve."""
        if self._seconds is None:
            return math.inf
        pace_s = elapsed_s / self._trials if self._trials else 0.0
        reserve_s = min(pending * self._comparison_s, _RESERVE_SHARE * self._seconds)
        left_s = self._seconds - reserve_s - elapsed_s
        if left_s <= 0:
            return 0
        return math.floor(left_s / pace_s) if pace_s > 0 else math.inf

    def allows_comparison(self, elapsed_s: float) -> bool:
        """Whether another final comparison ends in time."""
        return self._seconds is None or elapsed_s + self._comparison_s <= self._seconds

    def measured(self, trials: int, seconds: float) -> None:
        """Note how long a batch took."""
        self._trials += trials
        self._longest_batch_s = max(self._longest_batch_s, seconds)

    def compared(self, seconds: float) -> None:
        """Note how long a final comparison took."""
        self._comparisons_s.append(seconds)

    @property
    def _comparison_s(self) -> float:
        """Mean of those held; before the first, it is taken to be as long as the longest batch."""
        if self._comparisons_s:
            return sum(self._comparisons_s) / len(self._comparisons_s)
        return self._longest_batch_s
