"""Lanes along the sum: where they are offered and preferred, and that their products are the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from compiler.codegen.nest import emit_nest
from compiler.errors import CompileError
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_nest
from compiler.space.inner_tile import inner_axis
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    convolution,
    depthwise,
    matmul,
    max_pool,
    padded_convolution,
    product,
    random_operands,
    row_sum,
)
from tests.slow import THREADS

V3, V4 = PRESETS["x86-64-v3"], PRESETS["x86-64-v4"]
FEW_COLUMNS = {
    "a column more than a vector": matmul(3, 17, 259),
    "few columns": matmul(5, 3, 130),
    "one row": matmul(1, 9, 128),
    "both factors known at run time": product(2, 3, 9, 67, turned="x1"),
    "channels of a window": convolution(6, 72, 3, 3),
    "padded": padded_convolution(6, 64, 9, 3),
}


def offered(workload: Workload, threads: int = 1) -> bool:
    space = build_space(workload, V4, threads)
    return any("inner" in knob.choices for knob in space.knobs if knob.name == "algorithm")


@pytest.mark.parametrize("case", FEW_COLUMNS)
@pytest.mark.parametrize("threads", THREADS)
def test_products_are_the_same(case: str, threads: int) -> None:
    workload, rng = FEW_COLUMNS[case], random.Random(5)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), threads)
    if not offered(workload):
        pytest.fail("lanes along the sum are no choice")
    ours = replace(
        space, legal=lambda values: values["algorithm"] == "inner" and space.legal(values), starts=()
    )
    schedule, checked = space.schedule(space.default), 0
    for _ in range(24):
        schedule = ours.schedule(ours.sample(rng))
        try:
            got = run_native(workload, schedule, operands, threads)
        except CompileError as error:
            if "unroll less" not in str(error):
                raise
            continue  # more loops than code is made for
        assert relative_error(got, expected) < 1e-5
        checked += 1
    assert checked > 12
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5


def test_partial_sums_are_registers() -> None:
    workload = matmul(3, 17, 259)
    space = build_space(workload, V4, 1)
    assert space.values(space.default)["algorithm"] == "inner"
    nest = build_nest(workload, space.schedule(space.default))
    assert {b.name: b.scope for b in nest.buffers}["t0.r0.i"] == "register"


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(matmul(64, 64, 256), id="columns fill the vectors"),
        pytest.param(matmul(3, 17, 20), id="a short sum"),
        pytest.param(product(2, 3, 9, 67), id="a factor lies across the sum"),
        pytest.param(padded_convolution(9, 3, 17, 5), id="few channels"),
        pytest.param(depthwise(7, 35), id="no channels"),
        pytest.param(max_pool(11, 19), id="no product"),
        pytest.param(row_sum(11, 370), id="one factor"),
    ],
)
def test_lanes_stay_along_the_columns_elsewhere(workload: Workload) -> None:
    assert not offered(workload)


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(matmul(64, 2, 128), id="two columns"),
        pytest.param(convolution(14, 64, 3, 3), id="three channels"),
        pytest.param(convolution(14, 16, 3, 5), id="a vector of channels, of a large window"),
    ],
)
def test_few_columns_leave_the_lanes_to_the_sum(workload: Workload) -> None:
    space = build_space(workload, V4, 1)
    assert space.values(space.default)["algorithm"] == "inner"


@pytest.mark.parametrize("columns", [18, 20])
def test_fewer_multiplications_are_compared_with_lanes_along_the_sum(columns: int) -> None:
    workload = padded_convolution(28, 48, columns, 3)
    space = build_space(workload, V4, 1)
    assert "inner" in next(k.choices for k in space.knobs if k.name == "algorithm")
    assert str(space.values(space.default)["algorithm"]).startswith("winograd")


@pytest.mark.parametrize("columns", [3, 12, 24])
def test_code_can_be_made_of_large_windows_at_borders(columns: int) -> None:
    """Each place of a window that may be outside has code of its own."""
    workload = padded_convolution(14, 88, columns, 5)
    space = build_space(workload, V4, 1)
    usual = next(
        values
        for values in (dict(space.values(choice)) for choice in (space.default, *space.starts))
        if values["algorithm"] == "inner"
    )
    assert usual["unroll"] == 1
    emit_nest(build_nest(workload, space.build(usual)), V4)


def test_the_axis_lies_side_by_side_in_both_factors() -> None:
    window = convolution(6, 72, 3, 3)
    found = inner_axis(window, window.stages[0], V3)
    assert found is not None
    assert found.size == 72
    across = product(2, 3, 9, 67)
    assert inner_axis(across, across.stages[0], V3) is None


def test_fewer_passes_where_neither_factor_stays_in_the_first_cache() -> None:
    """Nine columns' sums hide the latency, but more passes over rows that are read from far cost more than that."""

    def columns(sums: int) -> object:
        values = (space := build_space(matmul(3, 17, sums), V3, 1)).values(space.default)
        assert values["algorithm"] == "inner"
        return values["vectors"]

    assert columns(480) == 3
    assert columns(2039) == 4
