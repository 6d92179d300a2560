"""Two vector loops as one vector: halves with the next row, and the same results at every edge."""

from __future__ import annotations

import pytest

from compiler.codegen.llvm import emit_assembly
from compiler.codegen.nest import emit_nest
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.pipeline import build_nest
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, Reorder, Split
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import add_relu, convolution, padded_convolution, random_operands, row_sum

V3 = PRESETS["x86-64-v3"]


def paired(workload: Workload) -> Schedule:
    """The default with half a vector of channels and two rows."""
    space = build_space(workload, V3, 1)
    values = {**space.values(space.default), "lanes": 4, "rows": 2, "vectors": 2}
    assert space.legal(values)
    return space.build(values)


@pytest.mark.parametrize(
    "workload",
    [
        convolution(6, 5, 12, 3),
        convolution(5, 3, 20, 3, 2),
        convolution(7, 3, 11, 1),
        padded_convolution(7, 3, 10, 5),
        padded_convolution(5, 2, 9, 3, 2),
    ],
)
def test_rows_that_share_vectors_get_what_they_would_alone(workload: Workload) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    schedule = paired(workload)
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-5
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5


def test_a_pair_of_rows_is_whole_vectors() -> None:
    workload = convolution(8, 16, 12, 3)
    assembly = emit_assembly(emit_nest(build_nest(workload, paired(workload)), V3), V3)
    fused = [line for line in assembly.splitlines() if "vfmadd" in line]
    assert fused
    assert all("ymm" in line for line in fused)


@pytest.mark.parametrize("shape", [(4, 8), (5, 7)])
def test_memory_alone_in_groups(shape: tuple[int, int]) -> None:
    workload = add_relu(*shape)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    name, (row, column) = workload.stages[0].name, [a.name for a in workload.stages[0].axes]
    schedule = Schedule(
        (
            Split(name, row, 2),
            Split(name, column, 4),
            Reorder(name, (f"{row}.o", f"{column}.o", f"{row}.i", f"{column}.i")),
            Bind(name, f"{column}.i", LoopKind.VECTOR),
            Bind(name, f"{row}.i", LoopKind.VECTOR),
        )
    )
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-6


def test_a_vector_around_a_vector_may_not_sum() -> None:
    workload = row_sum(8, 8)
    stage = workload.stages[0]
    row, column = stage.axes[0].name, stage.reduce_axes[0].name
    steps = (Bind(stage.name, column, LoopKind.VECTOR), Bind(stage.name, row, LoopKind.VECTOR))
    with pytest.raises(ScheduleError, match="two loops"):
        replay(workload, Schedule(steps))
