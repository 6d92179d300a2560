"""How many runs a sample is made of: as many as come nearest to its length, found by runs that also warm up."""

from __future__ import annotations

from collections.abc import Callable

_MAX_RUNS = 1 << 24


def warm_up(time_ns: Callable[[int], int], sample_s: float) -> tuple[int, float]:
    """How many runs come nearest to so long, and the seconds per run that the last of the warm-up took.

    `time_ns(runs)`: the total of that many runs.
    """
    sample_ns = sample_s * 1e9
    runs, spent = 1, time_ns(1)
    # The first run meets cold caches and a sleeping team; where it took long, that no longer matters.
    total = time_ns(1) if spent < 10 * sample_ns else spent
    while total < sample_ns / 2 and runs < _MAX_RUNS:
        runs = _nearest(sample_ns, runs, total, most=16 * runs)
        total = time_ns(runs)
    return _nearest(sample_ns, runs, total, most=_MAX_RUNS), total / runs / 1e9


def _nearest(sample_ns: float, runs: int, total_ns: int, most: int) -> int:
    """How many runs come nearest to a sample, from what `runs` of them took."""
    return min(most, max(1, round(sample_ns * runs / max(total_ns, 1))), _MAX_RUNS)
