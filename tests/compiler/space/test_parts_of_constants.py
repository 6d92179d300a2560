"""Constants of which a part is read, as of one gate or direction: every schedule that is offered can be built."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from compiler.index import Index
from compiler.pipeline import build_nest
from compiler.scalar import Load, apply
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from compiler.workload.ir import Workload
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.workloads import anchored, at, operand, second_matrix

TARGETS: dict[str, Target] = {
    **PRESETS,
    "matrices": WITH_MATRICES,
    "few caches": replace(PRESETS["x86-64-v4"], l2_bytes=4096),
}
SAMPLES = 30


def later_columns(m: int, n: int, k: int, first: int) -> Workload:
    """With columns of a matrix from one of them on, as the last gate of a recurrence has them."""
    read = Load("c0", (Index.of("s1") + first, Index.of("r0")))
    body = apply("mul", Load("x0", at("s0", "r0")), read)
    operands = (operand("x0", m, k), operand("c0", first + n, k, constant=True))
    return anchored((m, n), (k,), "sum", body, operands)


def later_channels(size: int, first: int, count: int) -> Workload:
    """A 3x3 window with the weights of some outputs of a larger convolution."""
    place = (Index.of("s0") + "r1", Index.of("s1") + "r2", Index.of("r0"))
    read = Load("c0", (Index.of("s2") + first, Index.of("r1"), Index.of("r2"), Index.of("r0")))
    operands = (operand("x0", size + 2, size + 2, 64), operand("c0", first + count, 3, 3, 64, constant=True))
    body = apply("mul", Load("x0", place), read)
    return anchored((size, size, count), (64, 3, 3), "sum", body, operands)


WORKLOADS: dict[str, Workload] = {
    "one row": later_columns(1, 256, 256, 512),
    "rows": later_columns(64, 256, 256, 512),
    "second of two": second_matrix(1, 1024, 512),
    "second of two, rows": second_matrix(64, 1024, 512),
    "window": later_channels(28, 64, 64),
}


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("target", TARGETS)
def test_what_is_offered_can_be_built(name: str, target: str) -> None:
    workload, rng = WORKLOADS[name], random.Random(name)
    space = build_space(workload, TARGETS[target], 1)
    for assignment in {space.default, *space.starts, *(space.sample(rng) for _ in range(SAMPLES))}:
        build_nest(workload, space.schedule(assignment))
