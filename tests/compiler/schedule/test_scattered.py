"""Scatters that go through their updates once: the same results, in every schedule, on one thread and on several."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import Extent, For, LoopKind, Store, walk_statements
from compiler.pipeline import build_nest
from compiler.scalar import Const, Load, apply
from compiler.schedule.primitives import replay
from compiler.schedule.scattered import scattered
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Inline, RFactor, Split, Step
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from compiler.workload.verify import verify_workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import KINDS, at, random_operands, scattered_sum

SUM, APART = KINDS["scattered_rows"], KINDS["scattered_elements"]
SCALED = apply("mul", Load("x2", at("s0", "s1")), Load("t0", at("s0", "s1")))
LATER = replace(SUM, stages=(SUM.stages[0], replace(SUM.stages[1], body=SCALED)))
COPIED = replace(SUM, stages=(SUM.stages[0], replace(SUM.stages[1], body=Load("t0", at("s0", "s1")))))
ALL = {
    "a map behind it": LATER,
    "nothing behind it": COPIED,
    "rows": SUM,
    "elements": APART,
    "long rows": scattered_sum(40, 5, 133, "min"),
    "one column": scattered_sum(300, 17, 1),
    "product": scattered_sum(9, 31, 8, "prod"),
}


def test_a_stage_that_fills_and_one_that_adds() -> None:
    made = scattered(SUM, ())
    verify_workload(made)
    fill, update = made.stages
    assert (fill.reducer, fill.target, update.target) == (None, "y0", "y0")
    assert fill.body == Load("x2", at("s0", "s1"))
    assert update.adds
    assert [a.name for a in update.axes] == ["once", "s1"]
    assert made.operations <= SUM.operations


def test_a_map_that_is_another_operation_follows() -> None:
    made = scattered(LATER, ())
    verify_workload(made)
    assert [s.target for s in made.stages] == ["t0", "t0", "y0"]
    assert made.stages[0].body == Const(0.0)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_schedule_gives_the_same(name: str, threads: int) -> None:
    workload, rng = ALL[name], random.Random(0)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, native_target(), threads)
    tried = {space.default, *(space.sample(rng) for _ in range(12))}
    for assignment in sorted(tried):
        schedule = space.schedule(assignment)
        assert relative_error(run_native(workload, schedule, operands, threads=threads), expected) < 1e-5
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5


def test_it_goes_through_the_updates_once() -> None:
    space = build_space(SUM, PRESETS["x86-64-v3"], 1)
    nest = build_nest(SUM, space.schedule(space.default))
    stores = [s for s in walk_statements(nest.body) if isinstance(s, Store)]
    added = [s for s in stores if any(index.looked_up() for index in s.indices)]
    assert {s.buffer for s in added} == {"y0"}
    loops = [s for s in walk_statements(nest.body) if isinstance(s, For) and s.var.endswith(":r0")]
    assert [loop.extent for loop in loops] == [Extent(23)]


def test_rows_are_vectors_and_shared_out() -> None:
    workload = scattered_sum(10000, 40, 64)
    space = build_space(workload, PRESETS["x86-64-v3"], 2)
    assert space.values(space.default)["shares"] == 2
    steps = space.schedule(space.default).steps
    assert any(isinstance(s, Bind) and (s.stage, s.kind) == ("total", LoopKind.VECTOR) for s in steps)
    apart = build_space(scattered_sum(10000, 40, 64, apart=True), PRESETS["x86-64-v3"], 2)
    steps = apart.schedule(apart.default).steps
    assert not any(isinstance(s, Bind) and (s.stage, s.kind) == ("total", LoopKind.VECTOR) for s in steps)


BAD: dict[str, tuple[Workload, tuple[Step, ...], str]] = {
    "no scatter": (KINDS["row_sum"], (Algorithm("scattered"),), "look up where they count"),
    "parameters": (SUM, (Algorithm("scattered", (1,)),), "look up where they count"),
    "lanes of one place": (
        SUM,
        (Algorithm("scattered"), Split("total", "r0", 8), Bind("total", "r0.i", LoopKind.VECTOR)),
        "may come to one place",
    ),
    "attached where it is read": (
        LATER,
        (Algorithm("scattered"), ComputeAt("total", "sum", "s0")),
        "one of two stages that make t0",
    ),
    "filled elsewhere": (
        LATER,
        (Algorithm("scattered"), Inline("fill.total")),
        "one of two stages that make t0",
    ),
    "partial sums": (
        SUM,
        (Algorithm("scattered"), Split("total", "r0", 8), RFactor("total", "r0.i")),
        "one of two stages that make y0",
    ),
    "in a pipeline": (
        SUM,
        (Algorithm("scattered"), Bind("total", "s1", LoopKind.PIPELINED)),
        "may come to one place",
    ),
    "threads at one place": (SUM, (Algorithm("scattered"), Bind("total", "r0", LoopKind.PARALLEL)), "r0"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str) -> None:
    workload, steps, message = BAD[name]
    with pytest.raises(ScheduleError, match=message):
        replay(workload, Schedule(steps))


def test_updates_of_one_place_are_added_in_their_order() -> None:
    """As ONNX Runtime and NumPy do, to the last bit."""
    workload = scattered_sum(1000, 3, 8)
    operands = {**random_operands(workload), "x2": np.zeros((3, 8), np.float32)}
    space = build_space(workload, native_target(), 1)
    got = run_native(workload, space.schedule(space.default), operands)
    wanted = np.zeros((3, 8), np.float32)
    places = np.clip(np.where(operands["x0"] < 0, operands["x0"] + 3, operands["x0"]), 0, 2)
    np.add.at(wanted, places, operands["x1"])
    np.testing.assert_array_equal(got, wanted)
