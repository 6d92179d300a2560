"""The whole path on a real network from the command line: tune, then compile in a new process from the log alone."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import luthier
from examples.networks import filled

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
CONTRACTS = Path(__file__).resolve().parents[2] / "docs" / "contracts"
BUDGET = ("--threads", "1", "--trials", "6", "--seconds", "20", "--seed", "3")


def _document(done: subprocess.CompletedProcess[str], contract: str) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((CONTRACTS / f"{contract}.schema.json").read_text()))
    return document


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    return filled("mlp", tmp_path)


def test_tune_compile_bench_inspect(mlp: Path, cli_process: Cli, cli: Cli, tmp_path: Path) -> None:
    missing = cli("compile", mlp, "-o", "mlp.luthier", "--threads", "1", "--require-tuned", "--json")
    assert missing.returncode == 1
    assert "3 of 3 tasks" in missing.stderr
    assert not (tmp_path / "mlp.luthier").exists()

    tuned = _document(cli_process("tune", mlp, *BUDGET, "--report", "report", "--json"), "tune")
    assert tuned["model"] == "mlp"
    assert tuned["trials"] == 6 == sum(task["trials"] for task in tuned["tasks"])
    assert tuned["speedup"] == pytest.approx(tuned["untuned_ms"] / tuned["tuned_ms"])
    assert "<svg" in (tmp_path / "report" / "report.html").read_text()
    report = luthier.TuningReport.from_json(json.loads((tmp_path / "report" / "report.json").read_text()))
    assert report.to_json() == tuned

    before = _document(cli("log", "stats", "--json"), "log-stats")
    compiled = _document(
        cli_process("compile", mlp, "-o", "mlp.luthier", "--threads", "1", "--require-tuned", "--json"),
        "compile",
    )
    assert (compiled["hits"], compiled["near"], compiled["misses"]) == (3, 0, 0)
    assert compiled["bytes"] == (tmp_path / "mlp.luthier").stat().st_size
    assert _document(cli("log", "stats", "--json"), "log-stats") == before

    inspected = _document(cli("inspect", mlp, "--threads", "1", "--json"), "inspect")
    assert [task["lookup"] for task in inspected["tasks"]] == ["exact"] * 3
    assert inspected["why"] is None
    for task in inspected["tasks"]:
        told = _document(
            cli("inspect", mlp, "--threads", "1", "--task", task["workload"], "--why", "--json"), "inspect"
        )
        why = told["why"]
        assert why["stage"] in ("final", "provisional", "in_model")
        assert sum(why["trials"].values()) >= 1
        assert all(rival["slower"][1] > 0 for rival in why["rivals"])
        text = cli("inspect", mlp, "--threads", "1", "--task", task["workload"][:8], "--why").stdout
        assert task["name"] in text
        assert all(step in text for step in why["steps"])
    assert cli("inspect", mlp, "--threads", "1", "--why").returncode == 2
    measured = _document(
        cli("bench", mlp, "--threads", "1", "--seconds", "0.2", "--against", "onnxruntime", "--json"), "bench"
    )
    assert [result["engine"] for result in measured["results"]] == ["luthier", "onnxruntime"]
    assert all(result["max_relative_error"] <= 1e-4 for result in measured["results"])


def test_the_same_from_python(mlp: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    report = luthier.tune(
        mlp.read_bytes(), threads=1, trials=6, seconds=20, progress=lambda event: seen.append(event.type)
    )
    assert report.trials == 6
    assert {"state", "trial", "task"} <= set(seen)
    module = luthier.compile(mlp, threads=1)
    assert {task.lookup for task in module.lookups} == {"exact"}
    x = np.random.default_rng(0).standard_normal((1, 784), dtype=np.float32)
    outputs = module.run({module.inputs[0].name: x})
    module.save(tmp_path / "mlp.luthier")
    module.close()
    loaded = luthier.load(tmp_path / "mlp.luthier")
    again = loaded.run({loaded.inputs[0].name: x})
    loaded.close()
    for name, array in outputs.items():
        np.testing.assert_array_equal(array, again[name])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"trials": -1}, "trials"),
        ({"trials": 1.5}, "trials"),
        ({"trials": True}, "trials"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": "10"}, "seconds"),
        ({"threads": 0}, "threads"),
        ({"error_budget": -1}, "error_budget"),
        ({"shapes": {"input": (0, 784)}}, "shapes"),
        ({"shapes": [1, 2]}, "shapes"),
        ({"seed": -1}, "seed"),
    ],
    ids=str,
)
def test_wrong_options_are_input_errors(options: dict[str, Any], word: str, mlp: Path) -> None:
    with pytest.raises(luthier.InputError, match=word):
        luthier.tune(mlp, **options)


def test_wrong_targets_models_and_artifacts_are_typed(mlp: Path, tmp_path: Path) -> None:
    with pytest.raises(luthier.TargetError, match="pdp-11"):
        luthier.compile(mlp, target="pdp-11")
    with pytest.raises(luthier.ModelError):
        luthier.compile(b"not a model")
    with pytest.raises(luthier.InputError):
        luthier.compile(42)  # type: ignore[arg-type]
    with pytest.raises(luthier.InputError):
        luthier.load(mlp)
