"""Products of two activations in parts: equivalent Workloads, right machine code, what is not finite, the defaults."""

from __future__ import annotations

import random

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.errors import CompileError, ScheduleError
from compiler.evaluate import reference_outputs
from compiler.instruction import INSTRUCTIONS
from compiler.pipeline import build_kernel
from compiler.schedule.both_parts import find_factors, parts_of_both
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Algorithm
from compiler.space.both_part_phases import both_part_phases
from compiler.space.part_phases import ERROR
from compiler.space.product_errors import LARGEST_ERROR, parts_errors
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.attention import attention
from tests.compiler.execute import (
    interpreted_outputs,
    native_outputs,
    relative_error,
    run_interpreted,
    run_native,
    stored_error,
)
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.workloads import matmul, product, random_operands, retyped

SHAPES = {
    "whole matrices": (2, 16, 32, 64),
    "ends of all axes": (3, 19, 21, 45),
    "an odd sum behind a whole block": (1, 7, 16, 33),
    "a sum shorter than a block": (2, 5, 40, 11),
    "one product": (1, 20, 18, 1),
}
AVAILABLE = INSTRUCTIONS["tdpbf16ps"].runs_on(native_target())
NEEDS = pytest.mark.skipif(not AVAILABLE, reason="this CPU lacks one of amx-tile, amx-bf16")
BOUNDS = {2: ERROR, 3: 1e-6}
"""Errors by the number of parts."""


def in_parts(space: SearchSpace, count: int) -> list[Schedule]:
    """The best of them without measuring, and random ones."""
    own = [a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == "parts"]
    rng = random.Random(count)
    drawn = (space.sample(rng) for _ in range(100))
    more = dict.fromkeys(a for a in drawn if space.values(a)["algorithm"] == "parts")
    return [space.schedule(a) for a in [*own, *more][:count]]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("turned", ["", "x0", "x1", "x0 x1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_rewritten_product_is_the_same(shape: str, turned: str, count: int) -> None:
    batch, m, n, k = SHAPES[shape]
    workload = product(batch, m, n, k, turned=turned)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    length = min(32, k + k % 2)
    made = parts_of_both(workload, (0, 2, 16, length, count))
    assert relative_error(reference_outputs(made, operands)["y0"], expected) < BOUNDS[count]
    assert [t.dtype for t in made.temporaries[:2]] == [DType.BF16] * 2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_interpreter_agrees(shape: str) -> None:
    workload = product(*SHAPES[shape], turned="x1")
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
    assert relative_error(run_interpreted(workload, plan, operands), expected) < ERROR


@NEEDS
@pytest.mark.parametrize(("turned", "threads"), [("", 1), ("x0 x1", 2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_machine_code_agrees(shape: str, turned: str, threads: int) -> None:
    workload = product(*SHAPES[shape], turned=turned)
    operands = random_operands(workload, threads)
    expected = reference_outputs(workload, operands)["y0"]
    for plan in in_parts(build_space(workload, WITH_MATRICES, threads), 2):
        assert relative_error(run_native(workload, plan, operands, threads=threads), expected) < ERROR


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, np.finfo(np.float32).max, -3.4e38])
@pytest.mark.parametrize("name", ["x0", "x1"])
@pytest.mark.parametrize("count", [2, 3])
def test_what_is_not_finite_stays_what_it_is(name: str, value: float, count: int) -> None:
    workload = product(1, 5, 17, 30)
    operands = {n: np.abs(array) * np.float32(1e-3) for n, array in random_operands(workload).items()}
    operands[name][0, 2, 7] = value
    expected = reference_outputs(workload, operands)["y0"].astype(np.float32)
    made = parts_of_both(workload, (0, 2, 16, 32, count))
    got = reference_outputs(made, operands)["y0"].astype(np.float32)
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    if AVAILABLE and count == 2:
        (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
        np.testing.assert_allclose(run_native(workload, plan, operands), expected, rtol=1e-4)


@pytest.mark.parametrize(
    "parameters",
    [(), (0, 2, 16, 32), (0, 2, 16, 31, 2), (0, 2, 16, 32, 4), (0, 2, 0, 32, 2), (0, -1, 16, 32, 2)],
)
def test_parameters_that_make_no_sense_are_refused(parameters: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match="an even length of blocks"):
        parts_of_both(product(2, 8, 16, 32), parameters)


@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        pytest.param(matmul(8, 16, 32), (0, 1, 16, 32, 2), id="a constant"),
        pytest.param(product(2, 8, 16, 32), (0, 0, 16, 32, 2), id="an axis of both factors"),
        pytest.param(product(2, 8, 16, 32), (1, 2, 16, 32, 2), id="no sum"),
        pytest.param(product(2, 8, 16, 32), (9, 2, 16, 32, 2), id="no stage"),
        pytest.param(retyped(product(2, 8, 16, 32), DType.F64), (0, 2, 16, 32, 2), id="float64"),
    ],
)
def test_what_is_no_product_of_activations_is_refused(
    workload: Workload, parameters: tuple[int, ...]
) -> None:
    with pytest.raises(ScheduleError, match="products of two float32 activations"):
        parts_of_both(workload, parameters)


def test_a_factor_out_of_order_is_refused() -> None:
    """Without the Steps that put the rows of a matrix below each other there is no code."""
    workload = product(1, 16, 16, 32)
    (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
    assert isinstance(plan.steps[0], Algorithm)
    halves = Algorithm("parts_of_both", (0, 2, 8, 32, 2))
    with pytest.raises((CompileError, ScheduleError)):
        build_kernel(workload, Schedule((halves, *plan.steps[1:])), WITH_MATRICES)


@pytest.mark.parametrize(
    ("workload", "chosen"),
    [
        pytest.param(product(1, 256, 256, 256), "parts", id="large"),
        pytest.param(product(12, 128, 128, 64, turned="x1"), "parts", id="batches"),
        pytest.param(product(8, 33, 40, 17), "direct", id="small"),
        pytest.param(product(1, 4, 512, 512), "direct", id="few rows"),
    ],
)
def test_it_is_the_default_where_it_is_faster(workload: Workload, chosen: str) -> None:
    space = build_space(workload, WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == chosen
    careful = space.within(ERROR / 2)
    assert careful.values(careful.default)["algorithm"] != "parts"


def test_there_is_none_without_matrices() -> None:
    workload = product(1, 256, 256, 256)
    assert both_part_phases(workload, PRESETS["x86-64-v4"]) is None
    assert both_part_phases(matmul(64, 64, 64), WITH_MATRICES) is None
    assert find_factors(workload, workload.stages[0], "s1") is not None
    assert find_factors(workload, workload.stages[0], "s0") is None


def test_attention_takes_three_parts_where_scores_are_not_scaled() -> None:
    """An error of a score is one of its exponential; scores of 64 products have a spread of 8."""
    for masked, form in ((False, "parts3"), (True, "parts")):
        depth = 4 if masked else 64  # with the mask comes a scale of a half
        workload = attention(2, 16, 16, depth, masked=masked)
        first, second = parts_errors(workload)
        assert next(f for f, e in first.items() if e <= LARGEST_ERROR) == form
        assert list(second) == ["parts"]
    space = build_space(attention(2, 256, 256, 64, masked=False), WITH_MATRICES, 1)
    values = space.values(space.default)
    assert (values["pack.0"], values["pack.1"]) == ("parts3", "parts")
    careful = space.within(space.error / 2)
    kept = careful.values(careful.default)
    assert (kept["between"], kept["pack.0"], kept["pack.1"]) == ("cache", "yes", "yes")


@pytest.mark.parametrize("shape", [(1, 19, 18, 13), (1, 33, 17, 5)])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_in_every_form_agrees(shape: tuple[int, int, int, int], masked: bool) -> None:  # noqa: FBT001
    workload = attention(*shape, masked=masked)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)
    space = build_space(workload, WITH_MATRICES, 2)
    errors = parts_errors(workload)
    forms = set()
    for assignment in (space.default, *space.starts):
        values = space.values(assignment)
        form = str(values["pack.0"]), str(values["pack.1"])
        if not any(f.startswith("parts") for f in form):
            continue
        forms.add(form)
        tolerance = 3e-6 + sum(by_form.get(f, 0.0) for by_form, f in zip(errors, form, strict=True))
        schedule = space.schedule(assignment)
        assert stored_error(workload, interpreted_outputs(workload, schedule, operands), expected) < tolerance
        if AVAILABLE:
            got = native_outputs(workload, schedule, operands, 2)
            assert stored_error(workload, got, expected) < tolerance, values
    assert ("parts3", "parts") in forms
