"""Tiles that have a whole line of an image, taller than others, where one vector has all columns."""

from __future__ import annotations

import pytest

from compiler.evaluate import reference_outputs
from compiler.space.register_tile import heights
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import convolution, matmul, padded_convolution, random_operands


def _tile(workload: Workload, target: str = "x86-64-v4") -> tuple[object, object, object]:
    space = build_space(workload, PRESETS[target], 1)
    values = space.values(space.default)
    return values["rows"], values["vectors"], values["unroll"]


def test_a_tile_may_have_all_rows_of_any_short_line() -> None:
    assert heights(17)[-3:] == (14, 16, 17)
    assert heights(28)[-2:] == (24, 28)
    assert heights(29) == heights(28)
    assert heights(1) == (1,)


@pytest.mark.parametrize(
    ("workload", "tile"),
    [
        pytest.param(convolution(17, 8, 12, 3), (17, 1, 1), id="of one vector of columns"),
        pytest.param(convolution(28, 12, 16, 3), (28, 1, 4), id="the longest"),
        pytest.param(matmul(19, 16, 64), (19, 1, 4), id="without a window"),
    ],
)
def test_a_line_that_fits_the_registers_is_one_tile(workload: Workload, tile: tuple[int, int, int]) -> None:
    assert _tile(workload) == tile


@pytest.mark.parametrize(
    ("workload", "target"),
    [
        pytest.param(convolution(17, 8, 24, 3), "x86-64-v4", id="two vectors reuse more"),
        pytest.param(convolution(29, 8, 12, 3), "x86-64-v4", id="too long"),
        pytest.param(convolution(17, 8, 8, 3), "x86-64-v3", id="too few registers"),
        pytest.param(convolution(17, 1, 12, 3), "x86-64-v4", id="the sum goes along the line"),
    ],
)
def test_other_lines_are_not(workload: Workload, target: str) -> None:
    rows, *_ = _tile(workload, target)
    assert isinstance(rows, int)
    assert rows <= 16


def test_a_line_with_padding_at_both_ends_is_right() -> None:
    workload = padded_convolution(17, 3, 12, 3)
    operands = random_operands(workload)
    space = build_space(workload, native_target(), 1)
    values = space.values(space.default)
    whole = {**values, "rows": 17, "vectors": 1}
    assert space.legal(whole) == (native_target().vector_registers >= 32)
    schedule = space.build(whole if space.legal(whole) else values)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, schedule, operands), expected) < 1e-5
