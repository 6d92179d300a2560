from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import InputError
from compiler.space.rules import build_space
from compiler.target import PRESETS
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.gates import Gates, TaskSamples, differences, figure_of, held_out
from tuner.cost_model.relative import NAMES, RelativeFeatures
from tuner.cost_model.stored import Seen, load_model, machine_of, promoted, save_model
from tuner.cost_model.trees import POOLED, XGBoostOptions, scores, train
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.session import SessionOptions, _default_model


def gates(pairs: float, *, usual: float = 0.7, alone: float = 0.8, tasks: int = 20) -> Gates:
    """Figures of some Tasks: each has nearly these."""
    rng = np.random.default_rng(0)
    by_task = {
        f"task {i}": {
            "pairwise_accuracy": pairs + noise,
            "peak_at_1": 0.9 + noise,
            "peak_at_5": 0.95 + noise,
            "instant": 0.9 + noise,
            "usual": usual,
            "prediction": alone,
        }
        for i, noise in enumerate(rng.normal(0, 0.02, tasks))
    }
    figures = {name: figure_of([f[name] for f in by_task.values()]) for name in by_task["task 0"]}
    return Gates(tasks=tasks, samples=800, groups=4, worse=0.0, margin=0.5, by_task=by_task, **figures)


GATES = gates(0.9)
SEEN = Seen(
    frozenset({machine_of(PRESETS["x86-64-v3"])}),
    frozenset({1, 2}),
    frozenset({"rows", "vectors"}),
    {("winograd", (4,)): 8e-6, ("padded", ()): 1e-7},
    {"task 0": 120},
)


def samples(network: str, seed: int) -> TaskSamples:
    rows = np.random.default_rng(seed).random((40, len(NAMES)))
    throughput = rows[:, 3] / rows[:, 3].max()
    usual = int(np.argsort(throughput)[20])
    everything = np.ones(40, dtype=np.bool_)
    return TaskSamples(network, f"{network} {seed}", rows, throughput, everything, everything, usual)


def test_what_failed_teaches_pooled_trees_nothing_and_is_not_judged() -> None:
    tasks = [samples(name, seed) for seed, name in enumerate(("one", "two", "three"))]
    failed = np.arange(40) % 5 == 3
    broken = [replace(t, throughput=np.where(failed, 0.0, t.throughput)) for t in tasks]
    without = [
        replace(t, features=t.features[~failed], throughput=t.throughput[~failed])
        for t in (broken[0], broken[1])
    ]
    options = replace(POOLED, rounds=20)
    one, other = (
        train([(t.features, t.throughput) for t in some], options) for some in (broken[:2], without)
    )
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(scores(one, tasks[2].features), scores(other, tasks[2].features))
    gates = held_out(broken, replace(POOLED, rounds=100, columns=1.0))
    assert gates is not None
    assert gates.pairwise_accuracy.value > 0.8


def test_instant_mode_is_judged_by_what_it_may_take() -> None:
    """Only the default is known to be accurate: there is nothing to choose."""
    tasks = [samples(name, seed) for seed, name in enumerate(("one", "two", "three"))]
    careful = [replace(t, accurate=np.arange(40) == t.default) for t in tasks]
    gates = held_out(careful, replace(POOLED, rounds=100, columns=1.0))
    assert gates is not None
    assert gates.instant == gates.usual


def test_a_file_gives_the_same_scores(tmp_path: Path) -> None:
    task = samples("one", 0)
    booster = train([(task.features, task.throughput)], XGBoostOptions(rounds=10))
    assert booster is not None
    save_model(tmp_path / "model.ubj", booster, GATES, 3, SEEN)
    found = load_model(tmp_path / "model.ubj")
    np.testing.assert_array_equal(scores(found.booster, task.features), scores(booster, task.features))
    assert (found.number, found.gates, found.seen) == (3, GATES.json(), SEEN)
    assert found.knows(PRESETS["x86-64-v3"])
    assert not found.knows(PRESETS["x86-64-v4"])
    assert [path.name for path in tmp_path.iterdir()] == ["model.ubj"]


@pytest.mark.parametrize("name", ["VERSION", "NAMES"])
def test_a_model_for_something_else_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = samples("one", 0)
    booster = train([(task.features, task.throughput)], XGBoostOptions(rounds=2))
    assert booster is not None
    save_model(tmp_path / "model.ubj", booster, GATES, 1, SEEN)
    monkeypatch.setattr(f"tuner.cost_model.stored.{name}", ("other",) if name == "NAMES" else -1)
    with pytest.raises(InputError, match="train it again"):
        load_model(tmp_path / "model.ubj")


@pytest.mark.parametrize("content", [b"", b"garbage", b"{}", b"[1]", b'{"sha256": "0"}\n{}'])
def test_what_is_no_model_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.ubj").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.ubj is no cost model"):
        load_model(tmp_path / "model.ubj")


def test_only_a_better_model_is_promoted() -> None:
    kept = GATES.by_task
    assert promoted(GATES, None) == ""
    assert "the default 0.950" in promoted(replace(gates(0.9, usual=0.95), margin=0.1), None)
    assert promoted(replace(gates(0.9, usual=0.95), margin=None), None) == ""  # its choice is the default
    assert "the prediction alone 0.900" in promoted(gates(0.9, alone=0.9), None)
    assert "not better than the model in use beyond doubt" in promoted(GATES, kept)
    assert promoted(gates(0.93), kept) == ""
    assert "worse than the model in use: pairwise_accuracy" in promoted(gates(0.85), kept)


def test_differences_are_those_of_the_same_tasks() -> None:
    """Tasks differ by far more than the two models do, and still the difference is sure."""
    rng = np.random.default_rng(1)
    hard = {f"task {i}": float(v) for i, v in enumerate(rng.uniform(0.5, 1.0, 30))}
    before = {key: {"peak_at_1": value} for key, value in hard.items()}
    after = replace(GATES, by_task={key: {"peak_at_1": value + 0.01} for key, value in hard.items()})
    found = differences(after, before, "peak_at_1")
    assert found is not None
    assert found.low == pytest.approx(0.01)
    assert differences(after, {}, "peak_at_1") is None


def test_a_rule_that_holds_everywhere_passes_the_gates() -> None:
    tasks = [samples(network, seed) for seed, network in enumerate("aaaabbbbcccc")]
    found = held_out(tasks, XGBoostOptions(columns=1.0), columns=range(12))
    assert found is not None
    assert found.missed == []
    assert found.instant.value > found.usual.value
    assert found.worse == 0.0


def test_no_margin_lets_through_what_is_slower_on_one_task() -> None:
    """However much the others gain: nobody is served a slower result."""
    tasks = [samples(network, seed) for seed, network in enumerate("aaaabbbbcccc")]
    other = samples("d", 12)
    found = held_out(
        [*tasks, replace(other, throughput=1.01 - other.throughput)],
        XGBoostOptions(columns=1.0),
        columns=range(12),
    )
    assert found is not None
    assert found.peak_at_1.value > found.usual.value + 0.1
    assert found.margin is None


def test_the_margin_keeps_a_guessing_model_from_choosing() -> None:
    """Where features tell nothing and the default is good, it is best to take it."""
    rng = np.random.default_rng(0)
    guesses = []
    for seed, network in enumerate("aabbccddee"):
        task = samples(network, seed)
        throughput = rng.uniform(0.2, 0.9, 40)
        throughput[task.default] = 1.0
        guesses.append(replace(task, features=rng.random(task.features.shape), throughput=throughput))
    found = held_out(guesses, XGBoostOptions(rounds=10))
    assert found is not None
    assert found.margin is None
    assert found.instant.value == found.usual.value > found.peak_at_1.value + 0.1


def test_a_search_begins_with_the_shipped_model_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, task = tmp_path / "pretrained.model", toy.task()
    monkeypatch.setattr("tuner.cost_model.shipped.SHIPPED", path)
    space, rng = build_space(task.workload, task.target, task.threads), random.Random(0)
    candidates = [Candidate(space.schedule(a), a) for a in (space.sample(rng) for _ in range(20))]
    alone = XGBoostModel(RelativeFeatures(), NAMES).predict(task, candidates)
    assert alone is not None  # what the loops predict

    def begins_with_a_model() -> bool:
        merits = _default_model(SessionOptions(), [task]).predict(task, candidates)
        assert merits is not None
        return not np.array_equal(merits, alone)

    assert not begins_with_a_model()
    known = samples("one", 0)
    booster = train([(known.features, known.throughput)], XGBoostOptions(rounds=2))
    assert booster is not None
    save_model(path, booster, GATES, 1, replace(SEEN, machines=frozenset({machine_of(task.target)})))
    assert begins_with_a_model()
    save_model(path, booster, GATES, 1, SEEN)
    assert not begins_with_a_model()  # it has seen no such Target
    path.write_bytes(b"damaged")
    assert not begins_with_a_model()
    assert "begins without a cost model: pretrained.model" in caplog.text
