"""Determinants, by cofactors and by elimination."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from compiler.errors import ModelError, UnsupportedOperator
from compiler.pipeline import load_graph, lower
from tests.compiler.frontend.models import model as network
from tests.compiler.workload.test_random_networks import run_compiled

NODE = helper.make_node("Det", ["x"], ["y"])


def determinants(x: np.ndarray) -> np.ndarray:
    program = lower(load_graph(network([NODE], {"x": x.shape}, {}, opset=22)))
    return run_compiled(program, {"x": x})["y"]


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 3, 3), (4, 4), (2, 3, 7, 7), (20, 20)])
def test_they_are_those_of_numpy(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    wanted = np.linalg.det(x.astype(np.float64))
    np.testing.assert_allclose(determinants(x), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


def test_rows_change_places_where_a_pivot_is_0() -> None:
    """Of a permutation it is its sign, and no row is ever in its place."""
    for rows in ((1, 2, 3, 4, 0), (4, 0, 1, 2, 3), (1, 0, 3, 2, 4), (2, 1, 0, 3, 4)):
        x = np.eye(5, dtype=np.float32)[list(rows)]
        assert determinants(x) == np.linalg.det(x)


def test_columns_of_zeros_and_missing_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    x[:, 2] = 0
    assert determinants(x) == 0
    for row in range(6):
        x[row, 2] = np.nan
        assert np.isnan(determinants(x))
        x[row, 2] = 0


def test_what_is_refused() -> None:
    for shape, error in (((2, 3), ModelError), ((4,), ModelError), ((65, 65), UnsupportedOperator)):
        with pytest.raises(error, match="matrices"):
            load_graph(network([NODE], {"x": shape}, {}, opset=22))
