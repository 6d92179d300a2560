"""The benchmark of trials: what it counts."""

from __future__ import annotations

import math

import pytest

from benchmarks.trials import agreement, spread, times
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult

FAILED, SLOW = (0.0, 1.0), (100.0, 900.0)


def trials(*medians: tuple[float, ...]) -> list[list[MeasureResult]]:
    """Of candidates, by repeat; 0 is a failure. The pacer takes as long as the first."""
    failed = MeasureFailed(FailureKind.CRASH, "gone")
    return [
        [Measured((t / 2, t, 9 * t), 0.0, pacer_s=(repeat[0],) * 3) if t else failed for t in repeat]
        for repeat in zip(*medians, strict=True)
    ]


def test_the_slower_half_and_failures_do_not_count() -> None:
    logs = times(trials((1.0, math.e), (2.0, 2.0), SLOW, SLOW, FAILED))
    assert logs.shape == (2, 2)
    assert spread(logs) == pytest.approx(math.sqrt(0.5) / 2)


def test_what_slows_the_pacer_alike_is_no_spread() -> None:
    made = trials((1.0, 3.0), (2.0, 6.0), SLOW, SLOW)
    assert spread(times(made)) == pytest.approx(math.log(3) / math.sqrt(2))
    assert spread(times(made, paced=True)) == pytest.approx(0.0)
    assert agreement(times(made)) == 0.0  # the slower one of another moment seems the faster
    assert agreement(times(made, paced=True)) == 1.0
