from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np

from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.learner import GROWTH, MINIMUM, Learner
from tuner.cost_model.metrics import pairwise_accuracy, relative_throughput
from tuner.cost_model.protocol import Group
from tuner.cost_model.trees import BASE
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.measure import Measured
from tuner.phases import PhaseClock
from tuner.task import Task

TASKS = [toy.task(size) for size in (32, 64, 96)]


def sample(count: int, seed: int) -> list[Candidate]:
    space, rng = toy.space(), random.Random(seed)
    assignments = dict.fromkeys(space.sample(rng) for _ in range(2 * count))
    return [Candidate(space.schedule(a), a) for a in list(assignments)[:count]]


def group(task: Task, count: int, seed: int) -> Group:
    candidates = sample(count, seed)
    return Group(task, tuple(candidates), tuple(toy.simulate(task, c.schedule) for c in candidates))


def accuracy(model: XGBoostModel, test: Group) -> float:
    scores = model.predict(test.task, test.candidates)
    assert scores is not None
    truth = relative_throughput([r.median_s if isinstance(r, Measured) else None for r in test.results])
    found = pairwise_accuracy(scores, truth)
    assert found is not None
    return found


def test_it_ranks_candidates_that_it_has_not_seen() -> None:
    model = XGBoostModel(toy.features, toy.NAMES)
    groups = [group(task, 100, seed) for seed, task in enumerate(TASKS[:2])]
    model.fit(groups)
    report = model.rehearse(groups)
    assert accuracy(model, group(TASKS[0], 60, 7)) > 0.85
    assert accuracy(model, group(TASKS[2], 60, 8)) > 0.85  # a Task without any sample
    assert report.samples == 200
    assert 20 < report.held_out < 60
    assert report.tasks == 2
    assert report.pairwise_accuracy is not None
    assert 0.8 < report.pairwise_accuracy < 1.0
    assert report.peak_at_1 is not None
    assert report.peak_at_5 is not None
    assert report.peak_at_1 <= report.peak_at_5 <= 1.0


def test_failures_teach_it_what_does_not_work() -> None:
    model = XGBoostModel(toy.features, toy.NAMES)
    model.fit([group(task, 120, seed) for seed, task in enumerate(TASKS)])
    candidates = sample(200, 11)
    scores = model.predict(TASKS[0], candidates)
    assert scores is not None
    broken = np.array([toy.fails(c.schedule) for c in candidates])
    assert broken.mean() > 0.2
    best = np.argsort(-scores)[:40]
    assert broken[best].mean() < 0.25 * broken.mean()


def test_equal_data_give_equal_predictions() -> None:
    def predictions() -> list[float]:
        model = XGBoostModel(toy.features, toy.NAMES)
        model.fit([group(task, 50, seed) for seed, task in enumerate(TASKS)])
        scores = model.predict(TASKS[0], sample(30, 5))
        assert scores is not None
        return list(scores)

    assert predictions() == predictions()


def test_before_training_it_knows_nothing() -> None:
    model = XGBoostModel(toy.features, toy.NAMES)
    assert model.predict(TASKS[0], sample(3, 0)) is None
    one = group(TASKS[0], 1, 0)
    model.fit([one, Group(TASKS[1], (), ())])
    report = model.rehearse([one, Group(TASKS[1], (), ())])
    assert (report.samples, report.tasks, report.pairwise_accuracy) == (1, 1, None)
    assert model.predict(TASKS[0], sample(3, 0)) is None


def test_what_the_loops_predict_stands_until_samples_correct_it() -> None:
    """Predicted cycles that are right but for a factor of one knob."""

    def predicted(task: Task, candidates: Sequence[Candidate]) -> np.ndarray:
        seconds = np.array([toy.seconds(task, c.schedule) for c in candidates])
        wrong = np.array([toy.factors(c.schedule)[3] > 10 for c in candidates])
        return np.column_stack([toy.features(task, candidates), np.log2(seconds * np.where(wrong, 2.0, 1.0))])

    model, tested = XGBoostModel(predicted, (*toy.NAMES, BASE)), group(TASKS[0], 80, 5)
    before = accuracy(model, tested)
    assert 0.6 < before < 0.95
    model.fit([group(TASKS[1], 12, 1)])
    assert accuracy(model, tested) > before


def test_a_schedule_without_features_ranks_last() -> None:
    def partly(task: Task, candidates: Sequence[Candidate]) -> np.ndarray:
        rows = toy.features(task, candidates)
        rows[[toy.fails(candidate.schedule) for candidate in candidates]] = np.nan
        return rows

    model = XGBoostModel(partly, toy.NAMES)
    model.fit([group(TASKS[0], 80, 0)])
    candidates = sample(40, 3)
    scores = model.predict(TASKS[0], candidates)
    assert scores is not None
    assert [s == -np.inf for s in scores] == [toy.fails(c.schedule) for c in candidates]


def test_the_learner_trains_when_the_data_have_grown() -> None:
    learner = Learner(XGBoostModel(toy.features, toy.NAMES), PhaseClock(lambda: 0.0))
    trained_on = []
    for seed in range(60):
        one = group(TASKS[0], 1, seed)
        learner.observe(TASKS[0], list(zip(one.candidates, one.results, strict=True)))
        if learner.train_if_due():
            trained_on.append(seed + 1)
    assert trained_on[0] == MINIMUM
    assert all(later >= GROWTH * sooner for sooner, later in itertools.pairwise(trained_on))
    assert learner.report()["samples"] == 60
    assert learner.scorer(TASKS[0])(sample(2, 0)) is not None
    assert Learner(None, PhaseClock(lambda: 0.0)).scorer(TASKS[0])(sample(2, 0)) is None
