"""RFactor and Inline: the nests they give, what those compute, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.loop.printer import print_nest
from compiler.pipeline import build_nest
from compiler.scalar import Load, apply
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule, schedule_from_json, schedule_json
from compiler.schedule.steps import Bind, ComputeAt, Inline, Reorder, RFactor, Split, Step
from compiler.workload.ir import Workload
from compiler.workload.verify import verify_workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    anchored,
    at,
    matmul,
    operand,
    random_operands,
    row_sum,
    softmax,
)

Golden = Callable[[str, str], None]

LANES: tuple[Step, ...] = (
    Split("anchor", "r0", 16),
    RFactor("anchor", "r0.i"),
    ComputeAt("anchor", "epilogue", "s0"),
    ComputeAt("anchor.r0.i", "epilogue", "s0"),
    Reorder("anchor.r0.i", ("r0.o", "r0.i")),
    Bind("anchor.r0.i", "r0.i", LoopKind.VECTOR),
    Bind("anchor", "r0.i", LoopKind.VECTOR),
)
"""Partial results in 16 lanes, combined at the end of the row."""

BLOCKS: tuple[Step, ...] = (
    Split("anchor", "r0", 10),
    RFactor("anchor", "r0.o"),
    Reorder("anchor.r0.o", ("r0.o", "s0")),
    Bind("anchor.r0.o", "r0.o", LoopKind.PARALLEL),
    ComputeAt("anchor", "epilogue", "s0"),
    Bind("epilogue", "s0", LoopKind.PARALLEL),
)
"""Partial results of blocks on all threads in a first phase, their combination in a second."""

TWICE: tuple[Step, ...] = (
    Split("anchor", "r0", 12),
    RFactor("anchor", "r0.o"),
    Split("anchor.r0.o", "r0.i", 4),
    RFactor("anchor.r0.o", "r0.i.i"),
)


def extreme(reducer: str) -> Workload:
    body = apply("neg", Load("x0", at("s0", "r0")))
    return anchored((3,), (37,), reducer, body, (operand("x0", 3, 37),))


CASES: dict[str, tuple[Workload, tuple[Step, ...]]] = {
    "lanes": (row_sum(4, 37), LANES),
    "blocks": (row_sum(4, 37), BLOCKS),
    "twice": (row_sum(2, 37), TWICE),
    "largest": (extreme("max"), LANES),
    "smallest": (extreme("min"), LANES),
    "product": (extreme("prod"), LANES),
    "inlined": (softmax(3, 11), (Inline("power"),)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_nest_and_what_it_computes(case: str, golden: Golden) -> None:
    workload, steps = CASES[case]
    schedule = Schedule(steps)
    assert schedule_from_json(schedule_json(schedule)) == schedule
    verify_workload(replay(workload, schedule).workload)
    text = print_nest(build_nest(workload, schedule))
    golden(text.replace(workload.digest[:16], case), f"schedule/rfactor_{case}")
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for got in (run_native(workload, schedule, operands, 2), run_interpreted(workload, schedule, operands)):
        assert relative_error(got, expected) < 1e-5


ILLEGAL: dict[str, tuple[Workload, tuple[Step, ...], str]] = {
    "a spatial loop": (row_sum(4, 37), (RFactor("anchor", "s0"),), "does not reduce"),
    "the only loop": (row_sum(4, 37), (RFactor("anchor", "r0"),), "split it first"),
    "after attaching": (
        row_sum(4, 37),
        (ComputeAt("anchor", "epilogue", "s0"), Split("anchor", "r0", 8), RFactor("anchor", "r0.i")),
        "factor before ComputeAt",
    ),
    "after a spatial split": (
        row_sum(4, 37),
        (Split("anchor", "s0", 2), Split("anchor", "r0", 8), RFactor("anchor", "r0.i")),
        "factor first",
    ),
    "after binding": (
        row_sum(4, 37),
        (Split("anchor", "r0", 8), Bind("anchor", "r0.i", LoopKind.UNROLLED), RFactor("anchor", "r0.i")),
        "factor before binding",
    ),
    "inlining a reduction": (row_sum(4, 37), (Inline("anchor"),), "use ComputeAt"),
    "inlining the output": (row_sum(4, 37), (Inline("epilogue"),), "output of the workload"),
    "inlining late": (softmax(3, 11), (Split("power", "s1", 4), Inline("power")), "inline it first"),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_step_is_refused(case: str) -> None:
    workload, steps, message = ILLEGAL[case]
    with pytest.raises(ScheduleError, match=message):
        replay(workload, Schedule(steps))


def test_nothing_is_read_past_the_end_of_a_reduction() -> None:
    """The interpreter refuses an access outside a buffer; the guard keeps the body from being evaluated there."""
    workload = matmul(3, 5, 13, constant=False)
    steps = (Split("anchor", "r0", 8), RFactor("anchor", "r0.i"))
    operands = {name: abs(array) for name, array in random_operands(workload).items()}
    got = run_interpreted(workload, Schedule(steps), operands)
    assert relative_error(got, reference_outputs(workload, operands)["y0"]) < 1e-5


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 3),
    columns=st.integers(2, 23),
    factors=st.lists(st.integers(1, 9), min_size=1, max_size=2),
    inner=st.booleans(),
    reducer=st.sampled_from(["sum", "max", "min", "prod"]),
)
def test_any_factor_of_any_reduction(
    rows: int,
    columns: int,
    factors: list[int],
    inner: bool,  # noqa: FBT001  (Hypothesis draws it)
    reducer: str,
) -> None:
    body = apply("neg", Load("x0", at("s0", "r0")))
    workload = anchored((rows,), (columns,), reducer, body, (operand("x0", rows, columns),))
    side, stage, loop = "i" if inner else "o", "anchor", "r0"
    steps: list[Step] = []
    for factor in factors:
        steps += [Split(stage, loop, factor), RFactor(stage, f"{loop}.{side}")]
        loop = f"{loop}.{side}"
    operands = random_operands(workload)
    schedule = Schedule(tuple(steps))
    verify_workload(replay(workload, schedule).workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5
