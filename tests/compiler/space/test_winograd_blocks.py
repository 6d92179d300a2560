"""Winograd's algorithm some tiles at a time: the same results, and nothing large between its stages."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.ir import LoopNest
from compiler.pipeline import build_nest
from compiler.scalar import Load, apply
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.space.winograd_blocks import winograd_blocks
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    anchored,
    at,
    convolution,
    grouped,
    operand,
    padded_convolution,
    random_operands,
    row_convolution,
    windowed,
)
from tests.slow import THREADS

NEAR = replace(PRESETS["x86-64-v4"], cpu="znver5")
"""Memory keeps up with a core."""


def column_convolution() -> Workload:
    """Along the first dimension of an image; what runs beside it comes after it."""
    data = Load("x0", (Index.of("s0") + "r0", *at("s1", "r1")))
    weights = Load("c0", at("s2", "r1", "r0"))
    operands = (operand("x0", 26, 9, 7), operand("c0", 19, 7, 3, constant=True))
    return anchored((24, 9, 19), (3, 7), "sum", apply("mul", data, weights), operands)


IMAGES = {
    "padded": padded_convolution(24, 16, 20, 3),
    "with what follows": convolution(18, 5, 33, 3),
    "a window of five": padded_convolution(24, 3, 17, 5),
    "a stride": padded_convolution(48, 16, 18, 3, stride=2),
    "rows of an image": row_convolution(24, 7, 19, 3, beside=3),
    "columns of an image": column_convolution(),
}


def in_blocks(space: SearchSpace) -> list[str]:
    knob = next(k for k in space.knobs if k.name == "algorithm")
    found = [str(c) for c in knob.choices if str(c).endswith("in blocks")]
    assert found
    return found


def only(space: SearchSpace, name: str) -> SearchSpace:
    chosen = next(a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == name)
    return replace(
        space,
        default=chosen,
        starts=(),
        legal=lambda values: values["algorithm"] == name and space.legal(values),
    )


def usual(space: SearchSpace, name: str) -> Schedule:
    made = only(space, name)
    return made.schedule(made.default)


def sizes(nest: LoopNest) -> dict[str, int]:
    return {b.name: b.elements for b in nest.buffers if b.name in ("tiles_buffer", "product_buffer")}


@pytest.mark.parametrize("case", IMAGES)
@pytest.mark.parametrize("threads", THREADS)
def test_results_are_the_same(case: str, threads: int) -> None:
    workload, rng = IMAGES[case], random.Random(case)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), threads)
    for name in in_blocks(space):
        blocks = only(space, name)
        for assignment in (blocks.default, *(blocks.sample(rng) for _ in range(3))):
            schedule = blocks.schedule(assignment)
            got = run_native(workload, schedule, operands, threads)
            assert relative_error(got, expected) < 1e-4, space.values(assignment)


def test_the_interpreter_agrees() -> None:
    workload = IMAGES["rows of an image"]
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), 1)
    for name in in_blocks(space):
        assert relative_error(run_interpreted(workload, usual(space, name), operands), expected) < 1e-4


def test_only_a_block_lies_between_the_stages() -> None:
    workload = IMAGES["padded"]
    space = build_space(workload, native_target(), 1)
    for name in in_blocks(space):
        whole = build_nest(workload, usual(space, name.removesuffix(" in blocks")))
        blocks = build_nest(workload, usual(space, name))
        assert {b.scope for b in blocks.buffers if b.name in sizes(blocks)} == {"local"}
        assert all(size < sizes(whole)[buffer] for buffer, size in sizes(blocks).items())


@pytest.mark.parametrize(("size", "channels"), [(56, 32), (112, 64), (256, 32)])
def test_large_images_are_taken_in_blocks(size: int, channels: int) -> None:
    space = build_space(padded_convolution(size, channels, channels, 3), NEAR, 1)
    assert str(space.values(space.default)["algorithm"]).endswith("in blocks")


@pytest.mark.parametrize(("size", "channels"), [(14, 256), (28, 128), (56, 64)])
def test_many_channels_are_taken_at_once(size: int, channels: int) -> None:
    """Each block would read all constants again, and what lies between the stages is near enough."""
    space = build_space(padded_convolution(size, channels, channels, 3), NEAR, 1)
    assert not str(space.values(space.default)["algorithm"]).endswith("in blocks")


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(padded_convolution(23, 16, 16, 3), id="something is left over"),
        pytest.param(padded_convolution(8, 16, 16, 3), id="few tiles"),
        pytest.param(grouped(24, 2, 32, 32), id="groups"),
        pytest.param(windowed((4, 24, 24), 16, 16, (3, 3, 3)), id="a third dimension"),
        pytest.param(padded_convolution(24, 2048, 2048, 3), id="too large for the cache"),
    ],
)
def test_where_there_are_no_blocks(workload: Workload) -> None:
    assert all(winograd_blocks(workload, m, NEAR) is None for m in (2, 3, 4, 5, 6))
