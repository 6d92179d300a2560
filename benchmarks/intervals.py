"""Ratios of times with their 95 % intervals, from samples that were taken in turns.

The bootstrap draws whole rounds: what slowed one round slowed every contender in it, and cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 2000
_BOUNDS = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio, and the bounds that 95 % of the resampled ones keep."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f}..{self.high:.2f})"


def best_ratio(
    others: Sequence[Sequence[float]], ours: Sequence[float], percentile: float = 50.0
) -> Interval:
    """The smallest of the others' percentiles over that of ours; all have a sample per round, in order."""
    samples = np.array([ours, *others], np.float64)
    rounds = samples.shape[1]
    picks = np.random.default_rng(0).integers(0, rounds, (_RESAMPLES, rounds))
    value = _best(np.percentile(samples, percentile, axis=1)[:, None])[0]
    low, high = np.percentile(_best(np.percentile(samples[:, picks], percentile, axis=2)), _BOUNDS)
    return Interval(float(value), float(low), float(high))


def _best(times: np.ndarray) -> np.ndarray:
    """`times`: shape (contenders, resamples), ours first."""
    return np.asarray(times[1:].min(axis=0) / times[0])
