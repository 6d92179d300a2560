"""`luthier.compile` on an empty log: what the shipped model chooses, and that the output says so."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from onnx import helper

import luthier
from compiler.target import native_target
from luthier import build
from luthier.build import compile_model, make_options
from tests.compiler.frontend.models import model
from tests.tuner.models import formula_model
from tuner.cost_model import shipped, stored
from tuner.cost_model.gates import Gates
from tuner.instant import Instant, shipped_model
from tuner.interval import Interval
from tuner.task import Task

Cli = Callable[..., object]
CONTRACT = Path(__file__).resolve().parents[2] / "docs" / "contracts" / "compile.schema.json"


@pytest.fixture
def network() -> bytes:
    """A convolution, of which the model knows the space, and a softmax, of which it does not."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 32, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t"]),
        helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node("Softmax", ["u"], ["y"], axis=1),
    ]
    return model(nodes, {"x": (1, 32, 20, 20)}, {"w": weights}).SerializeToString()


@pytest.fixture
def ships(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package ships a model, one that is always sure, for this machine."""
    found = formula_model()
    machines = frozenset({stored.machine_of(native_target())})
    seen = stored.Seen(
        machines, frozenset({1}), found.seen.knobs | {"depth", "order", "lanes", "made"}, {}, {}
    )
    gates = {**found.gates, "margin": 0.0}
    monkeypatch.setattr(
        "tuner.instant.load_model", lambda path: stored.StoredModel(found.booster, 1, seen, gates)
    )
    shipped.SHIPPED.write_bytes(b"a model")
    shipped_model.cache_clear()
    yield shipped.SHIPPED
    shipped_model.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Workloads that the model was asked about."""
    seen: list[str] = []
    really = Instant.__call__

    def watched(self: Instant, task: Task, space: object) -> object:
        seen.append(task.workload.digest)
        return really(self, task, space)  # type: ignore[arg-type]

    monkeypatch.setattr(Instant, "__call__", watched)
    return seen


def test_an_empty_log_gives_what_the_model_chooses_and_the_right_result(network: bytes, ships: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 32, 20, 20)).astype(np.float32)
    with (
        closing(luthier.compile(network, threads=1)) as predicted,
        closing(luthier.compile(network, threads=1, predict=False)) as usual,
    ):
        kinds = {task.lookup for task in predicted.lookups}
        assert "predicted" in kinds
        assert all(
            (task.expected_loss is not None) == (task.lookup == "predicted") for task in predicted.lookups
        )
        assert {task.lookup for task in usual.lookups} == {"default"}
        (name,), (output,) = ([s.name for s in specs] for specs in (predicted.inputs, predicted.outputs))
        one, other = predicted.run({name: x})[output], usual.run({name: x})[output]
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_nothing_predicted_enters_the_log(network: bytes, ships: Path) -> None:
    luthier.compile(network, threads=1).close()
    with build.open_log(None) as log:
        stats = log.stats()
    assert (stats["records"], stats["trials"]) == (0, 0)


def test_a_model_compiled_before_needs_no_new_prediction(
    network: bytes, ships: Path, asked: list[str]
) -> None:
    options = make_options(threads=1)
    first = compile_model(network, options)
    assert asked
    asked.clear()
    again = compile_model(network, options)
    assert not asked
    assert again.lookups == first.lookups
    ships.write_bytes(b"another model")
    compile_model(network, options)
    assert asked  # another model may choose otherwise


def test_the_document_says_where_each_schedule_comes_from(
    tmp_path: Path, network: bytes, ships: Path, cli: Cli
) -> None:
    (tmp_path / "net.onnx").write_bytes(network)

    def lookups_of(*flags: str) -> list[str]:
        done = cli("compile", "net.onnx", "-o", "net.luthier", "--threads", "1", "--json", *flags)
        document = json.loads(done.stdout)  # type: ignore[attr-defined]
        jsonschema.validate(document, json.loads(CONTRACT.read_text()))
        assert document["misses"] == len(document["tasks"])
        return [task["lookup"] for task in document["tasks"]]

    assert "predicted" in lookups_of()
    assert set(lookups_of("--no-predict")) == {"default"}


def test_predictions_are_not_records(network: bytes, ships: Path) -> None:
    with pytest.raises(luthier.NotTuned):
        compile_model(network, make_options(threads=1), require_tuned=True)


def test_a_model_for_other_rules_is_refused_and_the_default_serves(
    network: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    found, one = formula_model(), Interval(1.0, 1.0, 1.0)
    gates = Gates(1, 1, 2, one, one, one, one, one, one, 0.0, 0.0, {})
    stored.save_model(shipped.SHIPPED, found.booster, gates, 1, found.seen)
    content = shipped.SHIPPED.read_bytes().replace(b'"rules": ', b'"rules": 1')
    shipped.SHIPPED.write_bytes(content)
    shipped_model.cache_clear()
    with caplog.at_level(logging.WARNING, "luthier"), closing(luthier.compile(network, threads=1)) as module:
        assert {task.lookup for task in module.lookups} == {"default"}
    assert "gets the default schedule: the cost model pretrained.model was trained for rules 1" in caplog.text
    shipped_model.cache_clear()


def test_a_model_that_is_never_sure_is_not_even_read(network: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    found, one = formula_model(), Interval(1.0, 1.0, 1.0)
    gates = Gates(1, 1, 2, one, one, one, one, one, one, 0.0, None, {})
    stored.save_model(shipped.SHIPPED, found.booster, gates, 1, found.seen)
    monkeypatch.setattr("tuner.instant.load_model", pytest.fail)
    shipped_model.cache_clear()
    assert shipped.shipped_digest() == ""
    with closing(luthier.compile(network, threads=1)) as module:
        assert {task.lookup for task in module.lookups} == {"default"}


def test_answers_stay_the_same_while_a_model_is_compiled(
    network: bytes, ships: Path, asked: list[str]
) -> None:
    options = make_options(threads=1)
    program = build.read_program(network, options)
    workloads = [s.workload for s in program.subgraphs]
    with build.open_lookups(options) as source:
        first = source.lookup(workloads, options.target, 1)
        count = len(asked)
        assert source.lookup(workloads, options.target, 1) == first
    assert len(asked) == count


def test_the_import_needs_no_trees() -> None:
    """A model whose Tasks all have records is compiled without loading XGBoost."""
    code = "import sys, luthier.build, luthier.lookups; sys.exit('xgboost' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
