"""Two vector loops as one vector: lanes in groups, each of which has memory of its own."""

from __future__ import annotations

import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, Reorder, Split
from compiler.target import PRESETS
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import add_relu, random_operands, row_sum

V3 = PRESETS["x86-64-v3"]


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
