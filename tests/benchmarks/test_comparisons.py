"""The benchmark of comparisons: what it counts."""

from __future__ import annotations

import pytest

from benchmarks import comparisons


def test_it_counts_both_kinds() -> None:
    figures = comparisons.compare(3)
    assert figures["comparisons"] == 3
    assert all(0 <= figures[name] <= 1 for name in ("false", "false_upper_bound", "found"))
    assert figures["rounds"] >= 16


def test_the_upper_bound_is_that_of_the_binomial() -> None:
    assert comparisons.upper_bound(0, 100) == pytest.approx(0.0295, abs=1e-4)
    assert comparisons.upper_bound(5, 100) == pytest.approx(0.1023, abs=1e-4)
