"""Which algorithm the rules pick without measuring, and that its errors are those that were foretold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.choice import default_schedule
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.scalar import Load, apply
from compiler.schedule.source import TASK_ERROR_BUDGET
from compiler.schedule.steps import Algorithm
from compiler.space.estimate import algorithm_cycles
from compiler.space.rules import build_space
from compiler.space.winograd_phases import WinogradPhases
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import native_outputs, stored_error
from tests.compiler.workloads import (
    anchored,
    at,
    convolution,
    operand,
    padded_convolution,
    random_operands,
    windowed,
)

V3 = PRESETS["x86-64-v3"]
WHOLE = PRESETS["x86-64-v4"]
HALVED = replace(WHOLE, cpu="znver4")
"""Takes vectors of 64 bytes in two halves."""
NEAR = replace(WHOLE, cpu="znver5")
"""Takes them whole, and memory keeps up with a core."""
SLOW = replace(V3, cpu="znver3", l2_bytes=512 << 10, l3_bytes=32 << 20)
"""Has a third of that rate."""


def algorithm(
    workload: Workload, error_budget: float = TASK_ERROR_BUDGET, target: Target = V3, threads: int = 1
) -> str:
    """Without a word on how many tiles at a time: their results are the same."""
    space = build_space(workload, target, threads, error_budget)
    return str(space.values(space.default).get("algorithm", "direct")).removesuffix(" in blocks")


@pytest.mark.parametrize(("size", "channels"), [(7, 512), (14, 64), (28, 64), (56, 64)])
def test_fewer_multiplications_are_the_default_where_they_pay(size: int, channels: int) -> None:
    assert algorithm(padded_convolution(size, channels, channels, 3)).startswith("winograd")


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(padded_convolution(4, 512, 512, 3), id="constants take as long as multiplications"),
        pytest.param(padded_convolution(56, 4, 64, 3), id="transforms take as long as products"),
        pytest.param(padded_convolution(14, 512, 512, 3, stride=2), id="a stride, and many constants"),
        pytest.param(padded_convolution(224, 3, 64, 7, stride=2), id="a stride, and few channels"),
        pytest.param(convolution(28, 64, 64, 1), id="no window"),
    ],
)
def test_the_direct_form_is_the_default_elsewhere(workload: Workload) -> None:
    assert algorithm(workload) == "direct"


def test_what_moves_one_by_one_counts() -> None:
    """Channels first, so that vectors of channels are put together and taken apart."""
    places = [Index.of(f"s{d + 1}") + f"r{d + 1}" for d in range(2)]
    body = apply("mul", Load("x0", (Index.of("r0"), *places)), Load("c0", at("s0", "r0", "r1", "r2")))
    operands = (operand("x0", 16, 98, 98), operand("c0", 12, 16, 3, 3, constant=True))
    first = anchored((12, 96, 96), (16, 3, 3), "sum", body, operands)
    assert algorithm(first, target=NEAR) == "direct"
    assert algorithm(padded_convolution(96, 16, 12, 3), target=NEAR).startswith("winograd")


def test_transforms_of_few_channels_leave_lanes_idle() -> None:
    assert algorithm(padded_convolution(20, 4, 16, 5)) == "direct"
    assert algorithm(padded_convolution(20, 8, 16, 5)).startswith("winograd")


def test_zeros_of_the_matrices_cost_nothing() -> None:
    """Of eight channels, half of what the transforms would add up is nothing."""
    assert algorithm(padded_convolution(56, 8, 64, 3)) == "winograd4"


@pytest.mark.parametrize(
    ("taps", "chosen"), [(2, "winograd4"), (4, "winograd4"), (5, "winograd4"), (7, "winograd2")]
)
def test_windows_of_other_sizes_have_fewer_multiplications_too(taps: int, chosen: str) -> None:
    assert algorithm(convolution(28, 64, 64, taps), target=NEAR) == chosen


@pytest.mark.parametrize(
    ("size", "taps"),
    [((8, 16, 16), (3, 3, 3)), ((28, 28), (5, 3)), ((30, 30), (3, 5)), ((1000,), (3,)), ((17, 17), (1, 7))],
)
def test_windows_of_any_shape_have_fewer_multiplications_too(
    size: tuple[int, ...], taps: tuple[int, ...]
) -> None:
    assert algorithm(windowed(size, 64, 64, taps), target=NEAR).startswith("winograd")


def test_a_stride_has_fewer_multiplications_too() -> None:
    assert algorithm(padded_convolution(56, 128, 128, 3, stride=2), target=NEAR) == "winograd4"
    assert algorithm(padded_convolution(28, 256, 256, 3, stride=2), target=NEAR) == "winograd2"
    assert algorithm(padded_convolution(28, 128, 256, 3, stride=2), target=NEAR) == "winograd2"
    assert algorithm(padded_convolution(112, 64, 64, 3, stride=2), target=NEAR) == "direct", "tiles are far"


def test_what_surrounds_products_weighs_less_where_vectors_are_halved() -> None:
    assert (HALVED.multiply_adds, WHOLE.multiply_adds, V3.multiply_adds) == (1, 2, 2)
    assert replace(HALVED, vector_bytes=32).multiply_adds == 2
    workload = padded_convolution(7, 512, 512, 3)
    assert algorithm(workload, target=HALVED) == "winograd2"
    assert algorithm(workload, target=WHOLE) == "direct"


def test_constants_hide_behind_arithmetic_where_memory_keeps_up() -> None:
    """Larger tiles need more constants, and fewer multiplications, which are done sooner where vectors are whole."""
    workload = padded_convolution(14, 256, 256, 3)
    assert algorithm(workload, target=HALVED) == "winograd5"
    assert algorithm(workload, target=NEAR) == "winograd3"
    assert algorithm(workload, target=WHOLE) == "winograd2"
    few = padded_convolution(7, 512, 512, 3)
    assert (algorithm(few, target=NEAR), algorithm(few, target=WHOLE)) == ("winograd2", "direct")


@pytest.mark.parametrize(
    ("size", "channels", "chosen"), [(7, 512, "winograd2"), (14, 256, "winograd3"), (28, 128, "winograd4")]
)
def test_constants_that_arrive_late_are_worth_more_multiplications(
    size: int, channels: int, chosen: str
) -> None:
    workload = padded_convolution(size, channels, channels, 3)
    assert algorithm(workload, target=SLOW) == chosen
    fast = replace(SLOW, cpu="znver5")
    assert (algorithm(workload, target=fast) == chosen) is (size == 28), "larger tiles where memory keeps up"


def test_threads_share_the_way_to_memory() -> None:
    """Larger tiles need fewer multiplications, which threads share out, and more constants, which they wait for."""
    workload = padded_convolution(14, 256, 256, 3)
    chosen = [algorithm(workload, target=HALVED, threads=threads) for threads in (1, 2, 4)]
    assert chosen == ["winograd5", "winograd3", "winograd2"]
    slow = [algorithm(workload, target=SLOW, threads=threads) for threads in (1, 2)]
    assert slow == ["winograd3", "winograd3"], "one core gets less than half of what there is"
    assert HALVED.memory_rate(8) == HALVED.memory_rate(16), "more cores are on more dies"
    assert WHOLE.memory_rate(1) == WHOLE.memory_rate(4) == 0, "nothing is known"


def test_few_channels_are_no_reason_against_fewer_multiplications() -> None:
    assert algorithm(padded_convolution(45, 12, 27, 3), target=NEAR) == "winograd5"


@pytest.mark.parametrize(
    ("size", "channels", "chosen"),
    [
        pytest.param(14, 256, "winograd5", id="three tiles instead of four"),
        pytest.param(28, 128, "winograd4", id="as few multiplications with less error"),
        pytest.param(24, 96, "winograd6", id="four tiles instead of five or six"),
        pytest.param(12, 256, "winograd4", id="few tiles, more constants than multiplications save"),
        pytest.param(9, 256, "winograd3", id="larger tiles need more constants"),
    ],
)
def test_tiles_that_fill_the_image_are_the_default(size: int, channels: int, chosen: str) -> None:
    assert algorithm(padded_convolution(size, channels, channels, 3), target=HALVED) == chosen


def test_the_default_keeps_to_the_error_budget() -> None:
    workload = padded_convolution(28, 64, 64, 3)
    assert algorithm(workload, 2e-5) == "winograd4"
    assert algorithm(padded_convolution(40, 512, 64, 3)) == "winograd4"
    assert algorithm(padded_convolution(40, 64, 64, 3)) == "winograd5"
    assert algorithm(workload, 1e-6) == "direct"
    steps = default_schedule(workload, V3, 1, 1e-6).steps
    assert not any(isinstance(step, Algorithm) for step in steps)
    assert any(isinstance(step, Algorithm) for step in default_schedule(workload, V3, 1).steps)


def test_a_search_begins_with_the_direct_form_too() -> None:
    space = build_space(padded_convolution(28, 64, 64, 3), V3, 1)
    assert {space.values(a)["algorithm"] for a in (space.default, *space.starts)} >= {"direct", "winograd4"}
    assert space.default not in space.starts


@pytest.mark.parametrize("channels", [32, 256])
def test_the_expected_error_is_near_the_real_one(channels: int) -> None:
    workload = padded_convolution(20, channels, 64, 3)
    space = build_space(workload, native_target(), 1)
    assert space.error > 0
    operands = random_operands(workload)
    got = native_outputs(workload, space.schedule(space.default), operands)
    error = stored_error(workload, got, reference_outputs(workload, operands))
    assert space.error / 10 < error < space.error


@pytest.mark.slow
@pytest.mark.parametrize("m", [3, 4, 5, 6])
@pytest.mark.parametrize("channels", [64, 128, 256, 512])
def test_no_seed_of_eight_passes_the_expected_error(m: int, channels: int) -> None:
    workload = padded_convolution(20, channels, 64, 3)
    tiles = WinogradPhases(workload, m, native_target())
    space = build_space(workload, native_target(), 1, 1.0)
    thought_well_of = (space.values(a) for a in (space.default, *space.starts))
    (values,) = (v for v in thought_well_of if v["algorithm"] == f"winograd{m}")
    for seed in range(8):
        operands = random_operands(workload, seed)
        got = native_outputs(workload, space.build(values), operands)
        error = stored_error(workload, got, reference_outputs(workload, operands))
        assert tiles.error / 3 < error < tiles.error


def test_what_is_stored_between_phases_costs() -> None:
    workload = convolution(28, 64, 64, 1)
    assert algorithm_cycles(workload, frozenset({"anchor"}), V3, 1) > algorithm_cycles(
        workload, frozenset(), V3, 1
    )
