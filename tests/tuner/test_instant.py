"""Instant mode with a model that was trained here on a formula: what it is asked about, and what it may answer."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.schedule.steps import Algorithm
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.target import PRESETS
from tests.compiler.workloads import convolution, matmul, padded_convolution, softmax
from tests.tuner.models import formula_model, throughput
from tuner import instant
from tuner.candidate import Candidate
from tuner.cost_model.features import FEATURE_NAMES, NestFeatures
from tuner.cost_model.stored import ErrorKey, StoredModel
from tuner.instant import Instant, on_one_thread, shipped_model
from tuner.task import Task

TARGET = PRESETS["x86-64-v3"]


def model() -> StoredModel:
    return formula_model()


def task_of(size: int, **fields: object) -> Task:
    return replace(Task(convolution(size, 48, 96, 3), TARGET, 1, 1, "conv"), **fields)  # type: ignore[arg-type]


def space_of(task: Task) -> SearchSpace:
    return build_space(task.workload, task.target, task.threads)


def ask(task: Task, **papers: object) -> instant.Prediction:
    return Instant(replace(model(), **papers))(task, space_of(task))  # type: ignore[arg-type]


def seen(**fields: object) -> dict[str, object]:
    return {"seen": replace(model().seen, **fields)}  # type: ignore[arg-type]


def margin(value: float) -> dict[str, object]:
    return {"gates": {**model().gates, "margin": value}}


def test_the_choice_is_what_the_model_has_learned_and_always_the_same() -> None:
    task = task_of(20)
    space, found = space_of(task), ask(task, **margin(0.0))
    assert found.schedule is not None
    assert found == ask(task, **margin(0.0))
    assert found.candidates > 20  # of 128 samples: algorithms that this model has no error of are none
    features = NestFeatures()(task, [Candidate(space.schedule(space.default)), Candidate(found.schedule)])
    usual, chosen = throughput(features)
    assert chosen > 1.2 * usual


def test_the_default_serves_where_the_model_is_not_sure() -> None:
    found = ask(task_of(20), **margin(1e6))
    assert found.schedule is None
    assert "not sure" in found.reason
    assert 0 < found.lead < 1e6


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (task_of(20, target=PRESETS["x86-64-v4"]), "no target with the vectors of x86-64-v4"),
        (task_of(20, workload=softmax(64, 512)), "no space with"),
    ],
)
def test_what_the_model_has_not_seen_it_is_not_asked(task: Task, reason: str) -> None:
    found = ask(task, **margin(0.0))
    assert found.schedule is None
    assert reason in found.reason


def algorithms(task: Task, errors: dict[ErrorKey, float]) -> set[ErrorKey]:
    """Those of all candidates beside the default, under a model that has seen these errors."""
    asked = Instant(replace(model(), **seen(errors=errors)))  # type: ignore[arg-type]
    steps = [step for c in asked._candidates(task, space_of(task))[1:] for step in c.schedule.steps]
    return {(step.name, step.parameters) for step in steps if isinstance(step, Algorithm)}


def test_an_algorithm_is_chosen_only_where_its_error_is_known_to_fit() -> None:
    task = Task(padded_convolution(28, 64, 64, 3), TARGET, 1, 1, "conv")
    copies = {("padded", ()): 0.0, **{("padded", (m,)): 0.0 for m in (2, 3, 4)}}
    assert algorithms(task, copies) == {("padded", ())}
    errors = {**copies, ("winograd", (2,)): 5e-6, ("winograd", (4,)): 1.5e-5}
    assert algorithms(task, errors) == {("padded", ()), ("padded", (2,)), ("winograd", (2,))}
    assert algorithms(replace(task, error_budget=5e-6), errors) == {("padded", ())}


def test_several_threads_get_what_is_best_on_one_and_shared_out_no_worse() -> None:
    task = task_of(20, threads=3)
    space, found = space_of(task), ask(task, **margin(0.0))
    assert found.schedule is not None
    rows = NestFeatures()(task, [Candidate(space.schedule(space.default)), Candidate(found.schedule)])
    usual, chosen = rows[:, FEATURE_NAMES.index("parallel_balance")]
    assert chosen >= 0.98 * usual
    assert ask(task, **seen(threads=frozenset({2}))).reason == "the model has seen no team of 3 threads"


def test_features_on_one_thread_are_those_of_the_same_loops_there() -> None:
    task = task_of(20)
    space = space_of(task)
    candidates = [Candidate(space.schedule(space.default))]
    alone = NestFeatures()(task, candidates)
    shared = NestFeatures()(replace(task, threads=4), candidates)
    assert not np.array_equal(alone, shared)
    np.testing.assert_allclose(on_one_thread(shared, task.target, 4), alone, atol=1e-6)


def test_a_space_of_one_leaves_nothing_to_choose() -> None:
    task = Task(matmul(1, 8, 4), TARGET, 1, 1, "tiny")
    space = space_of(task)
    one = SearchSpace((), (), lambda values: True, lambda values: space.schedule(space.default))
    assert Instant(model())(task, one).reason == "there is nothing to choose"


def test_a_damaged_model_is_named_once_and_none_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pretrained.model"
    monkeypatch.setattr("tuner.cost_model.shipped.SHIPPED", path)
    shipped_model.cache_clear()
    assert shipped_model() is None
    assert caplog.text == ""
    path.write_bytes(b"damaged")
    shipped_model.cache_clear()
    assert shipped_model() is None
    assert shipped_model() is None
    assert caplog.text.count("gets the default schedule: pretrained.model is no cost model") == 1
    shipped_model.cache_clear()


def test_the_expected_loss_is_that_of_networks_left_out() -> None:
    assert math.isclose(Instant(model()).expected_loss, 1 - model().gates["instant"]["value"], abs_tol=1e-3)
