"""Samples of a candidate: how many runs one is made of, and how many are taken."""

from __future__ import annotations

import math
from collections.abc import Callable

from tuner.measure import MeasureOptions

HOPELESS = 3.0
"""A candidate whose warm-up is so many times slower than the best gets no sample but that."""
SLOW = 1.5
"""One that is so much slower in its warm-up and in its first sample gets no second."""
TIMING_SHARE = 0.5
"""Of a candidate's time limit, what its samples may take."""

_MAX_RUNS = 1 << 24


def sample(time_ns: Callable[[int], int], options: MeasureOptions, best_s: float | None) -> tuple[float, ...]:
    """Seconds per run, one figure per sample; `time_ns(runs)` is the total of that many runs."""
    sample_ns = options.min_sample_ms * 1e6
    runs, spent = 1, time_ns(1)
    # The first run meets cold caches and a sleeping team; where it took long, that no longer matters.
    total = time_ns(1) if spent < 10 * sample_ns else spent
    spent += total
    while total < sample_ns / 2 and runs < _MAX_RUNS:
        runs = _enough(sample_ns, runs, total, most=16 * runs)
        total = time_ns(runs)
        spent += total
    seen_s = [total / runs / 1e9]  # by the last of the warm-up
    if best_s is not None and seen_s[0] > HOPELESS * best_s:
        return tuple(seen_s)
    runs = _enough(sample_ns, runs, total, most=_MAX_RUNS)
    taken: list[float] = []
    while len(taken) < options.samples:
        total = time_ns(runs)
        spent += total
        taken.append(total / runs / 1e9)
        slow = best_s is not None and min(*seen_s, *taken) > SLOW * best_s
        if slow or spent > TIMING_SHARE * options.timeout_s * 1e9:
            break
    return tuple(taken)


def _enough(sample_ns: float, runs: int, total_ns: int, most: int) -> int:
    """How many runs last as long as a sample, from what `runs` of them took."""
    return min(most, max(1, math.ceil(sample_ns * runs / max(total_ns, 1))), _MAX_RUNS)
