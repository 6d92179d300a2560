"""Constants of three bytes: an equivalent Workload within its error, right machine code on every kind of CPU."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.codegen.kernel import kernels_from_json, kernels_json, phase_objects
from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import LoopKind
from compiler.packing import Shortened
from compiler.pipeline import build_kernel
from compiler.schedule.schedule import Schedule
from compiler.schedule.short_constants import short_constants
from compiler.schedule.steps import Algorithm, Bind, Pack, Reorder
from compiler.space.rules import build_space
from compiler.space.short_constant_phases import ERROR
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.codegen.cross import Call, filled_arena, place_cases, run_aarch64, run_wasm
from tests.compiler.execute import relative_error, run_interpreted, run_native, run_placed
from tests.compiler.forbidden_pages import between_forbidden_pages
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.symbolic import symbolic_rows
from tests.compiler.workloads import (
    convolution,
    matmul,
    padded_convolution,
    product,
    random_operands,
    second_matrix,
    windowed,
)

Run = Callable[[list[bytes], list[Call], np.ndarray, Path], np.ndarray]
SHORT = "short constants"
WORKLOADS: dict[str, Workload] = {
    "vector and matrix": matmul(1, 37, 75),
    "a few rows": matmul(3, 33, 40),
    "fewer columns than lanes": matmul(2, 3, 64),
    "windows": convolution(4, 5, 18, 3),
    "windows with padding": padded_convolution(5, 4, 20, 3, 2),
    "the second of two matrices": second_matrix(3, 33, 40),
    "three dimensions": windowed((2, 3, 4), 5, 9, (2, 2, 1)),
}


def in_small_caches(target: Target) -> Target:
    """Whose second cache holds hardly anything, so that all constants are far."""
    return replace(target, l1_bytes=64, l2_bytes=128)


def shortened(workload: Workload, target: Target, rng: random.Random | None = None) -> Schedule:
    """A schedule with short constants: the usual one, or a random one."""
    space = build_space(workload, in_small_caches(target), 1)
    usual = (space.values(assignment) for assignment in (space.default, *space.starts))
    found = next(values for values in usual if values["algorithm"] == SHORT)
    while rng is not None:
        values = space.values(space.sample(rng))
        if values["algorithm"] == SHORT:
            found = values
            break
    return space.build(found)


def within(workload: Workload, got: np.ndarray, operands: dict[str, np.ndarray]) -> bool:
    """Whether no product of a sum is off by more than rounding its constant may have made it."""
    expected = reference_outputs(workload, operands)["y0"]
    sizes = reference_outputs(workload, {name: np.abs(array) for name, array in operands.items()})["y0"]
    return bool(np.all(np.abs(got - expected) <= 2.0**-16 * sizes + 1e-6 * np.abs(sizes).max()))


@pytest.mark.parametrize("name", WORKLOADS)
def test_products_are_the_same_within_the_error(name: str) -> None:
    workload = WORKLOADS[name]
    operands = random_operands(workload)
    rng = random.Random(name)
    for target in (native_target(), PRESETS["x86-64-v3"]):
        for schedule in (shortened(workload, target, r) for r in (None, rng, rng)):
            assert within(workload, run_native(workload, schedule, operands, target=target), operands)
            assert within(workload, run_interpreted(workload, schedule, operands), operands)


def test_nothing_around_them_is_touched() -> None:
    """Two blocks of 16 bytes are loaded as one vector, with bytes around them that have to be the constant's too."""
    child = get_context("spawn").Process(target=_run_between_forbidden_pages)
    child.start()
    child.join()
    assert child.exitcode == 0, "a kernel read around its constants"


def _run_between_forbidden_pages() -> None:
    """Every kernel with its constants just behind a page that must not be read, and just before one."""
    rng = random.Random(0)
    for workload in (*WORKLOADS.values(), matmul(1, 67, 37), matmul(1, 40, 9), matmul(2, 16, 21)):
        operands = random_operands(workload)
        for schedule in (shortened(workload, PRESETS["x86-64-v3"], r) for r in (None, rng, rng, rng)):
            kernel = build_kernel(workload, schedule, PRESETS["x86-64-v3"])
            for at_end in (False, True):
                got = run_placed(kernel, operands, partial(between_forbidden_pages, at_end=at_end))
                assert within(workload, got["y0"], operands)


def test_the_error_is_there_and_no_more() -> None:
    """Else constants would not be short; of random data the largest is what the record says."""
    workload = matmul(1, 512, 1024)
    operands = random_operands(workload)
    got = run_native(workload, shortened(workload, native_target()), operands)
    assert ERROR / 20 < relative_error(got, reference_outputs(workload, operands)["y0"]) < ERROR


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 70), st.integers(2, 90), st.randoms(use_true_random=False))
def test_any_product_is_the_same(m: int, n: int, k: int, rng: random.Random) -> None:
    workload, target = matmul(m, n, k), native_target()
    space = build_space(workload, in_small_caches(target), 1)
    names = {knob.name: knob.choices for knob in space.knobs}
    assume(SHORT in names.get("algorithm", ()))
    operands = random_operands(workload)
    assert within(workload, run_native(workload, shortened(workload, target, rng), operands), operands)


@pytest.mark.parametrize(("name", "run"), [("aarch64-neoverse-n1", run_aarch64), ("wasm32", run_wasm)])
def test_other_kinds_of_cpu_read_the_same(name: str, run: Run, tmp_path: Path) -> None:
    target = PRESETS[name]
    schedules = [(n, w, shortened(w, target)) for n, w in WORKLOADS.items()]
    cases, size = place_cases(schedules, target)
    calls = [call for case in cases for call in case.calls()]
    objects = list(phase_objects(case.kernel for case in cases).values())
    arena = run(objects, calls, filled_arena(cases, size), tmp_path)
    assert all(any(p.dtype is DType.F24 for p in case.kernel.params) for case in cases)
    assert not {case.name: case.error(arena) for case in cases if not case.error(arena) < 2 * ERROR}


def test_a_schedule_must_pack_them() -> None:
    with pytest.raises(ScheduleError, match="pack it"):
        build_kernel(matmul(4, 6, 8), Schedule((Algorithm("short_constants", ()),)), native_target())


def test_lanes_may_share_a_constant() -> None:
    """The rule offers no such tile; a schedule may have one all the same: rows of the product as its lanes."""
    workload = matmul(16, 6, 8)
    operands = random_operands(workload)
    anchor = workload.stages[0].name
    steps = (
        Algorithm("short_constants", ()),
        Reorder(anchor, ("s1", "r0", "s0")),
        Pack(anchor, "c0"),
        Bind(anchor, "s0", LoopKind.VECTOR),
    )
    assert within(workload, run_native(workload, Schedule(steps), operands), operands)


def test_kernels_keep_it_in_json() -> None:
    workload = matmul(1, 40, 24)
    kernel = build_kernel(workload, shortened(workload, native_target()), native_target())
    data, blobs = kernels_json([kernel])
    (again,) = kernels_from_json(data, blobs)
    assert again.params == kernel.params
    assert any(p.packing is not None and p.packing.transform == Shortened() for p in again.params)


def test_what_has_no_constant_is_refused() -> None:
    with pytest.raises(ScheduleError, match="constant in float32"):
        short_constants(product(1, 4, 5, 6), ())
    with pytest.raises(ScheduleError, match="no parameters"):
        short_constants(matmul(1, 4, 5), (1,))


def test_constants_that_are_near_stay_what_they_are() -> None:
    space = build_space(matmul(1, 64, 64), native_target(), 1)
    assert all(SHORT not in knob.choices for knob in space.knobs)


def test_it_is_the_default_where_memory_is_waited_for() -> None:
    """For one row: of many the products take longer than their constants."""
    target = PRESETS["x86-64-v3"]
    for rows, wanted in ((1, True), (512, False)):
        space = build_space(matmul(rows, 2048, 2048), target, 1)
        assert (space.values(space.default).get("algorithm") == SHORT) == wanted
    exact = build_space(matmul(1, 2048, 2048), target, 1).within(ERROR / 2)
    assert exact.values(exact.default)["algorithm"] == "direct"


@pytest.mark.parametrize(("rows", "wanted"), [(1, SHORT), (8, SHORT), (16, "parts"), (64, "parts")])
def test_registers_of_matrices_are_preferred_where_rows_fill_them(rows: int, wanted: str) -> None:
    """What they read once is waited for once, however few rows there are."""
    space = build_space(matmul(rows, 2048, 2048), WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == wanted


def test_of_rows_of_any_number_only_hints_say_that_there_are_few() -> None:
    workload, target = symbolic_rows(matmul(1, 2048, 2048)), PRESETS["x86-64-v3"]
    (rows,) = workload.symbols
    for hints, wanted in (((), "direct"), ((1,), SHORT), ((512,), "direct")):
        known = replace(workload, symbols=(replace(rows, hints=hints),))
        space = build_space(known, target, 1)
        assert space.values(space.default)["algorithm"] == wanted
        assert SHORT in next(knob.choices for knob in space.knobs if knob.name == "algorithm")
