"""Where one multiply-add starts in a cycle, tiles of products are one vector wide, and a few rows high."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from compiler.workload.ir import Workload
from tests.compiler.workloads import convolution, lstm_cell, matmul

WHOLE = replace(PRESETS["x86-64-v4"], l1_bytes=32 << 10, l2_bytes=1 << 20)
HALVED = replace(WHOLE, cpu="znver4")
"""Takes vectors of 64 bytes in two halves."""


def tile(workload: Workload, target: Target) -> tuple[object, object]:
    space = build_space(workload, target, 1)
    values = space.values(space.default)
    return values["rows"], values["vectors"]


@pytest.mark.parametrize(
    ("workload", "rows", "vectors"),
    [
        pytest.param(convolution(56, 64, 256, 1), 8, 1, id="many rows"),
        pytest.param(matmul(128, 768, 768), 8, 1, id="constants from afar"),
        pytest.param(matmul(9, 128, 64), 5, 1, id="a rest that fills the pipe"),
        pytest.param(matmul(9, 768, 1024), 5, 1, id="two tiles of rows for constants from afar"),
        pytest.param(matmul(6, 768, 1024), 6, 4, id="all rows, where two tiles would not fill the pipe"),
        pytest.param(convolution(40, 64, 20, 1), 8, 1, id="a vector and a quarter"),
        pytest.param(convolution(40, 64, 56, 1), 6, 4, id="three vectors and a half"),
    ],
)
def test_a_vector_wide(workload: Workload, rows: int, vectors: int) -> None:
    assert tile(workload, HALVED) == (rows, vectors)


def test_wider_where_two_multiply_adds_start_in_a_cycle() -> None:
    _, vectors = tile(convolution(56, 64, 256, 1), WHOLE)
    assert isinstance(vectors, int)
    assert vectors > 1


def test_gates_of_a_cell_fit_in_the_registers() -> None:
    workload = lstm_cell(4, 64, 64)
    space = build_space(workload, HALVED, 1)
    assert space.is_legal(space.default)
