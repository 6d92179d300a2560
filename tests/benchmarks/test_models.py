"""The summary of `benchmarks.models`, over rows made by hand; one small model timed; two trees compared."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks import compare_commits, history, model_run
from benchmarks.bars import Bar
from benchmarks.compare_commits import compare, tree
from benchmarks.intervals import best_ratio
from benchmarks.kernel_models import matmul
from benchmarks.model_bars import geometric_mean, model_bars
from benchmarks.model_run import ModelOptions, run_model
from benchmarks.models import find_models, table_line
from benchmarks.models_plot import models_svg
from luthier import InputError
from luthier.bench import turns

ROOT = Path(__file__).resolve().parents[2]


def row(model: str, ratio: float, threads: int = 1, **changes: Any) -> dict[str, Any]:
    """A peer of 2 ms and a tuned model that is `ratio` times as fast."""
    figures = {"version": "1", "runs": 11, "error": 1e-7}
    return {
        "model": model,
        "threads": threads,
        "lookups": {"exact": 3},
        "engines": {
            "tuned": {"median_us": 2000 / ratio, **figures},
            "untuned": {"median_us": 2500.0, **figures},
            "openvino": {"median_us": 2000.0, **figures},
        },
        "best_peer": "openvino",
        "tuned": {"value": ratio, "low": ratio - 0.1, "high": ratio + 0.1},
        "untuned": {"value": 0.8, "low": 0.7, "high": 0.9},
        "gain": None if threads == 1 else {"value": 1.7, "low": 1.6, "high": 1.8},
        "refused_peers": {"onnxruntime": "onnxruntime refuses the model"},
        **changes,
    }


def bar(found: list[Bar], title: str) -> Bar:
    return next(b for b in found if b.title.startswith(title))


def test_the_ratio_is_that_of_the_fastest_other_and_what_slows_a_whole_round_cancels() -> None:
    drift = 1 + np.arange(20) / 5
    ratio = best_ratio([3 * drift, 2 * drift], drift)
    assert ratio.value == pytest.approx(2)
    assert ratio.low == pytest.approx(2)
    assert ratio.high == pytest.approx(2)
    noise = np.random.default_rng(1).uniform(0.8, 1.2, (2, 40))
    wide = best_ratio([2 * noise[0]], noise[1])
    assert 1.5 < wide.low < wide.value < wide.high < 2.5


def test_bars_of_models() -> None:
    found = model_bars([row("resnet50", 1.2), row("resnet50", 1.1, threads=2), row("own", 9.0)])
    assert bar(found, "resnet50, 1 thread").met is True
    assert bar(found, "resnet50, 2 threads").met is False
    assert bar(found, "resnet18, 1 thread").met is None
    assert bar(found, "tuned: geometric mean").value == pytest.approx((1.2 * 1.1) ** 0.5)
    assert bar(found, "tuned: least").value == pytest.approx(1.0)
    assert bar(found, "untuned").short == ("resnet50, 1 thread 0.80", "resnet50, 2 threads 0.80")
    assert bar(found, "two threads over one").value == pytest.approx(1.7)
    assert geometric_mean([row("own", 4.0), row("own", 1.0)], "tuned") == pytest.approx(2.0)


def test_a_refused_model_misses_its_bars() -> None:
    refused = {"model": "mlp", "threads": 1, "refused": "no such operator"}
    found = model_bars([refused, row("resnet18", 2.0)])
    assert bar(found, "mlp, 1 thread").value == 0
    assert bar(found, "tuned: geometric mean").value == 0
    assert "refused: no such operator" in table_line(refused)
    assert models_svg([refused]).count("<circle") == 0


def test_without_a_peer_nothing_is_met_or_missed() -> None:
    alone = row("mlp", 1.0, tuned=None, untuned=None, best_peer=None)
    assert {b.met for b in model_bars([alone])} == {None}
    assert "over" not in table_line(alone).split("error")[0]


def test_a_row_is_one_line_and_two_points() -> None:
    wrong = row("a<b", 1.5)
    wrong["engines"]["openvino"]["error"] = 1.0
    line = table_line(wrong)
    assert "1.50 (1.40..1.60)" in line
    assert "openvino answers wrong" in line
    assert "refuses the model" in line
    svg = models_svg([wrong, row("mlp", 2.0)])
    assert svg.count("<circle") == 4
    assert svg.count("#b00020") == 1
    assert "a&lt;b, 1t" in svg


def test_models_are_chosen_by_name_and_folder(tmp_path: Path) -> None:
    (tmp_path / "own.onnx").touch()
    (tmp_path / "mlp.onnx").touch()
    found = find_models(["own", "mlp", "resnet1*"], tmp_path)
    assert found == {"mlp": tmp_path / "mlp.onnx", "resnet18": None, "own": tmp_path / "own.onnx"}
    with pytest.raises(InputError, match="no model matches nothing"):
        find_models(["nothing"], None)


def test_the_history_keeps_one_line_per_run(tmp_path: Path) -> None:
    path = tmp_path / "models.jsonl"
    assert history.read(path) == []
    history.record([row("mlp", 1.25), {"model": "x", "threads": 1, "refused": "no"}], path)
    history.record([row("mlp", 1.5, threads=2)], path)
    first, second = history.read(path)
    assert [r["model"] for r in first["rows"]] == ["mlp"]
    assert first["rows"][0]["us"]["openvino"] == 2000
    assert second["rows"][0]["gain"] == {"value": 1.7, "low": 1.6, "high": 1.8}
    assert len(first["commit"]) == 40
    assert first["engines"]["openvino"] == "1"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small model, timed in few rounds."""
    monkeypatch.setattr(model_run, "_ROUNDS", 2)
    monkeypatch.setattr(compare_commits, "_ROUNDS", 2)
    monkeypatch.setattr(model_run, "SETTLE_PEERS_S", 0.0)
    monkeypatch.setattr(turns, "_SAMPLE_S", 1e-4)
    path = tmp_path / "small.onnx"
    onnx.save(matmul(5, 19, 37), path)
    return path


def test_a_model_is_tuned_and_timed(small: Path, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'log.db'}"
    found = run_model(small, ModelOptions(2, 2, None, database, 0.0, ("onnxruntime",)))
    assert set(found["engines"]) == {"tuned", "untuned", "one thread", "onnxruntime"}
    assert found["best_peer"] == "onnxruntime"
    assert all(e["error"] < 1e-5 for e in found["engines"].values())
    assert found["tuned"]["low"] <= found["tuned"]["value"] <= found["tuned"]["high"]
    assert found["gain"] is not None
    table_line(json.loads(json.dumps(found)))


def test_a_model_that_is_refused_is_a_row_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    found = run_model(tmp_path / "bad.onnx", ModelOptions(1, None, None, None, 0.0))
    assert set(found) == {"model", "threads", "refused"}


def test_two_trees_are_compared_by_paired_ratios(small: Path) -> None:
    arguments = argparse.Namespace(threads=1, trials=None, seconds=None, time=0.0)
    found = compare(small, (ROOT, ROOT), arguments)
    assert found["ratio"]["low"] <= found["ratio"]["value"] <= found["ratio"]["high"]
    assert found["ratio"]["value"] == pytest.approx(found["a"]["median_us"] / found["b"]["median_us"])
    with pytest.raises(InputError, match="ended with status"):
        compare(small.parent / "none.onnx", (ROOT, ROOT), arguments)


def test_an_unknown_commit_is_one_sentence() -> None:
    with pytest.raises(InputError, match="no tree of no-such-commit"), tree("no-such-commit"):
        pass
