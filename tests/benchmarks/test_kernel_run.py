"""Shapes are models that run, and a row has every figure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bars import ALONE
from benchmarks.canaries import canaries
from benchmarks.kernel_models import channels_last, convolution, gather, unary
from benchmarks.kernel_run import RunOptions, direct_only, run_shape
from benchmarks.kernel_shapes import SHAPES, Shape
from compiler.pipeline import load_graph, lower
from compiler.space.rules import build_space
from compiler.target import native_target
from compiler.workload.evaluate import evaluate_program
from luthier.bench.canary import Canary
from tests.compiler.workloads import convolution as workload_of_convolution
from tests.slow import slow


@pytest.fixture(scope="module", name="canary")
def fixture_canary() -> Iterator[Canary]:
    with canaries(native_target(), [1]) as singers:
        yield singers[1]


def test_a_row_has_kernels_models_and_ceilings(tmp_path: Path, canary: Canary) -> None:
    options = RunOptions(native_target(), 1, trials=2, tuning_s=None, seconds=0.05, peers=())
    row = run_shape(SHAPES["conv3x3_5_7_5"], tmp_path, options, canary)
    assert row["tasks"] == ["conv 3x3 5->7 @5x5 +add+max"]
    assert row["multiply_adds"] == 5 * 7 * 13**2
    assert row["errors"]["luthier"] < 1e-5
    assert {"default", "tuned"} == set(row["kernel"]) == set(row["model"])
    assert all(0 < f["p10_us"] <= f["median_us"] <= f["p90_us"] for f in row["kernel"].values())
    assert row["bound_us"] > 0
    assert all(0 <= share <= 1 for share in row["disturbed"].values())
    assert row["ceilings"]["l1"] > 1e9


@pytest.mark.parametrize(
    "case", ["tuned before", slow("direct and tuned before"), "not before", slow("direct alone")]
)
def test_several_threads_are_timed_beside_one(case: str, tmp_path: Path) -> None:
    """With what was tuned for one; else with the default, unless that may be another algorithm."""
    with canaries(native_target(), [1, 2]) as singers:
        for threads in (1, 2) if case.endswith("tuned before") else (2,):
            options = RunOptions(native_target(), threads, 1, None, 0.05, (), direct="direct" in case)
            row = run_shape(SHAPES["conv3x3_5_7_5"], tmp_path, options, singers[threads])
    assert (ALONE in row["kernel"]) == (case != "direct alone")
    assert set(row["model"]) == {"default", "tuned"}


def test_a_model_that_the_compiler_refuses_gives_its_reason(tmp_path: Path, canary: Canary) -> None:
    options = RunOptions(native_target(), 1, trials=2, tuning_s=None, seconds=0.05, peers=())
    row = run_shape(Shape("nonzero", "memory", partial(unary, "NonZero", (3, 4))), tmp_path, options, canary)
    assert "NonZero" in row["refused"]


def test_indices_are_an_input_like_any(tmp_path: Path, canary: Canary) -> None:
    options = RunOptions(native_target(), 1, trials=2, tuning_s=None, seconds=0.05, peers=())
    shape = Shape("gather", "memory", partial(gather, 50, 24, 6))
    row = run_shape(shape, tmp_path, options, canary)
    assert row["tasks"] == ["map gather 6x24"]
    assert row["errors"]["luthier"] == 0


def test_channels_last_is_the_same_operator() -> None:
    model = convolution(3, 5, (4, 6), (3, 3))
    first, last = lower(load_graph(model)), lower(load_graph(channels_last(model)))
    x = np.random.default_rng(0).standard_normal((1, 3, 4, 6))
    expected = evaluate_program(first, {"x": x})["y"]
    actual = evaluate_program(last, {"x.last": x.transpose(0, 2, 3, 1)})["y.last"]
    np.testing.assert_allclose(actual.transpose(0, 3, 1, 2), expected, rtol=1e-12, atol=1e-12)


def test_a_direct_space_has_no_other_algorithm() -> None:
    workload = workload_of_convolution(8, 16, 16, 3)
    full = build_space(workload, native_target(), 1)
    direct = direct_only(full)
    assert any(knob.name == "algorithm" for knob in full.knobs)
    assert direct.is_legal(direct.default)
    chosen = {direct.values(a)["algorithm"] for a in direct.enumerate(200)}
    assert chosen == {"direct"}
    assert all(direct.values(a)["algorithm"] == "direct" for a in direct.starts)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, s in SHAPES.items() if s.group in ("ragged", "memory")])
def test_every_shape_computes_what_its_definition_says(name: str, tmp_path: Path, canary: Canary) -> None:
    options = RunOptions(native_target(), 1, trials=1, tuning_s=None, seconds=0.05, peers=())
    row = run_shape(SHAPES[name], tmp_path, options, canary)
    assert "refused" in row or row["errors"]["luthier"] < 1e-4
