"""Deadline: how many trials still fit into the wall clock."""

from __future__ import annotations

import math

_RESERVE_SHARE = 0.25
"""No more than this part of the wall clock is kept in reserve for final comparisons."""
_COMPARISON_SHARE = 0.2
"""The first final comparison is not taken to last longer than this part of the wall clock: it builds nothing, and
without one a record would rest on trials taken at different times."""


class Deadline:
    """Trials and comparisons against a limit of seconds (None: without limit), at the pace measured so far.

    Children start and libraries load in the first batch: it tells little of the pace, and the next ones replace it.
    """

    def __init__(self, seconds: float | None) -> None:
        """Start without a pace."""
        self._seconds = seconds
        self._batches: list[tuple[int, float, float]] = []
        self._comparisons_s: list[float] = []

    def affordable_trials(self, elapsed_s: float, pending: int) -> float:
        """Trials that fit in the time left, with `pending` final comparisons kept in reserve.

        After the first batch at least another one of its size, while more than the largest reserve is left.
        """
        if self._seconds is None or not self._batches:
            return math.inf
        reserve_s = min(pending * self._comparison_s, _RESERVE_SHARE * self._seconds)
        left_s = self._seconds - elapsed_s
        fitting = max(0, math.floor((left_s - reserve_s) / self._pace_s(elapsed_s)))
        if len(self._batches) == 1 and left_s >= _RESERVE_SHARE * self._seconds:
            return max(fitting, self._batches[0][0])
        return fitting

    @property
    def knows_pace(self) -> bool:
        """Whether the limit, if any, can be kept: a first batch has ended."""
        return self._seconds is None or bool(self._batches)

    def allows_comparison(self, elapsed_s: float, waiting: int = 0) -> bool:
        """Whether another final comparison ends in time, behind those that wait."""
        return self._seconds is None or elapsed_s + (waiting + 1) * self._comparison_s <= self._seconds

    def measured(self, trials: int, start_s: float, end_s: float) -> None:
        """Note a batch, and when it started and ended."""
        self._batches.append((trials, start_s, end_s))

    def compared(self, seconds: float) -> None:
        """Note how long a final comparison took."""
        self._comparisons_s.append(seconds)

    def _pace_s(self, elapsed_s: float) -> float:
        """Seconds per trial since the end of the first batch, search included; of the first one before that."""
        (first, _, first_end_s), *later = self._batches
        if not later:
            return max(elapsed_s / first, 1e-9)
        return max((elapsed_s - first_end_s) / sum(trials for trials, _, _ in later), 1e-9)

    @property
    def _comparison_s(self) -> float:
        """Mean of those held; before the first, it is taken to be as long as the longest batch, within a limit."""
        if self._comparisons_s:
            return sum(self._comparisons_s) / len(self._comparisons_s)
        longest_s = max(
            (end_s - start_s for _, start_s, end_s in self._batches[1:] or self._batches), default=0.0
        )
        return min(longest_s, _COMPARISON_SHARE * (self._seconds or math.inf))
