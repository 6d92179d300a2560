"""Mean and variance in one pass: the same results, from data as far from their mean as they may be."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.loop.ir import For, LoopKind, Stmt, Store, walk_statements
from compiler.pipeline import build_nest
from compiler.scalar import Const, Load, apply, loads
from compiler.schedule.moments import moments
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import at, chain, layer_norm, operand, random_operands, row_stage, softmax

LONG = 1237
V4 = PRESETS["x86-64-v4"]


def in_parts(rows: int, columns: int) -> Workload:
    """Both the centred values and their squares are maps of their own; the first are read once more at the end."""
    sizes, both, row = (rows, columns), at("s0", "s1"), at("s0")
    square = apply("mul", Load("t2", both), Load("t2", both))
    deviation = apply("sqrt", apply("add", apply("mul", Load("t4", row), Const(1.0 / columns)), Const(1e-5)))
    return chain(
        (operand("x0", rows, columns),),
        row_stage("sum", sizes, Load("x0", both), "t0", "sum", 1),
        row_stage("mean", (rows,), apply("div", Load("t0", row), Const(float(columns))), "t1"),
        row_stage("centred", sizes, apply("sub", Load("x0", both), Load("t1", row)), "t2"),
        row_stage("square", sizes, square, "t3"),
        row_stage("squares", sizes, Load("t3", both), "t4", "sum", 1),
        row_stage("deviation", (rows,), deviation, "t5"),
        row_stage("scaled", sizes, apply("div", Load("t2", both), Load("t5", row)), "y0"),
    )


NORMS = [
    pytest.param(layer_norm(5, LONG), id="layer norm"),
    pytest.param(in_parts(5, LONG), id="layer norm in parts"),
]


def of_moments(workload: Workload) -> SearchSpace:
    space = build_space(workload, native_target(), 1)
    return replace(space, legal=lambda values: values["algorithm"] == "moments" and space.legal(values))


@pytest.mark.parametrize("workload", NORMS)
@pytest.mark.parametrize("count", [39, LONG])
def test_the_rewritten_norm_is_the_same(workload: Workload, count: int) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    made = moments(workload, (count,))
    np.testing.assert_allclose(reference_outputs(made, operands)["y0"], expected, rtol=1e-11, atol=1e-12)
    assert [s.reduce_axes[0].size for s in made.stages if s.reducer is not None] == [count, LONG, LONG]
    assert not any(s.name == "square" for s in made.stages)


@pytest.mark.parametrize("workload", NORMS)
def test_every_schedule_of_it_gives_the_same(workload: Workload) -> None:
    operands, rng, space = random_operands(workload), random.Random(5), of_moments(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for _ in range(12):
        schedule = space.schedule(space.sample(rng))
        assert relative_error(run_native(workload, schedule, operands), expected) < 1e-5
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5


@pytest.mark.parametrize("far", [1.0, 1e3, 1e6])
def test_first_elements_that_are_far_from_all_others_cost_five_bits(far: float) -> None:
    """The worst case: the shift is as far from the mean as a 32nd of the data can be."""
    workload = layer_norm(3, LONG)
    operands = random_operands(workload)
    operands["x0"][:, :64] = far
    expected = reference_outputs(workload, operands)["y0"]
    space = of_moments(workload)
    got = run_native(workload, space.schedule(space.default), operands)
    assert relative_error(got, expected) < 5e-6


def test_a_mean_that_is_large_beside_the_deviation_costs_nothing() -> None:
    workload = layer_norm(3, LONG)
    operands = random_operands(workload)
    operands["x0"] += 1e4
    space = build_space(workload, native_target(), 1)
    expected = reference_outputs(workload, operands)["y0"]
    errors = {
        name: relative_error(run_native(workload, schedule, operands), expected)
        for name in ("direct", "moments")
        for schedule in (space.build({**space.values(space.default), "algorithm": name}),)
    }
    assert errors["moments"] <= 1.5 * errors["direct"]


def test_constant_rows_and_what_is_no_number_stay_what_they_are() -> None:
    workload = layer_norm(4, LONG)
    operands = random_operands(workload)
    operands["x0"][0] = 3.7
    operands["x0"][1, 1000] = np.inf
    operands["x0"][2, 3] = np.nan
    space = of_moments(workload)
    got = run_native(workload, space.schedule(space.default), operands)
    assert np.abs(got[0]).max() < 1e-3
    assert np.isnan(got[1:3]).all()
    assert np.isfinite(got[3]).all()


def loaded(stmt: Stmt) -> list[Load]:
    return [load for s in walk_statements(stmt) if isinstance(s, Store) for load in loads(s.value)]


def test_both_sums_take_each_vector_once() -> None:
    workload = layer_norm(5, LONG)
    space = build_space(workload, V4, 1)
    assert space.values(space.default)["algorithm"] == "moments"
    nest = build_nest(workload, space.schedule(space.default))
    loops = [s for s in walk_statements(nest.body) if isinstance(s, For) and s.kind is LoopKind.SERIAL]
    inner = [{load.buffer for load in loaded(loop)} for loop in loops if loop.extent.limit == LONG // 64]
    assert any({"x0", "t0.s1.i", "variance.squares_buffer.s1.i"} <= read for read in inner)


def test_short_rows_and_stages_on_all_threads_take_the_direct_form() -> None:
    short = build_space(layer_norm(64, 256), V4, 1)
    assert short.values(short.default)["algorithm"] == "direct"
    apart = build_space(layer_norm(1, 1 << 18), V4, 4)
    values = apart.values(apart.default)
    assert (values["phases"], values["algorithm"]) == ("apart", "direct")
    assert not apart.legal({**values, "algorithm": "moments"})


def without_mean(rows: int, columns: int, share: float) -> Workload:
    """As a layer norm, with another number in place of one over the columns."""
    norm = layer_norm(rows, columns)
    mean = replace(norm.stages[1], body=apply("mul", Load("t0", at("s0")), Const(share)))
    return replace(norm, stages=(norm.stages[0], mean, *norm.stages[2:]))


@pytest.mark.parametrize(
    ("workload", "parameters"),
    [
        pytest.param(softmax(4, 96), (3,), id="no variance"),
        pytest.param(without_mean(4, 96, 1 / 95), (3,), id="no mean"),
        pytest.param(layer_norm(4, 96), (2,), id="less than a 32nd"),
        pytest.param(layer_norm(4, 96), (97,), id="more than there is"),
        pytest.param(layer_norm(4, 96), (0,), id="none"),
        pytest.param(layer_norm(4, 96), (3, 1), id="more axes than there are"),
    ],
)
def test_what_it_does_not_apply_to_is_refused(workload: Workload, parameters: tuple[int, ...]) -> None:
    with pytest.raises(ScheduleError, match="moments needs"):
        moments(workload, parameters)
