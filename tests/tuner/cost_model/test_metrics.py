from __future__ import annotations

import numpy as np
import pytest

from tuner.cost_model.metrics import mean_over_tasks, pairwise_accuracy, peak_at, relative_throughput


def test_throughput_is_relative_to_the_best_and_zero_for_failures() -> None:
    assert relative_throughput([2.0, None, 1.0, 4.0]).tolist() == [0.5, 0.0, 1.0, 0.25]
    assert relative_throughput([None, None]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("scores", "accuracy"),
    [([3.0, 2.0, 1.0], 1.0), ([1.0, 2.0, 3.0], 0.0), ([0.0, 0.0, 0.0], 0.5), ([2.0, 3.0, 1.0], 2 / 3)],
)
def test_pairs_in_the_right_order_count(scores: list[float], accuracy: float) -> None:
    assert pairwise_accuracy(np.array(scores), np.array([1.0, 0.5, 0.0])) == pytest.approx(accuracy)


def test_equal_throughputs_are_no_pairs() -> None:
    assert pairwise_accuracy(np.array([1.0, 2.0]), np.array([0.5, 0.5])) is None


def test_peak_is_the_share_of_the_best_among_the_first() -> None:
    scores, throughput = np.array([3.0, 2.0, 1.0]), np.array([0.4, 0.8, 1.0])
    assert peak_at(scores, throughput, 1) == pytest.approx(0.4)
    assert peak_at(scores, throughput, 2) == pytest.approx(0.8)
    assert peak_at(scores, np.zeros(3), 2) is None


def test_tasks_without_a_figure_do_not_count() -> None:
    good = np.array([1.0, 0.5])
    groups = [(good, good), (np.array([1.0, 2.0]), np.zeros(2)), (good[::-1].copy(), good)]
    assert mean_over_tasks(pairwise_accuracy, groups) == pytest.approx(0.5)
    assert mean_over_tasks(pairwise_accuracy, []) is None
