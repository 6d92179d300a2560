"""Floats in two parts: an equivalent Workload within its error, right machine code, infinities and NaN kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

import ml_dtypes
import numpy as np
import pytest

from compiler.codegen.kernel import kernels_from_json, kernels_json
from compiler.dtype import DType
from compiler.elementary import LARGEST_BF16
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.index import ZERO, Index
from compiler.instruction import INSTRUCTIONS
from compiler.packing import Parts
from compiler.pipeline import build_kernel, build_nest
from compiler.scalar import Cast, Expr, Load, apply, rewrite
from compiler.schedule.contraction import find_contraction, group_axis
from compiler.schedule.copied_data import LINES
from compiler.schedule.parts import COLUMNS, JOINED, PATCHES, parts
from compiler.schedule.schedule import Schedule
from compiler.space.part_phases import ERROR, part_phases
from compiler.space.rules import build_space
from compiler.space.space import SearchSpace
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Operand, Workload
from tests.compiler.drawn import drawn
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.schedule.test_matrices import WITH_MATRICES
from tests.compiler.workloads import (
    at,
    convolution,
    embedding,
    grouped,
    grouped_apart,
    mapped,
    matmul,
    operand,
    padded_convolution,
    random_operands,
    windowed,
    with_second_output,
)
from tests.slow import every


def knob_choices(space: SearchSpace, name: str) -> list[int]:
    return [int(str(choice)) for knob in space.knobs if knob.name == name for choice in knob.choices]


def with_residual(workload: Workload) -> Workload:
    """The data of a convolution of one image size added to its result."""
    anchor, epilogue = workload.stages
    added = apply("add", epilogue.body, Load("x0", epilogue.target_indices))
    return replace(workload, stages=(anchor, replace(epilogue, body=added)))


def with_units(workload: Workload) -> Workload:
    """The same with two dimensions of one element at the end of everything, as a convolution of one pixel has."""

    def operands(some: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(replace(o, shape=(*o.shape, Index.of(1), Index.of(1))) for o in some)

    def rule(e: Expr) -> Expr | None:
        return replace(e, indices=(*e.indices, ZERO, ZERO)) if isinstance(e, Load) else None

    stages = (stage.rewritten(lambda body: rewrite(body, rule)) for stage in workload.stages)
    return replace(
        workload,
        operands=operands(workload.operands),
        temporaries=operands(workload.temporaries),
        outputs=operands(workload.outputs),
        stages=tuple(replace(s, target_indices=(*s.target_indices, ZERO, ZERO)) for s in stages),
    )


WORKLOADS: dict[str, Workload] = {
    "product": matmul(37, 40, 64),
    "product of what has dimensions of one element": with_units(matmul(37, 40, 64)),
    "a sum that is filled up": matmul(19, 33, 75),
    "few products": matmul(6, 16, 12),
    "windows": convolution(8, 16, 20, 3),
    "windows with padding": padded_convolution(7, 8, 24, 3),
    "windows with a stride": padded_convolution(9, 32, 17, 3, 2),
}
FORMS: dict[str, tuple[Workload, tuple[int, ...]]] = {
    "lines": (convolution(5, 8, 10, 3), (LINES,)),
    "lines with padding": (padded_convolution(5, 10, 12, 3), (LINES,)),
    "lines with a stride": (padded_convolution(9, 8, 9, 3, 2), (LINES,)),
    "lines with a long stride": (padded_convolution(13, 5, 9, 5, 3), (LINES,)),
    "lines without windows": (convolution(6, 48, 33, 1), (LINES,)),
    "lines with a stride, without windows": (padded_convolution(13, 48, 16, 1, 2), (LINES,)),
    "few channels": (convolution(6, 3, 9, 3), (JOINED,)),
    "few channels with padding": (padded_convolution(11, 3, 17, 5, 2), (JOINED,)),
    "more channels than a matrix is deep, joined": (padded_convolution(4, 23, 9, 3), (JOINED,)),
    "few channels, which the map reads too": (with_residual(padded_convolution(8, 5, 5, 3)), (JOINED,)),
    "patches": (embedding(6, 3, 17, 4), (PATCHES,)),
    "patches of no power of two": (embedding(5, 3, 9, 7), (PATCHES,)),
    "patches, channels last": (convolution(5, 6, 20, 2, 2), (PATCHES,)),
    "patches with gaps, in three dimensions": (windowed((3, 4, 5), 3, 9, (2, 1, 2), stride=3), (PATCHES,)),
    "columns": (convolution(6, 3, 9, 3), (COLUMNS,)),
    "columns with padding": (padded_convolution(11, 3, 17, 5, 2), (COLUMNS,)),
    "columns longer than a vector": (padded_convolution(5, 23, 9, 3), (COLUMNS,)),
    "columns of an image by channels": (embedding(6, 3, 17, 4, stride=2), (COLUMNS,)),
    "columns in three dimensions": (windowed((3, 4, 5), 3, 9, (2, 3, 2)), (COLUMNS,)),
    "columns of groups": (grouped_apart(7, 3, 5, 9), (COLUMNS,)),
    "columns of several images' groups": (grouped_apart(5, 2, 4, 17, images=2), (COLUMNS,)),
    "columns of what the map reads too": (with_residual(padded_convolution(8, 5, 5, 3)), (COLUMNS,)),
}
"""Workloads, and the form of their parts."""
AVAILABLE = INSTRUCTIONS["tdpbf16ps"].runs_on(native_target())
NEEDS = pytest.mark.skipif(not AVAILABLE, reason="this CPU lacks one of amx-tile, amx-bf16")


def in_parts(space: SearchSpace, count: int) -> list[Schedule]:
    """The best of them without measuring, and random ones."""
    own = [a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == "parts"]
    more = drawn(space, random.Random(count), algorithm="parts")
    return [space.schedule(a) for a in islice(chain(own, more), count)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_interpreter_agrees(name: str) -> None:
    workload = WORKLOADS[name]
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
    assert relative_error(run_interpreted(workload, plan, operands), expected) < ERROR


@NEEDS
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", WORKLOADS)
def test_machine_code_agrees(name: str, threads: int) -> None:
    workload = WORKLOADS[name]
    operands = random_operands(workload, threads)
    expected = reference_outputs(workload, operands)["y0"]
    for plan in in_parts(build_space(workload, WITH_MATRICES, threads), 4):
        assert relative_error(run_native(workload, plan, operands, threads=threads), expected) < ERROR


def formed(monkeypatch: pytest.MonkeyPatch, form: tuple[int, ...]) -> None:
    monkeypatch.setattr("compiler.space.part_phases.FORMS", (form,))


@pytest.mark.parametrize("name", every(3, FORMS))
def test_the_interpreter_agrees_in_each_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, form = FORMS[name]
    formed(monkeypatch, form)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
    assert plan.steps[0].parameters[1:2] == form
    assert relative_error(run_interpreted(workload, plan, operands), expected) < ERROR


@NEEDS
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", FORMS)
def test_machine_code_agrees_in_each_form(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    workload, form = FORMS[name]
    formed(monkeypatch, form)
    operands = random_operands(workload, threads)
    expected = reference_outputs(workload, operands)["y0"]
    for plan in in_parts(build_space(workload, WITH_MATRICES, threads), 5):
        assert relative_error(run_native(workload, plan, operands, threads=threads), expected) < ERROR


def test_the_form_follows_the_shape() -> None:
    chosen = {
        "few channels": part_phases(padded_convolution(112, 3, 64, 7, 2), WITH_MATRICES),
        "few places": part_phases(padded_convolution(7, 256, 256, 3), WITH_MATRICES),
        "neither": part_phases(padded_convolution(32, 64, 64, 3), WITH_MATRICES),
        "patches": part_phases(embedding(32, 3, 192, 8), WITH_MATRICES),
        "patches of few elements": part_phases(embedding(56, 3, 96, 4), WITH_MATRICES),
        "few channels, few results": part_phases(padded_convolution(72, 3, 27, 3), WITH_MATRICES),
    }
    forms = {name: None if phases is None else phases.form for name, phases in chosen.items()}
    assert forms == {
        "few channels": (JOINED,),
        "few places": (LINES,),
        "neither": (),
        "patches": (PATCHES,),
        "patches of few elements": (PATCHES,),
        "few channels, few results": (COLUMNS,),
    }


def test_forms_that_do_not_apply_are_refused() -> None:
    with pytest.raises(ScheduleError, match="no windows that move by one place"):
        parts(matmul(8, 16, 32), (32, LINES))
    with pytest.raises(ScheduleError, match="no window whose places lie one after the other"):
        parts(matmul(8, 16, 32), (32, JOINED))
    for other in (matmul(8, 16, 32), convolution(5, 8, 9, 3), padded_convolution(8, 4, 9, 2, 2)):
        with pytest.raises(ScheduleError, match="no windows that lie side by side"):
            parts(other, (32, PATCHES))
    for other in (matmul(8, 16, 32), convolution(5, 8, 9, 1), embedding(6, 3, 17, 4), grouped(5, 2, 8, 8)):
        with pytest.raises(ScheduleError, match="no windows of several lines"):
            parts(other, (32, COLUMNS, 1))
    for parameters in ((32, 7), (32, JOINED, 1), (32, COLUMNS, 0), (32, COLUMNS, 1, 1), (), (0,)):
        with pytest.raises(ScheduleError, match="one of the forms"):
            parts(convolution(5, 8, 9, 3), parameters)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, np.finfo(np.float32).max, -3.4e38])
def test_what_is_not_finite_stays_what_it_is(value: float) -> None:
    workload = matmul(5, 17, 32)
    operands = {name: np.abs(array) for name, array in random_operands(workload).items()}
    operands["x0"][2, 7] = value
    operands["c0"] *= np.float32(1e-3)
    expected = reference_outputs(workload, operands)["y0"].astype(np.float32)
    (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
    runs = [run_interpreted(workload, plan, operands)]
    if AVAILABLE:
        runs.append(run_native(workload, plan, operands))
    for got in runs:
        np.testing.assert_allclose(got, expected, rtol=1e-4)


def test_both_parts_are_as_near_as_bf16_comes() -> None:
    numbers = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    made = Parts(2).rows(numbers).astype(np.float64)
    assert made.shape == (50, 3, 2)
    assert np.all(np.abs(made.sum(-1) - numbers) <= 2.0**-17 * np.abs(numbers))


def test_it_is_the_default_where_it_is_much_faster() -> None:
    space = build_space(matmul(256, 256, 256), WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == "parts"
    careful = space.within(ERROR / 2)
    assert careful.values(careful.default)["algorithm"] == "direct"


def test_it_is_not_where_it_is_a_little_faster() -> None:
    """Windows of three channels: a matrix is half empty, and another hardware thread may want the unit."""
    space = build_space(convolution(72, 3, 27, 3), WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == "direct"
    assert "parts" in {space.values(a)["algorithm"] for a in space.starts}


@pytest.mark.parametrize("rows", [64, 65, 73, 80, 96])
def test_a_tile_has_no_more_rows_than_its_map_may_unroll(rows: int) -> None:
    # Registers would hold all of them, of one vector.
    space = build_space(matmul(rows, 512, 512), WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == "parts"
    assert max(knob_choices(space, "rows")) <= 64
    build_nest(matmul(rows, 512, 512), space.schedule(space.default))


def test_a_bounded_function_of_the_sums_takes_the_direct_form_by_default() -> None:
    workload = with_second_output(matmul(256, 256, 256), lambda value: apply("tanh", value))
    space = build_space(workload, WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == "direct"
    gated = with_second_output(
        matmul(256, 256, 256), lambda value: apply("mul", value, apply("sigmoid", value))
    )
    space = build_space(gated, WITH_MATRICES, 1)
    assert space.values(space.default)["algorithm"] == "parts"


def test_there_is_none_without_matrices() -> None:
    assert part_phases(matmul(64, 64, 64), PRESETS["x86-64-v4"]) is None
    without = replace(WITH_MATRICES, features=tuple(f for f in WITH_MATRICES.features if f != "amx-bf16"))
    assert part_phases(matmul(64, 64, 64), without) is None


def test_a_product_without_a_constant_is_refused() -> None:
    with pytest.raises(ScheduleError, match="needs a sum of products with a constant"):
        parts(matmul(8, 16, 32, constant=False), (32,))


def test_blocks_of_a_sum_count_as_its_groups() -> None:
    made = parts(matmul(8, 16, 96), (32,))
    stage = made.stages[1]
    found = find_contraction(made, stage)
    assert found is not None
    axis = group_axis(stage, found, 2)
    assert axis is not None
    assert axis.size == 32
    assert group_axis(stage, found, 3) is None


def test_how_a_constant_is_packed_survives_json() -> None:
    workload = matmul(37, 40, 64)
    (plan,) = in_parts(build_space(workload, WITH_MATRICES, 1), 1)
    kernel = build_kernel(workload, plan, WITH_MATRICES)
    assert kernels_from_json(*kernels_json([kernel])) == [kernel]


FAR = matmul(4100, 120, 64)
"""Both parts of its data are more than half of a second cache."""


def test_parts_of_much_data_are_made_for_blocks_of_rows() -> None:
    space = build_space(FAR, WITH_MATRICES, 1)
    values = space.values(space.default)
    assert (values["algorithm"], values["made"]) == ("parts", "inside")
    assert not space.legal({**values, "order": "outside"})
    near = build_space(matmul(64, 120, 64), WITH_MATRICES, 1)
    assert near.values(near.default)["made"] == "first"


@NEEDS
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_of_rows_agree(threads: int) -> None:
    space = build_space(FAR, WITH_MATRICES, threads)
    operands = random_operands(FAR)
    expected = reference_outputs(FAR, operands)["y0"]
    usual = {**space.values(space.default), "parallel": 1, "made": "inside"}
    for order in ("block4", "block28", "inside"):
        plan = space.build({**usual, "order": order})
        assert relative_error(run_native(FAR, plan, operands, threads=threads), expected) < ERROR


@NEEDS
@pytest.mark.parametrize("order", ["block1", "block4", "inside"])
def test_blocks_of_an_image_agree(order: str) -> None:
    workload = convolution(40, 64, 48, 1)
    space = build_space(workload, WITH_MATRICES, 1)
    plan = next(a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == "parts")
    usual = {**space.values(plan), "made": "inside", "order": order}
    assert space.legal(usual)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_native(workload, space.build(usual), operands), expected) < ERROR


SMALL = replace(WITH_MATRICES, l2_bytes=16 * 1024)
"""A CPU whose second cache holds neither side of a product that an interpreter takes no time for."""


def blocked(workload: Workload, threads: int) -> Iterator[Schedule]:
    """Schedules in which the sum is cut into blocks."""
    space = build_space(workload, SMALL, threads)
    plan = next(a for a in (space.default, *space.starts) if space.values(a)["algorithm"] == "parts")
    usual = {**space.values(plan), "order": "outside", "made": "first"}
    found = [{**usual, "rows": rows, "depth": depth} for depth in (128, 256) for rows in (16, 32)]
    yield from (space.build(values) for values in found if space.legal(values))


def test_a_long_sum_is_cut_into_blocks() -> None:
    workload = matmul(18, 17, 256)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    plans = list(blocked(workload, 1))
    assert plans
    assert relative_error(run_interpreted(workload, plans[0], operands), expected) < ERROR
    assert not [
        k for k in build_space(workload, WITH_MATRICES, 1).knobs if k.name == "depth" and 64 in k.choices
    ]


@NEEDS
@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_of_a_sum_agree(threads: int) -> None:
    workload = matmul(37, 34, 512)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    for plan in blocked(workload, threads):
        assert relative_error(run_native(workload, plan, operands, threads=threads), expected) < ERROR


@pytest.mark.parametrize(
    ("rows", "columns", "summed", "chosen"),
    [
        pytest.param(128, 768, 3072, {"depth": 1024, "order": "outside"}, id="few rows, a long sum"),
        pytest.param(1024, 1024, 1024, {"depth": 1024, "made": "first"}, id="blocks of rows"),
        pytest.param(4096, 256, 128, {"made": "inside"}, id="constants stay near"),
    ],
)
def test_what_brings_the_fewest_bytes_is_the_default(
    rows: int, columns: int, summed: int, chosen: dict[str, object]
) -> None:
    large = replace(WITH_MATRICES, l2_bytes=2 * 1024 * 1024)
    space = build_space(matmul(rows, columns, summed), large, 1)
    values = space.values(space.default)
    assert values["algorithm"] == "parts"
    assert {name: values[name] for name in chosen} == chosen


def test_windows_have_their_parts_made_first() -> None:
    space = build_space(padded_convolution(20, 64, 32, 3), WITH_MATRICES, 1)
    assert "made" not in {knob.name for knob in space.knobs}


@pytest.mark.parametrize("columns", [1, 5, 8, 16, 40])
def test_rounding_to_bf16_is_half_to_even_and_keeps_what_is_not_finite(columns: int) -> None:
    numbers = operand("x0", 3, columns)
    workload = mapped(apply("as_bf16", Load("x0", at("s0", "s1"))), (3, columns), (numbers,))
    x = random_operands(workload)["x0"]
    x.flat[:3] = 1.00390625, 1.01171875, np.nan  # halfway between two of them, of which one is even
    expected = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    space = build_space(workload, native_target(), 1)
    plan = space.schedule(space.default)
    np.testing.assert_array_equal(run_native(workload, plan, {"x0": x}), expected)
    np.testing.assert_array_equal(run_interpreted(workload, plan, {"x0": x}), expected)


@pytest.mark.parametrize("columns", [1, 5, 8, 16, 32, 40])
def test_the_larger_part_is_a_finite_number_next_to_the_float(columns: int) -> None:
    numbers = operand("x0", 3, columns)
    part = apply("finite_bf16", Load("x0", at("s0", "s1")))
    x = random_operands(mapped(part, (3, columns), (numbers,)))["x0"]
    x.flat[:3] = np.inf, -3.4e38, 1.00390625  # the last halfway between two of them
    expected = np.clip(x, -LARGEST_BF16, LARGEST_BF16).astype(ml_dtypes.bfloat16).astype(np.float32)
    expected.flat[2] = 1.0078125
    for made in (part, Cast(part, DType.BF16)):
        workload = mapped(made, (3, columns), (numbers,))
        space = build_space(workload, native_target(), 1)
        plan = space.schedule(space.default)
        for run in (run_native, run_interpreted):
            np.testing.assert_array_equal(run(workload, plan, {"x0": x}).astype(np.float32), expected)
