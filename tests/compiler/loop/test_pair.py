"""Edge vectors that two rows share: which tiles have them, and that every row gets what it would alone."""

from __future__ import annotations

import pytest

from compiler.codegen.texts import nest_assembly
from compiler.evaluate import reference_outputs
from compiler.loop.ir import For, LoopKind, LoopNest, Store, walk_statements
from compiler.pipeline import build_nest
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    convolution,
    lstm_cell,
    matmul,
    max_pool,
    padded_convolution,
    product,
    random_operands,
)

V3 = PRESETS["x86-64-v3"]


def tiled(workload: Workload, rows: int, vectors: int, **knobs: int | str) -> Schedule:
    """A tile of that size; no two products of a sum stand in its body, which would be folded instead."""
    space = build_space(workload, V3, 1)
    values = {**space.values(space.default), "rows": rows, "vectors": vectors, "unroll": 1, **knobs}
    assert space.legal(values), values
    return space.build(values)


def in_groups(nest: LoopNest) -> list[Store]:
    """Stores inside two vector loops."""
    loops = (s for s in walk_statements(nest.body) if isinstance(s, For) and s.kind is LoopKind.VECTOR)
    inner = (s.body for s in loops if isinstance(s.body, For) and s.body.kind is LoopKind.VECTOR)
    return [s.body for s in inner if isinstance(s.body, Store)]


PAIRED = {
    "two vectors and a half": (convolution(5, 3, 20, 3, 2), 4, 3),
    "fewer rows than vectors": (convolution(6, 4, 27, 1), 3, 4),
    "an odd number of rows": (convolution(7, 5, 12, 3), 5, 2),
    "one column at the edge": (matmul(6, 17, 9), 3, 3),
    "the edge in a panel of its own": (matmul(6, 19, 9), 4, 2),
    "half a vector alone": (matmul(6, 20, 9), 4, 1),
    "padded borders": (padded_convolution(7, 3, 10, 5), 4, 2),
    "padded and strided": (padded_convolution(5, 2, 9, 3, 2), 2, 2),
    "both factors known at run time": (product(2, 5, 11, 6), 4, 2),
}


@pytest.mark.parametrize("case", PAIRED)
def test_rows_that_share_vectors_get_what_they_would_alone(case: str) -> None:
    workload, rows, vectors = PAIRED[case]
    schedule, operands = tiled(workload, rows, vectors), random_operands(workload)
    assert in_groups(build_nest(workload, schedule))
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-5
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5


WHOLE = {
    "whole vectors": (convolution(8, 3, 24, 3), 4, 3),
    "more than half a vector": (convolution(8, 3, 21, 3), 4, 3),
    "one row": (convolution(8, 3, 20, 3), 1, 3),
    "no product": (max_pool(9, 12), 4, 2),
}


@pytest.mark.parametrize("case", WHOLE)
def test_nothing_is_paired_where_nothing_is_gained(case: str) -> None:
    workload, rows, vectors = WHOLE[case]
    assert not in_groups(build_nest(workload, tiled(workload, rows, vectors)))


def test_a_pair_of_rows_is_one_multiply_add() -> None:
    workload = convolution(9, 15, 12, 1)
    schedule = tiled(workload, 4, 2, unroll=3)
    assembly = nest_assembly(build_nest(workload, schedule), V3)
    fused = [line for line in assembly.splitlines() if "vfmadd" in line]
    assert all("ymm" in line for line in fused)
    per_point = {1: 2, 4: 6}  # 9 rows: two tiles of four and one of one row
    assert len(fused) == 3 * sum(per_point.values())


def test_gates_are_paired_too() -> None:
    workload = lstm_cell(4, 12, 6)
    schedule, operands = tiled(workload, 2, 2), random_operands(workload)
    assert in_groups(build_nest(workload, schedule))
    expected = reference_outputs(workload, operands)
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected["y0"]) < 1e-5
