"""ComputeAt: several stages at the loops of one, what lies in registers, what is local, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.errors import CompileError, ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.ir import LoopKind
from compiler.loop.printer import print_nest
from compiler.pipeline import build_kernel, build_nest
from compiler.scalar import Bound, Const, Guard, Load, apply
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Bind, ComputeAt, Fuse, Reorder, Split, Step
from compiler.target import PRESETS
from compiler.workload.ir import Stage, Workload
from compiler.workload.verify import verify_workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import (
    at,
    chain,
    layer_norm,
    operand,
    random_operands,
    row_stage,
    softmax,
)

Golden = Callable[[str, str], None]

SOFTMAX: tuple[Step, ...] = (
    ComputeAt("total", "share", "s0"),
    ComputeAt("power", "share", "s0"),
    ComputeAt("largest", "share", "s0"),
    Split("power", "s1", 8),
    Bind("power", "s1.i", LoopKind.VECTOR),
    Split("share", "s1", 8),
    Bind("share", "s1.i", LoopKind.VECTOR),
    Bind("share", "s0", LoopKind.PARALLEL),
)
"""The exponentials of one row are kept; the sum and the division read them."""

LAYER_NORM: tuple[Step, ...] = (
    Split("scaled", "s0", 2),
    Split("scaled", "s1", 8),
    Reorder("scaled", ("s0.o", "s1.o", "s0.i", "s1.i")),
    ComputeAt("deviation", "scaled", "s0.o"),
    ComputeAt("squares", "deviation", "s0"),
    ComputeAt("mean", "scaled", "s0.o"),
    ComputeAt("sum", "mean", "s0"),
    Bind("deviation", "s0", LoopKind.UNROLLED),
    Bind("mean", "s0", LoopKind.UNROLLED),
    Bind("scaled", "s0.i", LoopKind.UNROLLED),
    Bind("scaled", "s1.i", LoopKind.VECTOR),
)
"""Two rows at a time; each sum is nested in the map that finishes it, and every statistic lies in a register."""


def into_a_reduction() -> tuple[Workload, tuple[Step, ...]]:
    """A map attached to a loop of the reduction that alone reads it, one block of columns at a time."""
    sizes, both = (5, 21), at("s0", "s1")
    workload = chain(
        (operand("x0", *sizes),),
        row_stage("root", sizes, apply("exp", Load("x0", both)), "t0"),
        row_stage("total", sizes, Load("t0", both), "y0", "sum", 1),
    )
    steps = (
        Split("total", "s1", 8),
        ComputeAt("root", "total", "s1.o"),
        Split("total", "s0", 2),
        Bind("root", "s1", LoopKind.VECTOR),
    )
    return workload, steps


def window() -> tuple[Workload, tuple[Step, ...]]:
    """A map read at three neighbouring places: the box holds the tile and its edge."""
    around = [Load("t0", (Index.of("s0") + k,)) for k in range(3)]
    last = Stage("sum", row_stage("", (20,), around[0], "").axes, (), None, around[0], "y0", at("s0"))
    body = apply("add", apply("add", around[0], around[1]), around[2])
    first = row_stage("square", (22,), apply("mul", Load("x0", at("s0")), Load("x0", at("s0"))), "t0")
    stages = (first, Stage("sum", last.axes, (), None, body, "y0", at("s0")))
    workload = Workload((operand("x0", 22),), (operand("t0", 22),), (operand("y0", 20),), stages)
    return workload, (Split("sum", "s0", 8), ComputeAt("square", "sum", "s0.o"))


CASES: dict[str, tuple[Workload, tuple[Step, ...]]] = {
    "softmax": (softmax(6, 21), SOFTMAX),
    "layer_norm": (layer_norm(5, 19), LAYER_NORM),
    "into_a_reduction": into_a_reduction(),
    "window": window(),
}


@pytest.mark.parametrize("case", CASES)
def test_the_nest_and_what_it_computes(case: str, golden: Golden) -> None:
    workload, steps = CASES[case]
    verify_workload(workload)
    schedule = Schedule(steps)
    golden(
        print_nest(build_nest(workload, schedule)).replace(workload.digest[:16], case), f"schedule/at_{case}"
    )
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for got in (run_native(workload, schedule, operands, 2), run_interpreted(workload, schedule, operands)):
        assert relative_error(got, expected) < 1e-5


def test_splits_and_fusions_move_the_stages_that_are_nested_below() -> None:
    workload, steps = CASES["layer_norm"]
    later = (*steps, Split("scaled", "s0.o", 2), Fuse("scaled", "s0.o.o", "s0.o.i"))
    operands = random_operands(workload)
    got = run_native(workload, Schedule(later[:-1]), operands)
    assert relative_error(got, reference_outputs(workload, operands)["y0"]) < 1e-5
    with pytest.raises(ScheduleError, match="the inner extent depends on a loop"):
        replay(workload, Schedule(later))


def guarded_window() -> Workload:
    """A read in front of the first element, under a guard."""
    place = Index.of("s0") - 1
    body = Guard((Bound(place, 0, 20),), Load("t0", (place,)), Const(0.0))
    return chain(
        (operand("x0", 20),),
        row_stage("square", (20,), apply("mul", Load("x0", at("s0")), Load("x0", at("s0"))), "t0"),
        row_stage("shifted", (20,), body, "y0"),
    )


ILLEGAL: dict[str, tuple[Workload, tuple[Step, ...], str]] = {
    "a reader is not attached": (
        softmax(6, 21),
        (ComputeAt("power", "share", "s0"),),
        "by total; attach that first",
    ),
    "a reader stands outside the loop": (
        layer_norm(5, 19),
        (
            ComputeAt("deviation", "scaled", "s0"),
            ComputeAt("squares", "scaled", "s0"),
            ComputeAt("mean", "scaled", "s1"),
        ),
        "squares reads its result outside that loop",
    ),
    "no common box": (
        Workload(
            (operand("x0", 20),),
            (operand("t0", 20),),
            (operand("y0", 10),),
            (
                row_stage("first", (20,), Load("x0", at("s0")), "t0"),
                row_stage(
                    "second",
                    (10,),
                    apply("add", Load("t0", at("s0")), Load("t0", (Index.of("s0") * 2,))),
                    "y0",
                ),
            ),
        ),
        (ComputeAt("first", "second", "s0"),),
        "in no box of constant size",
    ),
    "in front of the first element": (
        guarded_window(),
        (ComputeAt("square", "shifted", "s0"),),
        "in front of its first",
    ),
    "inside itself": (softmax(6, 21), (ComputeAt("power", "power", "s0"),), "inside itself"),
    "twice": (softmax(6, 21), (*SOFTMAX[:1], *SOFTMAX[:1]), "other steps|no stage|attach it first"),
    "another is attached to it": (
        chain(
            (operand("x0", 20),),
            row_stage("square", (20,), apply("mul", Load("x0", at("s0")), Load("x0", at("s0"))), "t0"),
            row_stage("doubled", (20,), apply("add", Load("t0", at("s0")), Load("t0", at("s0"))), "t1"),
            row_stage("shifted", (20,), apply("add", Load("t1", at("s0")), Const(1.0)), "y0"),
        ),
        (ComputeAt("square", "doubled", "s0"), ComputeAt("doubled", "shifted", "s0")),
        "square is computed at a loop of it, whose place would move; attach doubled first",
    ),
    "at a vector": (
        softmax(6, 16),
        (
            Split("share", "s1", 8),
            Bind("share", "s1.i", LoopKind.VECTOR),
            ComputeAt("total", "share", "s1.i"),
        ),
        "is a vector",
    ),
    "inside a vector": (
        softmax(6, 16),
        (
            Bind("share", "s1", LoopKind.VECTOR),
            Reorder("share", ("s1", "s0")),
            ComputeAt("total", "share", "s0"),
        ),
        "s1 is a vector; attach to a loop around it",
    ),
    "vector around a stage": (
        softmax(6, 16),
        (ComputeAt("total", "share", "s1"), Bind("share", "s1", LoopKind.VECTOR)),
        "total is computed inside it",
    ),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_attachment_is_refused(case: str) -> None:
    workload, steps, message = ILLEGAL[case]
    with pytest.raises(ScheduleError, match=message):
        replay(workload, Schedule(steps))


def test_a_loop_that_a_region_starts_at_must_stay_outside() -> None:
    workload = softmax(6, 16)
    steps = (ComputeAt("total", "share", "s0"), Reorder("share", ("s1", "s0")))
    assert replay(workload, Schedule(steps))
    moved = (ComputeAt("power", "share", "s1"), Reorder("share", ("s1", "s0")))
    with pytest.raises(ScheduleError, match="attach that first"):
        replay(workload, Schedule(moved))
    inner = (ComputeAt("total", "share", "s1"), Reorder("share", ("s1", "s0")))
    with pytest.raises(ScheduleError, match="computed outside share:s0"):
        build_nest(workload, Schedule(inner))


def test_local_buffers_must_fit_the_cache_of_the_target() -> None:
    workload = softmax(2, 200_000)
    with pytest.raises(CompileError, match="800000 bytes of local buffers, x86-64-v3 has 524288"):
        build_kernel(workload, Schedule(SOFTMAX[:3]), PRESETS["x86-64-v3"])
