"""Deadline: how many trials still fit into the wall clock."""

from __future__ import annotations

import math

_COMPARISON_TRIALS = 8
"""A final comparison takes about as long as so many trials, before one was held."""
_RESERVE_SHARE = 0.25
"""No more than this part of the wall clock is kept in reserve for final comparisons."""


class Deadline:
    """Trials and comparisons against a limit of seconds (None: without limit), at the pace measured so far."""

    def __init__(self, seconds: float | None) -> None:
        """Start without a pace."""
        self._seconds = seconds
        self._comparisons_s: list[float] = []

    def affordable_trials(self, elapsed_s: float, trials: int, pending: int) -> float:
        """Trials that fit in the time left, with `pending` final comparisons kept in reserve."""
        if self._seconds is None:
            return math.inf
        pace_s = elapsed_s / trials if trials else 0.0
        reserve_s = min(pending * self._comparison_s(pace_s), _RESERVE_SHARE * self._seconds)
        left_s = self._seconds - reserve_s - elapsed_s
        if left_s <= 0:
            return 0
        return math.floor(left_s / pace_s) if pace_s > 0 else math.inf

    def allows_comparison(self, elapsed_s: float) -> bool:
        """Whether another final comparison ends in time."""
        return self._seconds is None or elapsed_s + self._comparison_s(0.0) <= self._seconds

    def compared(self, seconds: float) -> None:
        """Note how long a final comparison took."""
        self._comparisons_s.append(seconds)

    def _comparison_s(self, pace_s: float) -> float:
        if self._comparisons_s:
            return sum(self._comparisons_s) / len(self._comparisons_s)
        return _COMPARISON_TRIALS * pace_s
