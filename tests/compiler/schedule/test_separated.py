"""Windows that combine first what they share give the same results."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_nest
from compiler.schedule.separated import find_windows, separated
from compiler.space.rules import build_space
from compiler.symbol import axis
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_interpreted, run_native
from tests.compiler.workloads import (
    convolution,
    depthwise,
    matmul,
    max_pool,
    mean,
    random_operands,
    softmax,
    windows,
)

OVERLAPPING = [
    pytest.param(windows(11, 19, taps=5), id="5x5"),
    pytest.param(windows(9, 21, dilation=2), id="dilated"),
    pytest.param(windows(13, 17, taps=5, stride=3), id="stride 3"),
    pytest.param(max_pool(11, 19), id="max"),
    pytest.param(windows(9, 16, taps=13, reducer="max", outside=float("-inf")), id="wider than the image"),
]
V4 = PRESETS["x86-64-v4"]


@pytest.mark.parametrize("workload", OVERLAPPING)
@pytest.mark.parametrize("along", [0, 1])
def test_the_rewritten_windows_are_the_same(workload: Workload, along: int) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    rewritten = separated(workload, (along,))
    np.testing.assert_allclose(reference_outputs(rewritten, operands)["y0"], expected, atol=1e-12)
    shared, rest, _ = rewritten.stages
    assert [len(stage.reduce_axes) for stage in (shared, rest)] == [1, 1]


@pytest.mark.parametrize("workload", OVERLAPPING)
def test_every_tile_of_them_gives_the_same(workload: Workload) -> None:
    operands, rng = random_operands(workload), random.Random(3)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), 1)
    ours = replace(
        space, legal=lambda values: values["algorithm"] == "separated" and space.legal(values), starts=()
    )
    for _ in range(12):
        schedule = ours.schedule(ours.sample(rng))
        np.testing.assert_allclose(run_native(workload, schedule, operands), expected, rtol=1e-5, atol=1e-5)
    interpreted = run_interpreted(workload, schedule, operands)
    np.testing.assert_allclose(interpreted, expected, rtol=1e-5, atol=1e-5)


def test_what_is_shared_stays_in_registers() -> None:
    workload = windows(28, 64)
    space = build_space(workload, V4, 1)
    values = space.values(space.default)
    assert values["algorithm"] == "separated"
    nest = build_nest(workload, space.schedule(space.default))
    scopes = {b.name: b.scope for b in nest.buffers}
    assert scopes["shared_buffer"] == "register"


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(windows(12, 16, taps=3, stride=3), id="side by side"),
        pytest.param(windows(12, 16, taps=2, stride=2), id="no overlap"),
        pytest.param(windows(12, 16, taps=1), id="one element"),
        pytest.param(mean(49, 45), id="no window"),
        pytest.param(matmul(5, 9, 7), id="product"),
        pytest.param(convolution(9, 8, 8, 3), id="weights differ by tap"),
        pytest.param(depthwise(9, 16), id="weights of a channel differ too"),
        pytest.param(softmax(7, 45), id="rows"),
    ],
)
def test_nothing_is_shared_elsewhere(workload: Workload) -> None:
    stage = workload.stages[0]
    assert all(find_windows(stage, a.name) is None for a in stage.axes)
    with pytest.raises(ScheduleError, match="overlap"):
        separated(workload, (0,))


@pytest.mark.parametrize("parameters", [(), (2,), (3,), (-1,), (0, 1)])
def test_parameters_name_an_axis_of_windows(parameters: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match="overlap"):
        separated(windows(9, 16), parameters)


def test_windows_tell_what_a_row_of_them_covers() -> None:
    found = find_windows(windows(13, 17, taps=5, stride=3).stages[0], "s1")
    assert found is not None
    assert (found.along, found.taps) == (axis("s1", 5), axis("r1", 5))
    assert [found.covered(n) for n in (1, 2, 5)] == [5, 8, 17]
    dilated = find_windows(windows(9, 16, dilation=2).stages[0], "s0")
    assert dilated is not None
    assert (dilated.stride, dilated.dilation, dilated.covered(3)) == (1, 2, 7)


def test_the_direct_form_stays_the_default_where_little_is_shared() -> None:
    space = build_space(max_pool(12, 64), V4, 1)
    assert space.values(space.default)["algorithm"] == "direct"
    assert "separated" in {space.values(a)["algorithm"] for a in space.starts}
