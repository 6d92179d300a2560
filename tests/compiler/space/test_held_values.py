"""Default tiles leave registers for what stays in them from one step of a sum to another."""

from __future__ import annotations

import pytest

from compiler.index import Index
from compiler.scalar import Load, apply
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.workloads import anchored, at, matmul, operand

V3, V4 = PRESETS["x86-64-v3"], PRESETS["x86-64-v4"]


def image_convolution(size: int, channels: int, kernel: int, stride: int, apart: int = 1) -> Workload:
    """Over three channels, each an image of its own: the innermost sum goes along the rows of places."""
    padded = (size - 1) * stride + (kernel - 1) * apart + 1
    place = [Index.of(f"s{d}") * stride + Index.of(f"r{d + 1}") * apart for d in range(2)]
    body = apply("mul", Load("x0", (Index.of("r0"), *place)), Load("c0", at("s2", "r0", "r1", "r2")))
    operands = (operand("x0", 3, padded, padded), operand("c0", channels, 3, kernel, kernel, constant=True))
    return anchored((size, size, channels), (3, kernel, kernel), "sum", body, operands)


@pytest.mark.parametrize(
    ("kernel", "stride", "apart", "unroll"),
    [
        pytest.param(3, 1, 1, 3, id="neighbours share the next step"),
        pytest.param(7, 1, 1, 8, id="neighbours of a wide window"),
        pytest.param(3, 2, 1, 1, id="every second step is shared"),
        pytest.param(7, 2, 1, 2, id="steps of two that share nothing"),
        pytest.param(3, 2, 2, 3, id="taps lie as far apart as windows"),
        pytest.param(3, 4, 1, 3, id="windows do not overlap"),
    ],
)
def test_strided_windows_are_unrolled_as_far_as_registers_hold_what_rows_share(
    kernel: int, stride: int, apart: int, unroll: int
) -> None:
    space = build_space(image_convolution(56, 64, kernel, stride, apart), V3, 1)
    values = space.values(space.default)
    assert (values["rows"], values["vectors"]) == (3, 4)
    assert values["unroll"] == unroll


def test_a_tile_of_one_vector_is_higher_where_registers_are_many() -> None:
    heights = []
    for target, columns in ((V3, 8), (V4, 16)):
        space = build_space(matmul(112, columns, 64), target, 1)
        values = space.values(space.default)
        assert values["vectors"] == 1
        heights.append(values["rows"])
    assert heights[0] == 8
    assert isinstance(heights[1], int)
    assert heights[1] > 8
