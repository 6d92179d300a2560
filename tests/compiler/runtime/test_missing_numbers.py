"""NaN goes through every row that holds one, and no other, whatever the largest of the row missed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.compiler.frontend.models import model

ROWS = 12


@pytest.mark.parametrize("columns", [5, 60, 700])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_with_a_number_missing(op: str, axis: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 30, (ROWS, columns)).astype(np.float32)
    x[2], x[5, -1], x[9] = 3e38, -np.inf, -3e38
    missing = {1: [0], 3: [columns - 1], 6: [columns // 2], 8: range(columns), 9: [1, columns - 2], 10: [2]}
    for row, places in missing.items():
        x[row, list(places)] = np.nan
    x[10, 0], x[10, 3] = -np.nan, np.inf
    given = x if axis else np.ascontiguousarray(x.T)
    proto = model([helper.make_node(op, ["x"], ["y"], axis=axis)], {"x": list(given.shape)})
    module = compile_program(lower(load_graph(proto)), native_target(), 1, NoSource())
    got = module.run({"x": given})["y"]
    module.close()
    got = got if axis else got.T

    whole = [row for row in range(ROWS) if row not in missing]
    exact = x[whole].astype(np.float64)
    powers = np.exp(exact - exact.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        wanted = (
            shares
            if op == "Softmax"
            else exact - exact.max(1, keepdims=True) - np.log(powers.sum(1, keepdims=True))
        )
    np.testing.assert_allclose(got[whole], wanted, rtol=1e-5, atol=1e-6)
    assert np.all(np.isnan(got[list(missing)]))
