"""Each primitive: the printed nest after every step, and one sentence where a step is not legal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.loop.printer import print_nest
from compiler.loop.simplify import simplify
from compiler.schedule.lower import lower
from compiler.schedule.primitives import apply_step, replay, states
from compiler.schedule.schedule import Schedule, schedule_from_json
from compiler.schedule.state import initial_state
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Fuse, Pack, Reorder, Split, Step
from compiler.space.rules import build_space
from compiler.target import PRESETS
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import convolution, depthwise, lstm_cell, matmul, random_operands

Golden = Callable[[str, str], None]

TILE: tuple[Step, ...] = (
    Algorithm("direct"),
    Split("epilogue", "s0", 3),
    Split("epilogue", "s1", 8),
    Reorder("epilogue", ("s1.o", "s0.o", "s0.i", "s1.i")),
    ComputeAt("anchor", "epilogue", "s0.o"),
    Split("anchor", "r0", 2),
    Reorder("anchor", ("r0.o", "r0.i", "s0", "s1")),
    Fuse("epilogue", "s1.o", "s0.o"),
    Bind("epilogue", "s1.o*s0.o", LoopKind.PARALLEL),
    Bind("anchor", "s0", LoopKind.UNROLLED),
    Bind("anchor", "s1", LoopKind.VECTOR),
    Pack("anchor", "c0"),
)


def test_the_nest_after_every_step(golden: Golden) -> None:
    texts = []
    for step, state in states(matmul(7, 20, 5), Schedule(TILE)):
        nest = simplify(lower(state, "matmul"))
        texts.append(f"# {step if step is not None else 'the plain nest'}\n{print_nest(nest)}")
    golden("\n".join(texts), "schedule/matmul_steps")


@pytest.mark.parametrize("name", ["convolution", "depthwise", "lstm_cell"])
def test_the_default_nest(name: str, golden: Golden) -> None:
    workload = {
        "convolution": convolution(7, 8, 20, 3),
        "depthwise": depthwise(5, 12),
        "lstm_cell": lstm_cell(4, 20, 6),
    }[name]
    space = build_space(workload, PRESETS["x86-64-v3"], 2)
    state = replay(workload, space.schedule(space.default))
    golden(print_nest(simplify(lower(state, name))), f"schedule/default_{name}")


ILLEGAL: dict[str, tuple[tuple[Step, ...], str]] = {
    "unknown stage": ((Split("nowhere", "s0", 2),), "has no stage 'nowhere'"),
    "unknown loop": ((Split("anchor", "s9", 2),), "has no loop 's9'"),
    "factor 0": ((Split("anchor", "s0", 0),), "at least 1"),
    "split of a bound loop": (
        (Bind("anchor", "r0", LoopKind.UNROLLED), Split("anchor", "r0", 2)),
        "split before binding",
    ),
    "fuse of distant loops": ((Fuse("anchor", "s0", "r0"),), "directly inside"),
    "fuse across the reduction": ((Fuse("anchor", "s1", "r0"),), "one reduces"),
    "reorder with a repeat": ((Reorder("anchor", ("s0", "s0")),), "named twice"),
    "tile outside what it depends on": (
        (Split("epilogue", "s0", 4), Split("epilogue", "s0.i", 2), Reorder("epilogue", ("s0.i.o", "s0.o"))),
        "must stand inside",
    ),
    "tile outside what it depends on, where another stage is computed": (
        (
            Split("epilogue", "s0", 3),
            ComputeAt("anchor", "epilogue", "s1"),
            Reorder("epilogue", ("s0.i", "s0.o")),
        ),
        "must stand inside",
    ),
    "vector that is not innermost": ((Bind("epilogue", "s0", LoopKind.VECTOR),), "only the innermost"),
    "vector of odd length": ((Bind("epilogue", "s1", LoopKind.VECTOR),), "power of two"),
    "parallel reduction": ((Bind("anchor", "r0", LoopKind.PARALLEL),), "it reduces"),
    "parallel inside": ((Bind("epilogue", "s1", LoopKind.PARALLEL),), "outermost"),
    "thread inside a serial loop": ((Bind("epilogue", "s1", LoopKind.THREAD),), "of another kind"),
    "block inside a thread": (
        (Bind("epilogue", "s0", LoopKind.THREAD), Bind("epilogue", "s1", LoopKind.BLOCK)),
        "of another kind",
    ),
    "pipelined reduction": ((Bind("anchor", "r0", LoopKind.PIPELINED),), "it reduces"),
    "block reduction": ((Bind("anchor", "r0", LoopKind.BLOCK),), "it reduces"),
    "four dimensions of blocks": (
        (
            *(Split("epilogue", name, 2) for name in ("s0", "s1", "s1.o")),
            *(Bind("epilogue", name, LoopKind.BLOCK) for name in ("s0.o", "s0.i", "s1.o.o", "s1.o.i")),
        ),
        "3 dimensions",
    ),
    "threads of a stage inside a serial loop": (
        (ComputeAt("anchor", "epilogue", "s0"), Bind("anchor", "s0", LoopKind.THREAD)),
        "only threads of a block loop",
    ),
    "blocks of an attached stage": (
        (
            Bind("epilogue", "s0", LoopKind.BLOCK),
            ComputeAt("anchor", "epilogue", "s0"),
            Bind("anchor", "s0", LoopKind.BLOCK),
        ),
        "only threads of a block loop",
    ),
    "attach after other steps": (
        (Split("anchor", "s0", 2), ComputeAt("anchor", "epilogue", "s0")),
        "attach it first",
    ),
    "attach after a binding": (
        (Bind("anchor", "s0", LoopKind.PARALLEL), ComputeAt("anchor", "epilogue", "s0")),
        "attach it first",
    ),
    "attach inside a vector": (
        (
            Split("epilogue", "s1", 4),
            Bind("epilogue", "s1.i", LoopKind.VECTOR),
            ComputeAt("anchor", "epilogue", "s1.i"),
        ),
        "is a vector; attach",
    ),
    "vector around another stage": (
        (
            Split("epilogue", "s1", 4),
            ComputeAt("anchor", "epilogue", "s1.i"),
            Bind("epilogue", "s1.i", LoopKind.VECTOR),
        ),
        "computed inside it",
    ),
    "vector moved around another stage": (
        (
            ComputeAt("anchor", "epilogue", "s0"),
            Split("epilogue", "s1", 4),
            Bind("epilogue", "s1.i", LoopKind.VECTOR),
            Reorder("epilogue", ("s1.i", "s0")),
        ),
        "keep the vector innermost",
    ),
    "parallel loop moved inside": (
        (Bind("anchor", "s0", LoopKind.PARALLEL), Reorder("anchor", ("s1", "s0"))),
        "must stay outermost",
    ),
    "a sum between two vector loops": (
        (
            Split("anchor", "s1", 10),
            Split("anchor", "s1.i", 2),
            Reorder("anchor", ("r0", "s1.i.i")),
            Bind("anchor", "s1.i.i", LoopKind.VECTOR),
            Reorder("anchor", ("s1.i.i", "s1.o")),
            Bind("anchor", "s1.o", LoopKind.VECTOR),
        ),
        "must be the innermost two, and not reduce",
    ),
    "attach the output": ((ComputeAt("epilogue", "anchor", "s0"),), "read elsewhere"),
    "pack an input": ((Pack("anchor", "x0"),), "only a constant"),
    "late algorithm": ((Split("anchor", "s0", 2), Algorithm("direct")), "must be the first"),
    "unknown algorithm": ((Algorithm("magic"),), "unknown algorithm"),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_step_is_refused(case: str) -> None:
    steps, message = ILLEGAL[case]
    with pytest.raises(ScheduleError, match=message):
        replay(matmul(7, 20, 5), Schedule(steps))


@pytest.mark.parametrize("factor", [2, 3, 4, 7, 9])
def test_the_inner_part_of_a_split_gets_around_the_outer_one(factor: int) -> None:
    workload = matmul(7, 20, 5)
    steps = (
        Split("epilogue", "s1", 2 * factor),
        Split("epilogue", "s1.i", factor),
        Reorder("epilogue", ("s1.i.i", "s1.i.o")),
        Split("epilogue", "s0", factor),
        Reorder("epilogue", ("s0.i", "s1.o", "s1.i.i", "s0.o")),
        ComputeAt("anchor", "epilogue", "s0.o"),
    )
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, Schedule(steps), operands), expected) < 1e-6
    assert relative_error(run_interpreted(workload, Schedule(steps), operands), expected) < 1e-6


def test_a_step_leaves_the_state_before_it_alone() -> None:
    before = initial_state(matmul(7, 20, 5))
    text = print_nest(lower(before, "matmul"))
    apply_step(before, Split("anchor", "s0", 3))
    assert print_nest(lower(before, "matmul")) == text


@pytest.mark.parametrize("data", [None, {}, [1], [{"step": "Explode"}], [{"step": "Split", "stage": "a"}]])
def test_malformed_schedules_are_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"schedule|step"):
        schedule_from_json(data)


@pytest.mark.parametrize(("rows", "streams"), [(1, True), (4, False)])
def test_a_matrix_that_is_read_once_is_packed_in_a_stream_per_vector(rows: int, *, streams: bool) -> None:
    workload = matmul(rows, 64, 48)
    space = build_space(workload, PRESETS["x86-64-v3"], 1)
    values = space.values(space.default) | {"vectors": 2}
    nest = lower(replay(workload, space.build(values)), "kernel")
    packing = nest.by_name["c0"].packing
    assert packing is not None
    vectors = packing.coefficients.index((8, 0))
    reduced = next(i for i, (_, inner) in enumerate(packing.coefficients) if inner)
    assert (vectors < reduced) is streams
