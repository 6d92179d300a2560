"""What samples taken in turns say."""

from __future__ import annotations

import math
import random

import pytest

from tuner.pairs import LOOKS, TIE, differ, ratio_interval, staying


def disturbed(rng: random.Random, rounds: int, *speeds: float) -> list[list[float]]:
    """Samples of candidates on a machine of which a neighbour takes up to half, for several rounds at a time."""
    samples: list[list[float]] = [[] for _ in speeds]
    load = 0.0
    for _ in range(rounds):
        if rng.random() < 0.2:
            load = rng.choice((0.0, rng.random()))
        for taken, speed in zip(samples, speeds, strict=True):
            taken.append(speed * (1 + load * rng.gauss(0.5, 0.1)) * (1 + abs(rng.gauss(0, 0.005))))
    return samples


def compared(rng: random.Random, *speeds: float) -> list[list[float]]:
    samples = disturbed(rng, LOOKS[-1], *speeds)
    for look in LOOKS:
        seen = [taken[:look] for taken in samples]
        if not staying(seen):
            return seen
    return samples


def test_the_interval_is_that_of_the_sign_test() -> None:
    ratios = [1 + r / 100 for r in range(16)]
    assert ratio_interval([1.0] * 16, ratios) == pytest.approx((1.01, 1.075, 1.14))
    assert ratio_interval([2.0] * 16, [2 * r for r in ratios]) == pytest.approx((1.01, 1.075, 1.14))


def test_thousands_of_rounds_are_no_problem() -> None:
    low, median, high = ratio_interval([1.0] * 5000, [1.1, 1.2] * 2500)
    assert low <= median <= high
    assert low == pytest.approx(1.1)


def test_too_few_rounds_say_nothing() -> None:
    assert ratio_interval([1.0, 1.0], [2.0, 2.0]) == (0.0, 2.0, math.inf)
    assert not differ([1.0, 1.0], [2.0, 2.0])
    assert ratio_interval([1.0] * 5, [2.0, 1.1, 1.2, 1.3, 1.4]) == (1.1, 1.3, 2.0)
    assert differ([1.0] * 5, [2.0, 1.1, 1.2, 1.3, 1.4])


def test_only_rounds_in_which_both_took_part_count() -> None:
    assert ratio_interval([1.0] * 16, [1.5] * 16 + [9.0] * 16) == pytest.approx((1.5, 1.5, 1.5))


def test_what_differs_by_less_than_a_tie_does_not_differ() -> None:
    assert not differ([1.0] * 16, [1 + 0.9 * TIE] * 16)
    assert differ([1.0] * 16, [1 + 1.1 * TIE] * 16)
    assert differ([1 + 1.1 * TIE] * 16, [1.0] * 16)


def swaying(middle: float) -> list[float]:
    """Rounds between 3 % less and 3 % more."""
    return [middle * (0.97 + 0.06 * (r % 2)) for r in range(16)]


def test_clear_evidence_ends_a_comparison_early_and_none_does_not() -> None:
    assert staying([[1.0] * 16, [1.001] * 16, [1.3] * 16]) == []
    assert staying([[1.3] * 16, [1.0] * 16]) == []
    assert staying([[1.0] * 2, [1.3] * 2]) == [0, 1]
    assert staying([[1.0] * 16, swaying(1.01)]) == [0, 1]


def test_who_cannot_win_any_more_leaves_but_the_first_stays() -> None:
    assert staying([[1.3] * 16, [1.0] * 16, swaying(1.01), [1.2] * 16]) == [0, 1, 2]


def test_the_fastest_must_beat_the_first_but_need_not_be_told_from_others() -> None:
    hardly_slower = [1.0, 1.03] * 8
    assert staying([[1.0] * 16, hardly_slower]) == []
    assert staying([hardly_slower, [1.0] * 16]) == [0, 1]
    assert staying([[1.3] * 16, [1.0] * 16, hardly_slower]) == []


def test_equal_candidates_hardly_ever_differ_and_five_percent_is_found() -> None:
    rng = random.Random(0)
    equal = [differ(*compared(rng, 1.0, 1.0)) for _ in range(1000)]
    slower = [differ(*compared(rng, 1.05, 1.0)) for _ in range(200)]
    assert sum(equal) <= 15
    assert sum(slower) >= 190
