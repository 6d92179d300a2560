"""A model that enlarges what its kernels round gets less of the error budget for each Task; others do not."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import luthier
from compiler.errors import InputError
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from luthier import build
from luthier.bench.reference import relative_error
from luthier.build import BuildOptions, make_options
from tests.compiler.frontend.models import model

CHANNELS, SIZE = 48, 28


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUTHIER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("LUTHIER_DATABASE_URL", f"sqlite:///{tmp_path / 'log.db'}")


def difference(share: float, batch: int | str = 1) -> ModelProto:
    """Two convolutions, nearly equal, and what is between them: errors of each are 1 / share times as large there."""
    rng = np.random.default_rng(0)
    first, change = (rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) for _ in range(2))
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["s"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["s"], ["u"]),
        helper.make_node("Conv", ["x", "b"], ["t"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["t"], ["v"]),
        helper.make_node("Sub", ["u", "v"], ["y"]),
    ]
    constants = {"a": first, "b": first + np.float32(share) * change}
    return model(nodes, {"x": (batch, CHANNELS, SIZE, SIZE)}, constants)


def error_of(proto: ModelProto | bytes) -> float:
    x = {"x": np.random.default_rng(7).standard_normal((1, CHANNELS, SIZE, SIZE)).astype(np.float32)}
    with closing(luthier.compile(proto, threads=1)) as compiled:
        return relative_error(compiled.run(x), evaluate_graph(import_model(proto, {"x": x["x"].shape}), x))


@pytest.mark.parametrize("batch", [1, "n"], ids=["static", "open"])
def test_errors_that_are_enlarged_are_made_smaller(
    batch: int | str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    proto = difference(1e-3, batch)
    with caplog.at_level(logging.INFO, "luthier"):
        careful = error_of(proto)
    assert "enlarges errors" in caplog.text
    monkeypatch.setattr(build, "rounding_error", lambda *_: 0.0)
    monkeypatch.setenv("LUTHIER_CACHE_DIR", str(tmp_path / "other"))
    # By how much depends on the largest tile of Winograd's algorithm that the target takes without care.
    assert careful * 1.2 < error_of(proto)


def test_models_that_do_not_keep_their_algorithms(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "luthier"):
        assert error_of(difference(1.0)) < 2e-5
    assert "enlarges errors" not in caplog.text


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_what_becomes_short_floats_needs_no_care(kind: int, caplog: pytest.LogCaptureFixture) -> None:
    """Its own rounding is much farther off: every model of 16 bits was compiled with care, and slow."""
    proto = difference(1e-3)
    proto.graph.node[4].output[0] = "w"
    proto.graph.node.append(helper.make_node("Cast", ["w"], ["z"], to=kind))
    proto.graph.node.append(helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT))
    with caplog.at_level(logging.INFO, "luthier"):
        luthier.compile(proto, threads=1).close()
    assert "enlarges errors" not in caplog.text


def test_the_cache_keeps_what_was_decided(caplog: pytest.LogCaptureFixture) -> None:
    proto = difference(1e-3).SerializeToString()
    first = error_of(proto)
    caplog.clear()
    with caplog.at_level(logging.INFO, "luthier"):
        assert error_of(proto) == first
    # It was not tried again, and is said again.
    assert "enlarges errors;" in caplog.text
    assert "to about" not in caplog.text


def test_a_model_that_cannot_be_tried_is_compiled(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        message = "x has sizes that do not fit"
        raise InputError(message)

    monkeypatch.setattr("luthier.rounding.made_up_inputs", refused)
    with caplog.at_level(logging.INFO, "luthier"):
        luthier.compile(difference(1e-3), threads=1).close()
    assert "sizes that do not fit" in caplog.text


def test_a_larger_budget_is_kept_to(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "luthier"):
        luthier.compile(difference(1e-3), threads=1, error_budget=0.5).close()
    assert "enlarges errors" not in caplog.text


@pytest.mark.slow
def test_a_tuned_model_is_found_with_the_budget_that_it_was_tuned_for() -> None:
    proto = difference(3e-2)
    report = luthier.tune(proto, trials=12, threads=1)
    assert report.tuned_ms > 0
    options = make_options(threads=1)
    image = build.compile_model(proto, options, require_tuned=True)
    assert {task.lookup for task in image.lookups} == {"exact"}
    assert error_of(proto) < 1e-4


@pytest.mark.parametrize(
    ("asked", "usual", "with_care"), [(None, 2e-5, 2e-6), (1e-3, 2e-4, 2e-6), (1e-6, 2e-7, 2e-7)]
)
def test_with_care_a_task_gets_less(asked: float | None, usual: float, with_care: float) -> None:
    options = BuildOptions(make_options().target, 1, error_budget=asked)
    assert options.task_error_budget == pytest.approx(usual)
    assert replace(options, careful=True).task_error_budget == pytest.approx(with_care)
