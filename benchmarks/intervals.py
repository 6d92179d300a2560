"""Ratios of times with their 95 % intervals, from samples that were taken in turns.

The bootstrap draws whole rounds: what slowed one round slowed every contender in it, and cancels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.interval import RESAMPLES, Interval


def best_ratio(
    others: Sequence[Sequence[float]], ours: Sequence[float], percentile: float = 50.0
) -> Interval:
    """The smallest of the others' percentiles over that of ours; all have a sample per round, in order."""
    samples = np.array([ours, *others], np.float64)
    rounds = samples.shape[1]
    picks = np.random.default_rng(0).integers(0, rounds, (RESAMPLES, rounds))
    value = _best(np.percentile(samples, percentile, axis=1)[:, None])[0]
    return Interval.of(value, _best(np.percentile(samples[:, picks], percentile, axis=2)))


def _best(times: np.ndarray) -> np.ndarray:
    """`times`: shape (contenders, resamples), ours first."""
    return np.asarray(times[1:].min(axis=0) / times[0])
