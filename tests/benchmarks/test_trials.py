"""The benchmark of trials: what it counts."""

from __future__ import annotations

import math

import pytest

from benchmarks.trials import spread
from tuner.measure import FailureKind, Measured, MeasureFailed


def test_the_spread_is_over_repeats_and_not_over_candidates() -> None:
    fast = [Measured((t, 2 * t, 9 * t), 0.0) for t in (1.0, math.e)]
    slow = [Measured((100.0, 200.0, 300.0), 0.0)] * 2
    failed = [MeasureFailed(FailureKind.CRASH, "gone"), Measured((1.0,), 0.0)]
    trials = list(zip(fast, slow, failed, strict=True))
    assert spread(trials, least=True) == pytest.approx(math.sqrt(0.5) / 2)
    assert spread(trials, least=False) == pytest.approx(math.sqrt(0.5) / 2)
