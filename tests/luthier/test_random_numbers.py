"""Compiled models that draw random numbers: each run draws its own, a seed gives them again, whatever computes them."""

from contextlib import closing
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import luthier
from compiler.errors import InputError, UnsupportedModel
from compiler.frontend import import_model
from compiler.graph.evaluate import evaluate_graph
from compiler.seed import SEED
from luthier.backend import prepare
from luthier.bench.run import bench
from luthier.build import make_options
from tests.compiler.frontend.models import model

NODES = [
    helper.make_node("RandomNormalLike", ["x"], ["noise"]),
    helper.make_node("Exp", ["x"], ["scale"]),
    helper.make_node("Mul", ["noise", "scale"], ["scaled"]),
    helper.make_node("Add", ["scaled", "x"], ["y"]),
]
X = np.linspace(-1, 1, 30 * 211, dtype=np.float32).reshape(30, 211)
SEVEN = np.asarray(7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(model(NODES, {"x": X.shape}), tmp_path / "sampled.onnx")
    return tmp_path / "sampled.onnx"


def test_each_run_draws_its_own_numbers(path: Path) -> None:
    with closing(luthier.compile(path, threads=1)) as module:
        first, second = (module.run({"x": X})["y"] for _ in range(2))
    assert (first == second).mean() < 0.01


def test_a_seed_gives_the_same_numbers_on_any_number_of_threads_and_in_the_reference(path: Path) -> None:
    found = []
    for threads in (1, 2):
        with closing(luthier.compile(path, threads=threads)) as module:
            found += [module.run({"x": X, SEED: SEVEN})["y"] for _ in range(2)]
    assert all(np.array_equal(found[0], other) for other in found[1:])
    wanted = evaluate_graph(import_model(path), {"x": X, SEED: SEVEN})["y"]
    np.testing.assert_allclose(found[0], wanted, rtol=2e-5, atol=2e-6)


def test_another_type_of_seed_is_refused(path: Path) -> None:
    with (
        closing(luthier.compile(path, threads=1)) as module,
        pytest.raises(InputError, match=r"luthier\.seed.*int64"),
    ):
        module.run({"x": X, SEED: np.asarray(7.5, np.float32)})


def test_a_place_has_its_number_whatever_the_size(tmp_path: Path) -> None:
    onnx.save(model(NODES, {"x": ["n", 211]}), tmp_path / "open.onnx")
    with closing(luthier.compile(tmp_path / "open.onnx", threads=1)) as module:
        whole, half = (module.run({"x": X[:rows], SEED: SEVEN})["y"] for rows in (30, 15))
        first, second = (module.run({"x": X})["y"] for _ in range(2))
    np.testing.assert_allclose(whole[:15], half, rtol=1e-6)
    assert (first == second).mean() < 0.01


def test_sizes_may_be_drawn(tmp_path: Path) -> None:
    """As of speech, whose length is sampled."""
    nodes = [
        helper.make_node("RandomUniformLike", ["x"], ["u"]),
        helper.make_node("Less", ["u", "x"], ["hit"]),
        helper.make_node("NonZero", ["hit"], ["y"]),
    ]
    onnx.save(model(nodes, {"x": [1000]}), tmp_path / "sizes.onnx")
    with closing(luthier.compile(tmp_path / "sizes.onnx", threads=1)) as module:
        counts = {module.run({"x": np.full(1000, 0.5, np.float32)})["y"].shape[1] for _ in range(5)}
    assert len(counts) > 1
    assert all(400 < count < 600 for count in counts)


def test_others_are_timed_beside_it_and_not_compared(path: Path) -> None:
    """They draw their own numbers, and have no seed to be given."""
    ours, other = bench(path, make_options(threads=1), ["onnxruntime"], 0.1)["results"]
    assert ours["max_relative_error"] < 1e-5
    assert other["max_relative_error"] is None
    assert other["runs"] > 0


@pytest.mark.parametrize("given", [{}, {"seed": 1.0}])
def test_the_backend_for_stored_results_refuses_what_draws(given: dict[str, float]) -> None:
    drawn = helper.make_node("RandomNormalLike", ["x"], ["y"], **given)
    with pytest.raises(UnsupportedModel, match=r"no two engines draw.*luthier\.compile"):
        prepare(model([drawn], {"x": [3]}))
