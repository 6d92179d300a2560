from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.errors import InputError
from compiler.space.rules import build_space
from compiler.target import PRESETS
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.cost_model.features import FEATURE_NAMES
from tuner.cost_model.gates import Figure, Gates, TaskSamples, held_out
from tuner.cost_model.stored import StoredModel, load_model, promoted, save_model
from tuner.cost_model.trees import XGBoostOptions, scores, train
from tuner.session import SessionOptions, _default_model

GATES = Gates(8, 800, 4, Figure(0.9, 0.88, 0.92), Figure(0.9, 0.85, 0.95), *[Figure(0.8, 0.7, 0.9)] * 2)


def samples(network: str, seed: int) -> TaskSamples:
    rows = np.random.default_rng(seed).random((40, len(FEATURE_NAMES)))
    throughput = rows[:, 3] / rows[:, 3].max()
    return TaskSamples(network, f"{network} {seed}", rows, throughput, float(throughput.mean()))


def test_a_file_gives_the_same_scores(tmp_path: Path) -> None:
    task = samples("one", 0)
    booster = train([(task.features, task.throughput)], XGBoostOptions(rounds=10))
    assert booster is not None
    save_model(tmp_path / "model.ubj", booster, GATES, 3, [PRESETS["x86-64-v3"]])
    found = load_model(tmp_path / "model.ubj")
    np.testing.assert_array_equal(scores(found.booster, task.features), scores(booster, task.features))
    assert (found.number, found.gates["peak_at_1"]["value"]) == (3, 0.9)
    assert found.knows(PRESETS["x86-64-v3"])
    assert not found.knows(PRESETS["x86-64-v4"])
    assert [path.name for path in tmp_path.iterdir()] == ["model.ubj"]


@pytest.mark.parametrize("name", ["VERSION", "FEATURE_NAMES"])
def test_a_model_for_something_else_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = samples("one", 0)
    booster = train([(task.features, task.throughput)], XGBoostOptions(rounds=2))
    assert booster is not None
    save_model(tmp_path / "model.ubj", booster, GATES, 1, [])
    monkeypatch.setattr(f"tuner.cost_model.stored.{name}", ("other",) if name == "FEATURE_NAMES" else -1)
    with pytest.raises(InputError, match="train it again"):
        load_model(tmp_path / "model.ubj")


@pytest.mark.parametrize("content", [b"", b"garbage", b"{}", b"[1]", b'{"sha256": "0"}\n{}'])
def test_what_is_no_model_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.ubj").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.ubj is no cost model"):
        load_model(tmp_path / "model.ubj")


def test_only_a_better_model_is_promoted() -> None:
    booster = train([(samples("one", 0).features, samples("one", 0).throughput)], XGBoostOptions(rounds=1))
    assert booster is not None
    kept = StoredModel(booster, 1, frozenset(), GATES.json())
    assert promoted(GATES, None) == promoted(GATES, kept) == ""
    useless = replace(GATES, usual=Figure(0.95, 0.9, 1.0))
    assert "of no use" in promoted(useless, None)
    worse = replace(GATES, pairwise_accuracy=Figure(0.8, 0.75, 0.85))
    assert promoted(worse, None) == ""
    assert "pairwise_accuracy" in promoted(worse, kept)


def test_a_rule_that_holds_everywhere_passes_the_gates() -> None:
    gates = held_out([samples(network, seed) for seed, network in enumerate("aabbcc")])
    assert gates is not None
    assert gates.missed == []
    assert gates.peak_at_1.value > gates.usual.value


def test_a_search_begins_with_the_shipped_model_or_says_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, task = tmp_path / "pretrained.model", toy.task()
    monkeypatch.setattr("tuner.cost_model.stored.SHIPPED", path)
    space = build_space(task.workload, task.target, task.threads)
    candidate = Candidate(space.schedule(space.default), space.default)

    def begins_with_a_model() -> bool:
        return _default_model(SessionOptions(), [task]).predict(task, [candidate]) is not None

    assert not begins_with_a_model()
    known = samples("one", 0)
    booster = train([(known.features, known.throughput)], XGBoostOptions(rounds=2))
    assert booster is not None
    save_model(path, booster, GATES, 1, [task.target])
    assert begins_with_a_model()
    save_model(path, booster, GATES, 1, [PRESETS["x86-64-v3"]])
    assert not begins_with_a_model()  # it has seen no such Target
    path.write_bytes(b"damaged")
    assert not begins_with_a_model()
    assert "begins without a cost model: pretrained.model" in caplog.text
