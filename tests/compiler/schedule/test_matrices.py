"""Instructions on matrices: exact in the interpreter everywhere, natively where this CPU has them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from compiler.codegen.texts import nest_assembly, nest_ir
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import LoopKind
from compiler.pipeline import build_nest
from compiler.schedule.primitives import apply_step
from compiler.schedule.schedule import Schedule
from compiler.schedule.state import initial_state
from compiler.schedule.steps import Bind, Reorder, Split, Step, Tensorize
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.drawn import drawn
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.integers import (
    bf16_matmul,
    full_range,
    integer_convolution,
    integer_groups,
    integer_matmul,
)

V4 = PRESETS["x86-64-v4"]
WITH_MATRICES = replace(
    V4, features=tuple(sorted({*V4.features, "avx512vnni", "avx512bf16", "amx-tile", "amx-int8", "amx-bf16"}))
)
BYTES, BF16 = "tdpbusd", "tdpbf16ps"

WORKLOADS: dict[str, tuple[Workload, str]] = {
    "whole matrices": (integer_matmul(32, 64, 128), BYTES),
    "a depth that is not full": (integer_matmul(16, 32, 96), BYTES),
    "few groups": (integer_matmul(19, 20, 20), BYTES),
    "a sum that is filled up with zeros": (integer_matmul(21, 18, 150), BYTES),
    "edges of rows and columns": (integer_matmul(37, 41, 64), BYTES),
    "one row more than a matrix": (integer_matmul(17, 17, 4), BYTES),
    "windows": (integer_convolution(7, 8, 20, zero=3), BYTES),
    "groups of channels": (integer_groups(5, 2, 32), BYTES),
    "bf16": (bf16_matmul(18, 40, 64), BF16),
    "bf16, few": (bf16_matmul(5, 16, 6), BF16),
}


def plans(workload: Workload, instruction: str, threads: int, seed: int) -> Iterator[Schedule]:
    """Schedules with the instruction: the best without measuring, and random ones."""
    space = build_space(workload, WITH_MATRICES, threads)
    yield space.schedule(next(a for a in (space.default, *space.starts) if uses(space, a, instruction)))
    others = drawn(space, random.Random(seed), instruction=instruction)
    yield from (space.schedule(a) for a in islice(others, 4))


def uses(space: SearchSpace, assignment: tuple[int, ...], instruction: str) -> bool:
    return space.values(assignment)["instruction"] == instruction


def agrees(got: np.ndarray, expected: np.ndarray, instruction: str) -> bool:
    if instruction == BYTES:
        return bool(np.array_equal(got, expected))
    return relative_error(got, expected) < 1e-6


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_interpreter_gives_what_numpy_gives(name: str) -> None:
    workload, instruction = WORKLOADS[name]
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    plan = next(plans(workload, instruction, 1, 0))
    assert agrees(run_interpreted(workload, plan, operands), expected, instruction)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", WORKLOADS)
def test_machine_code_gives_what_numpy_gives(name: str, threads: int) -> None:
    workload, instruction = WORKLOADS[name]
    if not INSTRUCTIONS[instruction].runs_on(native_target()):
        pytest.skip(f"this CPU lacks one of {', '.join(INSTRUCTIONS[instruction].features)}")
    operands = full_range(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for plan in plans(workload, instruction, threads, threads):
        assert agrees(run_native(workload, plan, operands, threads=threads), expected, instruction)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_code_has_the_instruction(name: str) -> None:
    workload, instruction = WORKLOADS[name]
    plan = next(plans(workload, instruction, 1, 0))
    assert instruction in nest_assembly(build_nest(workload, plan), WITH_MATRICES)


def test_sums_begin_in_registers_and_the_setting_is_made_once() -> None:
    plan = next(plans(integer_matmul(64, 64, 256), BYTES, 1, 0))
    text = nest_ir(build_nest(integer_matmul(64, 64, 256), plan), WITH_MATRICES)
    assert text.count("call void @llvm.x86.ldtilecfg") == 1
    assert text.count("call void @llvm.x86.tilerelease") == 1
    assert text.count("call void @llvm.x86.tilezero") == text.count("call void @llvm.x86.tilestored64")


@pytest.mark.parametrize(("rows", "settings"), [(16, 1), (32, 2)])
def test_edges_have_a_setting_of_their_own_where_the_registers_are_too_few(rows: int, settings: int) -> None:
    workload = integer_matmul(37, 41, 64)
    space = build_space(workload, WITH_MATRICES, 1)
    plan = space.build({**space.values(space.default), "instruction": BYTES, "rows": rows, "vectors": 2})
    text = nest_ir(build_nest(workload, plan), WITH_MATRICES)
    assert text.count("= private unnamed_addr constant [64 x i8]") == settings


def test_what_the_system_refuses_is_no_feature_and_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"amx-int8": True, "amx-tile": True, "avx2": True, "avx512f": False}
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: found)
    monkeypatch.setattr("compiler.target._may_use_matrices", lambda: False)
    assert native_target.__wrapped__().features == ("avx2",)
    assert "refuses this CPU's registers of matrices" in caplog.text
    monkeypatch.setattr("compiler.target._may_use_matrices", lambda: True)
    assert native_target.__wrapped__().features == ("amx-int8", "amx-tile", "avx2")


def test_one_row_is_no_matrix() -> None:
    space = build_space(integer_matmul(1, 64, 64), WITH_MATRICES, 1)
    assert space.values(space.default)["instruction"] == "vpdpbusd.512"


def tile(rows: int, vectors: int, groups: int) -> tuple[Step, ...]:
    unrolled = ("r0.o.i", "s0.i", "s1.o.i")
    return (
        Split("anchor", "s0", rows),
        Split("anchor", "s1", 16),
        Split("anchor", "s1.o", vectors),
        Split("anchor", "r0", 4),
        Split("anchor", "r0.o", groups),
        Reorder("anchor", ("s0.o", "s1.o.o", "r0.o.o", *unrolled, "r0.i", "s1.i")),
        *(Bind("anchor", name, LoopKind.UNROLLED) for name in unrolled),
        Bind("anchor", "s1.i", LoopKind.VECTOR),
        Tensorize("anchor", "r0.i", BYTES),
    )


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (tile(32, 4, 16), "are more than 8 registers"),
        (tile(16, 2, 32), "over at most 16 groups"),
        ((*tile(16, 2, 16)[:-4], *tile(16, 2, 16)[-3:]), "must stand around it"),
    ],
)
def test_what_registers_do_not_hold_is_refused(steps: tuple[Step, ...], text: str) -> None:
    state = initial_state(integer_matmul(64, 128, 256))
    for step in steps[:-1]:
        state = apply_step(state, step)
    with pytest.raises(ScheduleError, match=text):
        apply_step(state, steps[-1])


def test_a_legal_tile_is_taken() -> None:
    state = initial_state(integer_matmul(64, 128, 256))
    for step in tile(32, 2, 16):
        state = apply_step(state, step)
    assert state.stage("anchor").dot == ("r0.i", BYTES)
