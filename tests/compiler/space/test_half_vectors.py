"""Vectors of half the length: where whole ones are taken in halves and the last of a few would be half empty."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from compiler.evaluate import reference_outputs
from compiler.loop.ir import For, LoopKind, walk_statements
from compiler.pipeline import build_nest
from compiler.space.half_vectors import filled
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.integers import integer_convolution
from tests.compiler.workloads import convolution, depthwise, matmul, random_operands

WHOLE = replace(PRESETS["x86-64-v4"], l1_bytes=32 << 10, l2_bytes=1 << 20)
HALVED = replace(WHOLE, cpu="znver4")
"""Takes vectors of 64 bytes in two halves."""


def longest(workload: Workload, target: Target) -> int:
    """Elements of the longest vector of the default."""
    space = build_space(workload, target, 1)
    nest = build_nest(workload, space.schedule(space.default))
    loops = [s for s in walk_statements(nest.body) if isinstance(s, For) and s.kind is LoopKind.VECTOR]
    return max(loop.extent.limit for loop in loops)


@pytest.mark.parametrize("columns", [17, 18, 22, 24, 33, 40])
@pytest.mark.parametrize("kernel", [1, 3])
def test_few_columns_that_would_leave_half_a_vector_empty(columns: int, kernel: int) -> None:
    workload = convolution(28, 64, columns, kernel)
    assert longest(workload, HALVED) == 8
    assert longest(workload, WHOLE) == 16


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(convolution(28, 64, 32, 1), id="no vector is half empty"),
        pytest.param(convolution(28, 64, 30, 1), id="the last one is nearly full"),
        pytest.param(convolution(28, 64, 20, 1), id="products of four steps fill it"),
        pytest.param(convolution(28, 64, 72, 1), id="there are many others"),
        pytest.param(depthwise(14, 64), id="channels of their own"),
    ],
)
def test_whole_vectors_elsewhere(workload: Workload) -> None:
    assert longest(workload, HALVED) == 16


def test_dot_products_of_bytes_are_as_long_as_their_instruction() -> None:
    workload = integer_convolution(14, 64, 24)
    without = replace(HALVED, features=("avx512f", "avx512vl"))
    assert filled(workload, HALVED) is HALVED
    assert filled(workload, without).vector_bytes == 32


@pytest.mark.parametrize(
    "workload", [convolution(9, 17, 24, 3), matmul(13, 37, 40), convolution(6, 20, 19, 1)]
)
def test_values_are_the_same(workload: Workload) -> None:
    """On this machine, with tiles that another one would choose."""
    ours = native_target()
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    halved = replace(ours, cpu="znver4", vector_bytes=64, vector_registers=max(16, ours.vector_registers))
    assert filled(workload, halved).vector_bytes == 32
    space, rng = build_space(workload, halved, 1), random.Random(3)
    for choice in (space.default, *(space.sample(rng) for _ in range(6))):
        got = run_native(workload, space.schedule(choice), operands)
        assert relative_error(got, expected) < 1e-5
