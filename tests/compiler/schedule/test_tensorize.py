"""Instructions: exact against NumPy in the interpreter everywhere, natively where this CPU has them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiler.codegen.texts import nest_assembly, nest_ir
from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import LoopKind
from compiler.loop.printer import print_nest
from compiler.loop.simplify import simplify
from compiler.pipeline import build_nest
from compiler.schedule.lower import lower
from compiler.schedule.primitives import apply_step, replay, states
from compiler.schedule.schedule import Schedule, schedule_from_json, schedule_json
from compiler.schedule.state import initial_state
from compiler.schedule.steps import Algorithm, Bind, Pack, Reorder, Split, Step, Tensorize
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.integers import (
    SAFE,
    bf16_matmul,
    full_range,
    integer_convolution,
    integer_groups,
    integer_matmul,
)

Golden = Callable[[str, str], None]
V4 = PRESETS["x86-64-v4"]

WORKLOADS: dict[str, Workload] = {
    "matmul": integer_matmul(7, 19, 10),
    "matmul_small_weights": integer_matmul(7, 19, 10, bound=SAFE),
    "matmul_signed": integer_matmul(5, 9, 7, data=DType.I8),
    "matrix_vector": integer_matmul(1, 33, 12, bound=SAFE),
    "convolution": integer_convolution(4, 6, 10, zero=7),
    "convolution_small_weights": integer_convolution(5, 8, 17, bound=SAFE),
    "convolution_three_channels": integer_convolution(4, 3, 9, zero=255, bound=SAFE),
}


OFFERING = ((), ("avxvnni",), ("avx512vnni",), ("avx512bf16",))
"""Features beside those of AVX-512, with which every instruction is a choice."""


def with_features(*features: str) -> Target:
    return replace(V4, features=tuple(sorted({*V4.features, *features})))


def schedule(workload: Workload, target: Target, instruction: str) -> Schedule:
    space = build_space(workload, target, 1)
    values = space.values(space.default)
    choices = {knob.name: knob.choices for knob in space.knobs}
    assert instruction in choices["instruction"]
    rows = 2 if 2 in choices["rows"] else 1
    return space.build({**values, "instruction": instruction, "rows": rows, "vectors": 1, "unroll": 1})


def step_schedule() -> tuple[Step, ...]:
    return (
        Algorithm("copied_data", (2, 2)),
        Split("anchor", "s1", 8),
        Split("anchor", "r0", 2),
        Reorder("anchor", ("s0", "s1.o", "r0.o", "r0.i", "s1.i")),
        Bind("anchor", "s1.i", LoopKind.VECTOR),
        Tensorize("anchor", "r0.i", "vpmaddwd.256"),
        Pack("anchor", "c0"),
    )


def test_the_nest_after_every_step(golden: Golden) -> None:
    texts = []
    for step, state in states(integer_matmul(3, 16, 5), Schedule(step_schedule())):
        if isinstance(step, Tensorize):
            continue  # its constant is packed by the next step
        nest = simplify(lower(state, "matmul"))
        texts.append(f"# {step if step is not None else 'the plain nest'}\n{print_nest(nest)}")
    golden("\n".join(texts), "schedule/tensorize_steps")


def test_a_schedule_with_instructions_survives_json() -> None:
    plan = Schedule(step_schedule())
    assert schedule_from_json(schedule_json(plan)) == plan


ILLEGAL: dict[str, tuple[tuple[Step, ...], str]] = {
    "unknown instruction": ((Tensorize("anchor", "r0", "vpnonsense"),), "unknown instruction"),
    "no vector loop": ((Tensorize("anchor", "r0", "vpmaddwd.256"),), "must be a vector of 8 lanes"),
    "a loop of another length": (
        (*step_schedule()[:2], Split("anchor", "r0", 3), *step_schedule()[3:6]),
        "must reduce over 2 elements",
    ),
    "data of another type": (
        (Algorithm("direct"), *step_schedule()[1:6]),
        "copy it first",
    ),
    "lanes that read different data": (
        (
            Algorithm("copied_data", (2, 2)),
            Split("anchor", "s0", 8),
            Split("anchor", "r0", 2),
            Reorder("anchor", ("s1", "s0.o", "r0.o", "r0.i", "s0.i")),
            Bind("anchor", "s0.i", LoopKind.VECTOR),
            Tensorize("anchor", "r0.i", "vpmaddwd.256"),
        ),
        "differs between lanes",
    ),
    "weights that may saturate": (
        (
            Split("anchor", "s1", 8),
            Split("anchor", "r0", 4),
            Reorder("anchor", ("s0", "s1.o", "r0.o", "r0.i", "s1.i")),
            Bind("anchor", "s1.i", LoopKind.VECTOR),
            Tensorize("anchor", "r0.i", "vpmaddubsw.256"),
        ),
        "its product is not one of",
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_what_is_not_legal_is_refused(name: str) -> None:
    steps, text = ILLEGAL[name]
    state = initial_state(integer_matmul(16, 16, 12))
    for step in steps[:-1]:
        state = apply_step(state, step)
    with pytest.raises(ScheduleError, match=text):
        apply_step(state, steps[-1])


def test_a_constant_that_is_not_packed_is_refused() -> None:
    with pytest.raises(ScheduleError, match="pack it"):
        lower(replay(integer_matmul(3, 16, 5), Schedule(step_schedule()[:-1])), "matmul")


def cases() -> list[tuple[str, str]]:
    """Each instruction with a Target whose space has it."""
    found = []
    for name, workload in WORKLOADS.items():
        for features in OFFERING:
            knob = next(
                k for k in build_space(workload, with_features(*features), 1).knobs if k.name == "instruction"
            )
            found += [(name, str(choice)) for choice in knob.choices if choice in INSTRUCTIONS]
    return list(dict.fromkeys(found))


def offering(workload: Workload, instruction: str) -> Target:
    """A Target whose space has the instruction: it is no choice where another does the same in fewer."""
    for features in OFFERING:
        target = with_features(*features)
        knob = next(k for k in build_space(workload, target, 1).knobs if k.name == "instruction")
        if instruction in knob.choices:
            return target
    raise AssertionError(instruction)


@pytest.mark.parametrize(("name", "instruction"), cases())
def test_the_interpreter_gives_what_numpy_gives(name: str, instruction: str) -> None:
    workload = WORKLOADS[name]
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    plan = schedule(workload, offering(workload, instruction), instruction)
    got = run_interpreted(workload, plan, operands)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("name", "instruction"), cases())
def test_machine_code_gives_what_numpy_gives(name: str, instruction: str) -> None:
    if not INSTRUCTIONS[instruction].runs_on(native_target()):
        pytest.skip(f"this CPU lacks one of {', '.join(INSTRUCTIONS[instruction].features)}")
    workload = WORKLOADS[name]
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    got = run_native(workload, schedule(workload, offering(workload, instruction), instruction), operands)
    np.testing.assert_array_equal(got, expected)


def test_one_lane_is_stored_as_one_element() -> None:
    # LLVM 22 stores a wider one where it is told to truncate all lanes and to store the first.
    target = with_features("avx512vnni")
    workload = WORKLOADS["matmul_signed"]
    text = nest_ir(build_nest(workload, schedule(workload, target, "vpdpwssd.256")), target)
    assert "store i8" in text
    assert "<i1 true, i1 false" not in text


@pytest.mark.parametrize("per_group", [2, 4, 8])
def test_groups_whose_constant_would_grow_too_far_take_another_form(per_group: int) -> None:
    """Two of sixteen lanes, and three taps in a group of four, would be more than ten times the constant."""
    workload = integer_groups(5, 64 // per_group, per_group)
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for target in (native_target(), with_features("avx512vnni")):
        space = build_space(workload, target, 1)
        build_nest(workload, space.schedule(space.default))
    space = build_space(workload, native_target(), 1)
    got = run_native(workload, space.schedule(space.default), operands)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(6))
def test_random_schedules_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    size, ic, oc = rng.randint(2, 9), rng.randint(1, 21), rng.randint(1, 40)
    bound = rng.choice((None, SAFE))
    workload = rng.choice(
        (integer_matmul(size, oc, ic, bound=bound), integer_convolution(size, ic, oc, zero=ic, bound=bound))
    )
    space = build_space(workload, native_target(), 2)
    operands = full_range(workload, seed)
    expected = reference_outputs(workload, operands)["y0"]
    drawn = (space.sample(rng) for _ in range(100))
    tensorized = [a for a in drawn if space.values(a)["instruction"] != "direct"][:3]
    assert tensorized
    for assignment in tensorized:
        plan = space.schedule(assignment)
        np.testing.assert_array_equal(run_native(workload, plan, operands, threads=2), expected)


@pytest.mark.parametrize(
    ("instruction", "feature", "vector"),
    [
        ("vpdpbusd.512", "avx512vnni", "zmm"),
        ("vpdpbusd.256", "avx512vnni", "ymm"),
        ("vpdpbusd.vex256", "avxvnni", "ymm"),
        ("vpdpwssd.512", "avx512vnni", "zmm"),
        ("vpdpwssd.256", "avx512vnni", "ymm"),
        ("vpdpwssd.vex256", "avxvnni", "ymm"),
        ("vpmaddwd.512", "", "zmm"),
        ("vpmaddubsw.256", "", "ymm"),
    ],
)
def test_the_inner_loop_has_the_instruction(instruction: str, feature: str, vector: str) -> None:
    target, mnemonic = with_features(*([feature] if feature else [])), instruction.partition(".")[0]
    workload = integer_matmul(8, 64, 64, bound=SAFE)
    nest = build_nest(workload, schedule(workload, target, instruction))
    lines = [line for line in nest_assembly(nest, target).splitlines() if mnemonic in line]
    assert lines
    assert all(vector in line for line in lines)


def test_bf16_products_use_their_instruction() -> None:
    target = with_features("avx512bf16")
    workload = bf16_matmul(6, 32, 24)
    plan = schedule(workload, target, "vdpbf16ps.512")
    assembly = nest_assembly(build_nest(workload, plan), target)
    assert "vdpbf16ps" in assembly
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_interpreted(workload, plan, operands), expected) < 1e-6


def test_saturation_is_part_of_an_instructions_meaning() -> None:
    entry = INSTRUCTIONS["vpmaddubsw.256"]
    left, right = np.full(4, 255, np.uint8), np.full(4, 127, np.int8)
    assert entry.evaluate(np.int32(5), left, right) == 5 + 2 * 32767
    assert INSTRUCTIONS["vpdpbusd.512"].evaluate(np.int32(5), left, right) == 5 + 4 * 255 * 127


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("size", "channels", "outputs"), [(58, 3, 3), (58, 3, 2), (34, 4, 1), (30, 24, 4)])
def test_few_channels_may_leave_the_lanes_to_places(
    name: str, size: int, channels: int, outputs: int
) -> None:
    """Copied data has places so near that tiles would have them as lanes, which an instruction cannot."""
    workload = integer_convolution(size, channels, outputs, zero=7)
    space = build_space(workload, PRESETS[name], 1)
    for assignment in (space.default, *space.starts):
        build_nest(workload, space.schedule(assignment))
