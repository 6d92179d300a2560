"""Tiles of windows that are below each other: where a few lines of the image are more than the first cache holds."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.evaluate import reference_outputs
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import (
    convolution,
    depthwise,
    depthwise_gated,
    grouped,
    random_operands,
    windows,
)
from tests.slow import THREADS

V3 = replace(PRESETS["x86-64-v3"], l1_bytes=32 << 10, l2_bytes=512 << 10)
V4 = replace(PRESETS["x86-64-v4"], l1_bytes=32 << 10, l2_bytes=1 << 20)
SHORT = replace(V3, vector_bytes=16)
NEON = replace(PRESETS["aarch64-neoverse-n1"], l1_bytes=32 << 10)
TINY = replace(native_target(), l1_bytes=4 << 10)
"""So that a small image is a wide one."""


def pool(size: int, channels: int, stride: int = 1, taps: int = 3) -> Workload:
    return windows(size, channels, taps=taps, stride=stride, reducer="max", outside=float("-inf"))


@pytest.mark.parametrize(
    ("workload", "target", "rows", "vectors"),
    [
        pytest.param(pool(28, 256), V3, 5, 1, id="they cover seven lines, in a set of eight"),
        pytest.param(pool(28, 256), V4, 5, 2, id="and are two vectors wide where there are registers"),
        pytest.param(pool(28, 240), V4, 5, 2, id="lines of different sets"),
        pytest.param(pool(112, 64, stride=2), V3, 3, 1, id="stride 2: seven lines"),
        pytest.param(pool(112, 64, stride=2), V4, 3, 2, id="stride 2: two vectors"),
        pytest.param(pool(20, 256, taps=5), V3, 4, 1, id="5 x 5: eight lines"),
    ],
)
def test_pooling_of_a_wide_image(workload: Workload, target: Target, rows: int, vectors: int) -> None:
    """One panel after the other, and no more lines than a set of the first cache holds."""
    space = build_space(workload, target, 1)
    wanted = {"algorithm": "separated", "rows": rows, "beside": 1, "vectors": vectors, "order": "inside"}
    assert space.values(space.default).items() >= wanted.items()
    outermost = space.schedule(space.default).steps
    assert any(getattr(step, "loops", ("",))[0] == "s0.o" for step in outermost)


@pytest.mark.parametrize(
    "workload", [depthwise(28, 128), depthwise(14, 512), depthwise(7, 1152), depthwise(14, 480, 1, 5)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_panel_follows_the_other(workload: Workload, threads: int) -> None:
    space = build_space(workload, V4, threads)
    assert space.values(space.default)["order"] == "inside"


@pytest.mark.parametrize(
    ("workload", "target", "tile"),
    [
        pytest.param(depthwise(28, 128), V4, (7, 1, 2), id="pairs of lines"),
        pytest.param(
            depthwise(28, 192), V3, (4, 1, 2), id="a line is two vectors, and what tiles share stays"
        ),
        pytest.param(depthwise(28, 192), SHORT, (4, 1, 2), id="a line is four vectors, but 16 registers"),
        pytest.param(depthwise(28, 192), NEON, (4, 1, 4), id="and 32"),
        pytest.param(depthwise(14, 384), V3, (4, 2, 1), id="eight sums in 16 registers"),
        pytest.param(depthwise(14, 512), V3, (4, 2, 1), id="places that crowd, in half lines"),
        pytest.param(depthwise(28, 240, 1, 5), V3, (2, 4, 1), id="25 weights beside eight sums"),
        pytest.param(depthwise(56, 96, 1, 7), V3, (1, 4, 2), id="49 weights for the whole image"),
        pytest.param(depthwise(28, 120, 1, 5), V4, (4, 4, 1), id="25 weights, from the cache"),
        pytest.param(depthwise(28, 192, 1, 3, "sigmoid"), V4, (4, 1, 2), id="a function needs registers"),
        pytest.param(depthwise(14, 512), V4, (5, 1, 2), id="seven lines in a set of eight"),
        pytest.param(depthwise(7, 1152), V4, (4, 4, 1), id="a small image"),
        pytest.param(
            depthwise(14, 512, 1, 5), V4, (2, 7, 1), id="places that crowd, and much to do with each"
        ),
        pytest.param(depthwise(112, 96, 2), V4, (4, 1, 2), id="little is shared with windows beside them"),
        pytest.param(depthwise(14, 512, 2), V4, (3, 1, 2), id="but soon gone"),
    ],
)
def test_depthwise_tiles(workload: Workload, target: Target, tile: tuple[int, int, int]) -> None:
    space = build_space(workload, target, 1)
    values = space.values(space.default)
    assert values["algorithm"] == "down"
    assert (values["rows"], values["beside"], values["vectors"]) == tile


def test_strided_windows_with_weights() -> None:
    space = build_space(depthwise(112, 96, 2), V3, 1)
    wanted = {"algorithm": "down", "rows": 4, "vectors": 2, "order": "inside"}
    assert space.values(space.default).items() >= wanted.items()
    assert "direct" in {space.values(a)["algorithm"] for a in space.starts}


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(depthwise(28, 32, 2), id="narrow image"),
        pytest.param(depthwise(112, 96, 3), id="nothing overlaps"),
        pytest.param(convolution(56, 64, 64, 3, 2), id="all channels read the same"),
    ],
)
def test_elsewhere_tiles_lie_along_the_lines(workload: Workload) -> None:
    knobs = {knob.name: knob.choices for knob in build_space(workload, V3, 1).knobs}
    assert "down" not in knobs.get("algorithm", ())


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(pool(13, 24), id="ragged"),
        pytest.param(pool(17, 40, stride=2), id="stride 2"),
        pytest.param(pool(11, 33, taps=5), id="5 x 5"),
        pytest.param(depthwise(15, 48, 2), id="with weights"),
        pytest.param(depthwise(13, 40), id="with weights, stride 1"),
    ],
)
def test_every_tile_gives_the_same(workload: Workload, threads: int) -> None:
    operands, rng = random_operands(workload), random.Random(5)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, TINY, threads)
    assert any(space.values(a)["algorithm"] in ("down", "separated") for a in (space.default, *space.starts))
    for assignment in {space.default, *space.starts, *(space.sample(rng) for _ in range(12))}:
        got = run_native(workload, space.schedule(assignment), operands, threads)
        assert relative_error(got, expected) < 1e-5, str(space.values(assignment))
        if workload.stages[0].reducer == "max":
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", [V3, V4, SHORT, NEON])
@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize(
    ("size", "channels", "kernel"), [(128, 32, 3), (28, 100, 3), (56, 64, 5), (14, 24, 7)]
)
def test_tiles_of_several_sums_per_element_fit(
    size: int, channels: int, kernel: int, parts: int, target: Target
) -> None:
    space = build_space(depthwise_gated(size, channels, parts, kernel), target, 1)
    assert space.is_legal(space.default)


def test_sums_of_several_parts() -> None:
    workload = depthwise_gated(20, 32)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for target in (TINY, native_target()):
        space = build_space(workload, target, 1)
        for assignment in (space.default, *space.starts):
            got = run_native(workload, space.schedule(assignment), operands)
            assert relative_error(got, expected) < 1e-5


def test_channels_of_a_group_are_no_taps_of_its_windows() -> None:
    """Nine places, whose eight channels each are read again by the windows beside them, in a row."""
    workload = grouped(56, 32, 256, 256)
    space = build_space(workload, V3, 1)
    values = space.values(space.default)
    assert values.items() >= {"algorithm": "down", "order": "inside"}.items()
    sums = [a.name for a in workload.stages[0].reduce_axes]
    assert values["reduce"] == sums.index("r1") + 1


@pytest.mark.parametrize(
    ("workload", "vectors", "is_beside"),
    [
        pytest.param(depthwise(14, 384), 1, True, id="what windows share leaves the first cache"),
        pytest.param(depthwise(19, 728), 1, True, id="channels that fill no lines"),
        pytest.param(depthwise(56, 144), 2, False, id="it stays"),
    ],
)
def test_two_vectors_where_no_lines_are_fetched_in_pairs(
    workload: Workload,
    vectors: int,
    is_beside: bool,  # noqa: FBT001
) -> None:
    space = build_space(workload, replace(V4, cpu="znver4"), 1)
    values = space.values(space.default)
    beside = values["beside"]
    assert isinstance(beside, int)
    assert (values["algorithm"], values["vectors"], beside > 1) == ("down", vectors, is_beside)
