"""Edge vectors with several products of each sum: which tiles have them, and that every sum is what it would be."""

from __future__ import annotations

import pytest

from compiler.codegen.texts import nest_assembly
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_nest
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.loop.test_pair import in_groups
from tests.compiler.workloads import (
    convolution,
    matmul,
    max_pool,
    padded_convolution,
    product,
    random_operands,
)

V3, V4 = PRESETS["x86-64-v3"], PRESETS["x86-64-v4"]
FOLDED = "t0.f"


def tiled(workload: Workload, rows: int, vectors: int, target: Target = V3, **knobs: int | str) -> Schedule:
    """A tile of that size of the direct form, with four products of a sum in its body."""
    space = build_space(workload, target, 1)
    usual = space.values(space.default)
    direct = {"algorithm": "direct"} if "algorithm" in usual else {}
    values = {**usual, **direct, "rows": rows, "vectors": vectors, "unroll": 4, **knobs}
    assert space.legal(values), values
    return space.build(values)


def folded(workload: Workload, schedule: Schedule) -> list[str]:
    return [b.name for b in build_nest(workload, schedule).buffers if b.name.startswith(FOLDED)]


CASES = {
    "two products": (matmul(6, 20, 16), 3, 3),
    "four products": (matmul(6, 18, 16), 3, 3),
    "what is left of the loop": (matmul(7, 19, 39), 4, 2),
    "one row": (matmul(1, 20, 64), 1, 2),
    "the edge in a panel of its own": (matmul(6, 18, 33), 4, 1),
    "a window": (convolution(6, 12, 20, 3), 4, 3),
    "padded borders": (padded_convolution(7, 8, 10, 5), 4, 2),
    "padded and strided": (padded_convolution(5, 16, 9, 3, 2), 2, 2),
    "both factors known at run time": (product(2, 5, 11, 16), 4, 2),
}


@pytest.mark.parametrize("target", [V3, V4], ids=["v3", "v4"])
@pytest.mark.parametrize("case", CASES)
def test_folded_sums_are_what_they_would_be(case: str, target: Target) -> None:
    workload, rows, vectors = CASES[case]
    if target is V4:
        vectors = -(-vectors // 2)
    schedule, operands = tiled(workload, rows, vectors, target), random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5
    assert folded(workload, schedule) or target is V4
    if target.is_native:
        assert relative_error(run_native(workload, schedule, operands, target=target), expected) < 1e-5


UNFOLDED = {
    "whole vectors": (convolution(8, 8, 24, 3), 4, 3),
    "more than half a vector": (convolution(8, 8, 21, 3), 4, 3),
    "three products at a time": (convolution(8, 9, 20, 1), 4, 3),
    "a factor whose elements are apart": (product(2, 8, 11, 16, turned="x0"), 4, 2),
    "no product": (max_pool(9, 12), 4, 2),
}


@pytest.mark.parametrize("case", UNFOLDED)
def test_nothing_is_folded_where_nothing_is_gained(case: str) -> None:
    workload, rows, vectors = UNFOLDED[case]
    unroll = 3 if case == "three products at a time" else 4
    assert not folded(workload, tiled(workload, rows, vectors, unroll=unroll))


def test_what_is_repeated_is_one_load() -> None:
    workload = matmul(8, 18, 64)
    nest = build_nest(workload, tiled(workload, 4, 2, V4))
    assert in_groups(nest)
    lines = nest_assembly(nest, V4).splitlines()
    body = [line.split()[0] for line in lines if "%zmm" in line]
    # Four rows of one whole vector and of two columns, four products of each sum at a time.
    assert body.count("vbroadcastf32x4") == 4
    assert sum(word.startswith("vfmadd") for word in body) == 4 * 4 + 4
