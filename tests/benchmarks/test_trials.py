"""The benchmark of trials: what it counts."""

from __future__ import annotations

import math

import pytest

from benchmarks.trials import spread
from tuner.measure import FailureKind, Measured, MeasureFailed, MeasureResult


def trials(*times: tuple[float, ...]) -> list[list[MeasureResult]]:
    """Of candidates, by repeat; the median of a trial is twice its least sample, and 0 is a failure."""
    failed = MeasureFailed(FailureKind.CRASH, "gone")
    return [[Measured((t, 2 * t, 9 * t), 0.0) if t else failed for t in r] for r in zip(*times, strict=True)]


@pytest.mark.parametrize("least", [False, True])
def test_what_a_repeat_does_to_all_is_no_spread(*, least: bool) -> None:
    slow, failed = (100.0, 900.0), (0.0, 1.0)
    assert spread(trials((1.0, 3.0), (2.0, 6.0), slow, slow, failed), least=least) == pytest.approx(0.0)
    apart = spread(trials((1.0, math.e), (2.0, 2.0), slow, slow, failed), least=least)
    assert apart == pytest.approx(math.sqrt(0.5) / 2)
