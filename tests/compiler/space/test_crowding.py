"""Places that lie a power of two apart share sets of the first cache: then memory is read from end to end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.space.crowding import crowds
from compiler.space.rules import build_space
from compiler.space.structure import tile_axes
from compiler.target import PRESETS, Target
from compiler.workload.ir import Workload
from tests.compiler.workloads import depthwise, windows

V3 = replace(PRESETS["x86-64-v3"], l1_bytes=32 << 10, l2_bytes=512 << 10)
V4 = replace(PRESETS["x86-64-v4"], l1_bytes=32 << 10, l2_bytes=1 << 20)


def crowded(workload: Workload, vectors: int) -> bool:
    anchor, store = workload.stages
    return crowds(workload, anchor, tile_axes(workload, store, V3, anchor), vectors, V3)


@pytest.mark.parametrize(
    ("size", "channels", "vectors", "expected"),
    [
        pytest.param(14, 512, 2, True, id="2 of 64 sets, and 48 lines"),
        pytest.param(2, 512, 64, False, id="all channels have all sets"),
        pytest.param(2, 512, 2, False, id="two sets hold 12 lines"),
        pytest.param(14, 384, 2, False, id="8 sets of 8 lines"),
        pytest.param(14, 576, 2, False, id="16 sets"),
        pytest.param(56, 144, 2, False, id="places 9 lines apart have all sets"),
        pytest.param(56, 128, 2, True, id="8 sets, and 174 lines"),
        pytest.param(200, 144, 2, True, id="606 lines of 512"),
    ],
)
def test_lines_of_a_few_sets(size: int, channels: int, vectors: int, *, expected: bool) -> None:
    """Panels of so many vectors of 32 bytes."""
    assert crowded(depthwise(size, channels), vectors) is expected


def test_strided_windows_have_more_places_and_as_many_sets() -> None:
    for stride, expected in ((1, False), (2, True)):
        assert crowded(depthwise(32, 192, stride), 2) is expected


@pytest.mark.parametrize(("near", "inside"), [(4 << 20, False), (3 << 20, True)])
def test_what_leaves_the_second_cache_is_read_from_end_to_end(near: int, *, inside: bool) -> None:
    """An image of 56 x 56 x 144, with its border, and another one are 3.7 million bytes; a line is 33 KiB."""
    space = build_space(depthwise(56, 144), replace(V3, l1_bytes=128 << 10, l2_bytes=near), 1)
    assert (space.values(space.default)["order"] == "inside") is inside


@pytest.mark.parametrize(
    ("stride", "channels", "tile"),
    [
        pytest.param(2, 12, (2, 2), id="no more vectors than there are"),
        pytest.param(2, 8, (8, 1), id="one vector alone would wait"),
    ],
)
def test_what_is_read_from_end_to_end_has_few_rows_where_they_share_little(
    stride: int, channels: int, tile: tuple[int, int]
) -> None:
    space = build_space(depthwise(112, channels, stride), V3, 1)
    values = space.values(space.default)
    assert values["order"] == "inside"
    assert (values["rows"], values["vectors"]) == tile


@pytest.mark.parametrize(
    ("kernel", "activation", "target", "unroll"),
    [
        (3, None, V3, 9),
        (3, "sigmoid", V3, 3),
        (5, "sigmoid", V3, 8),
        (3, "sigmoid", V4, 9),
    ],
)
def test_a_window_is_no_body_with_a_function_that_needs_the_registers(
    kernel: int, activation: str | None, target: Target, unroll: int
) -> None:
    space = build_space(depthwise(28, 240, 1, kernel, activation), target, 1)
    assert space.values(space.default)["unroll"] == unroll


def test_windows_side_by_side_leave_no_half_lines() -> None:
    """A panel of one vector is half a line with 32 bytes, and a whole one with 64."""
    for target, inside in ((V3, True), (V4, False)):
        space = build_space(windows(28, 64, reducer="max", outside=float("-inf")), target, 1)
        values = space.values(space.default)
        assert values["algorithm"] == "separated"
        assert (values["order"] == "inside") is inside
