"""Reverse: loops that go backwards, what they compute, what is refused, and where the rule for rows has them."""

from __future__ import annotations

import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind, Store, walk_statements
from compiler.pipeline import build_nest
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import (
    Algorithm,
    Bind,
    ComputeAt,
    Fuse,
    Reorder,
    Reverse,
    Split,
    Step,
    step_from_json,
    step_json,
)
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import KINDS, layer_norm, matmul, random_operands, row_sum, softmax

V4 = PRESETS["x86-64-v4"]

LEGAL: dict[str, tuple[Workload, tuple[Step, ...]]] = {
    "spatial loops": (matmul(5, 7, 12), (Reverse("anchor", "s1"), Reverse("epilogue", "s0"))),
    "a sum": (matmul(5, 7, 12), (Reverse("anchor", "r0"),)),
    "tiles of one length": (
        matmul(5, 8, 12),
        (
            Split("anchor", "s1", 4),
            Reorder("anchor", ("s1.o", "s0", "r0", "s1.i")),
            Reverse("anchor", "s1.o"),
            Bind("anchor", "s1.i", LoopKind.VECTOR),
        ),
    ),
    "with a stage inside": (
        matmul(6, 8, 12),
        (Reverse("epilogue", "s0"), ComputeAt("anchor", "epilogue", "s0")),
    ),
    "a fused loop": (matmul(6, 8, 12), (Fuse("epilogue", "s0", "s1"), Reverse("epilogue", "s0*s1"))),
    "there and back": (
        matmul(6, 8, 12),
        (Reverse("epilogue", "s0"), Reverse("epilogue", "s1"), Reverse("epilogue", "s1")),
    ),
}


@pytest.mark.parametrize("case", LEGAL)
def test_a_loop_that_goes_backwards_computes_the_same(case: str) -> None:
    workload, steps = LEGAL[case]
    operands, schedule = random_operands(workload), Schedule(steps)
    expected = reference_outputs(workload, operands)["y0"]
    for got in (run_native(workload, schedule, operands, 2), run_interpreted(workload, schedule, operands)):
        assert relative_error(got, expected) < 1e-5
    assert tuple(step_from_json(step_json(step)) for step in steps) == steps


ILLEGAL: dict[str, tuple[Workload, tuple[Step, ...], str]] = {
    "bound": (
        row_sum(4, 32),
        (Bind("epilogue", "s0", LoopKind.PARALLEL), Reverse("epilogue", "s0")),
        "not a serial",
    ),
    "the last part is shorter": (
        row_sum(4, 37),
        (Split("anchor", "r0", 8), Reverse("anchor", "r0.o")),
        "depends on",
    ),
    "it ends earlier": (
        row_sum(4, 37),
        (Split("anchor", "r0", 8), Reverse("anchor", "r0.i")),
        "not a serial",
    ),
    "a region depends on it": (
        row_sum(4, 32),
        (ComputeAt("anchor", "epilogue", "s0"), Reverse("epilogue", "s0")),
        "before ComputeAt",
    ),
    "places that are looked up": (
        KINDS["scattered_rows"],
        (Algorithm("scattered"), Reverse("total", "r0")),
        "one place",
    ),
    "no such loop": (row_sum(4, 32), (Reverse("anchor", "r1"),), "no loop"),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_what_depends_on_the_order_is_refused(case: str) -> None:
    workload, steps, message = ILLEGAL[case]
    with pytest.raises(ScheduleError, match=message):
        replay(workload, Schedule(steps))


@pytest.mark.parametrize(
    ("workload", "backwards"),
    [
        pytest.param(layer_norm(8, 1 << 14), True, id="more than the first cache"),
        pytest.param(softmax(8, 1 << 14), True, id="what was stored"),
        pytest.param(layer_norm(8, 2048), False, id="it holds row and result"),
        pytest.param(layer_norm(8, (1 << 14) + 3), False, id="the last vectors are shorter"),
    ],
)
def test_the_last_stage_of_a_long_row_begins_where_the_others_have_ended(
    workload: Workload,
    backwards: bool,  # noqa: FBT001
) -> None:
    space = build_space(workload, V4, 1)
    schedule = space.build({**space.values(space.default), "sweep": 1, "block": 1})
    nest = build_nest(workload, schedule)
    stores = [s for s in walk_statements(nest.body) if isinstance(s, Store) and s.buffer == "y0"]
    columns = [store.indices[-1] for store in stores]
    assert any(coefficient < 0 for index in columns for _, coefficient in index.terms) == backwards


def test_long_rows_are_right() -> None:
    workload = layer_norm(3, 1 << 14)
    operands, space = random_operands(workload), build_space(workload, native_target(), 1)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, space.schedule(space.default), operands), expected) < 1e-5
