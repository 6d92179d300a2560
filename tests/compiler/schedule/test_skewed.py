"""Rows that begin anywhere in a line: the same sums from whole lines, whatever the length of a row."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.codegen.texts import nest_assembly
from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_nest
from compiler.scalar import Load, apply
from compiler.schedule.skewed import skewed
from compiler.space.rules import build_space
from compiler.target import PRESETS, Target, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import anchored, at, matmul, operand, random_operands, row_sum

WIDE = PRESETS["x86-64-v4"]
"""Whose vectors are as long as a line."""


def rows_of(rows: int, columns: int, reducer: str) -> Workload:
    """The result of a map of each row's elements."""
    body = apply("abs", Load("x0", at("s0", "r0")))
    return anchored((rows,), (columns,), reducer, body, (operand("x0", rows, columns),))


def algorithms(workload: Workload, target: Target = WIDE) -> tuple[object, ...]:
    space = build_space(workload, target, 1)
    return next((knob.choices for knob in space.knobs if knob.name == "algorithm"), ())


@pytest.mark.parametrize("reducer", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("columns", [33, 49, 50, 56, 100, 113])
def test_results_are_the_same(columns: int, reducer: str) -> None:
    workload = rows_of(48, columns, reducer)
    operands = random_operands(workload)
    operands["x0"] = np.sign(operands["x0"]) * (0.9 + 0.2 * np.abs(operands["x0"]) / 4).astype(np.float32)
    expected = reference_outputs(workload, operands)["y0"]
    np.testing.assert_allclose(
        reference_outputs(skewed(workload, (16,)), operands)["y0"], expected, rtol=1e-12
    )
    space = build_space(workload, WIDE, 1)
    assert space.values(space.default)["algorithm"] == "skewed"
    schedule = space.schedule(space.default)
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5
    if "avx512f" in native_target().features:
        for threads in (1, 2):
            shared = build_space(workload, WIDE, threads)
            schedule = shared.schedule(shared.default)
            got = run_native(workload, schedule, operands, threads, target=WIDE)
            assert relative_error(got, expected) < 1e-5


def test_no_vector_lies_in_two_lines() -> None:
    """All places are multiples of 64 bytes from the first row of a block, which is one as well."""
    workload = row_sum(64, 49)
    space = build_space(workload, WIDE, 1)
    nest = build_nest(workload, space.schedule(space.default))
    loaded = [line for line in nest_assembly(nest, WIDE).splitlines() if "zmm" in line and "(" in line]
    offsets = {int(match[1] or 0) for line in loaded if (match := re.search(r"(-?\d*)\(%r\w+\)", line))}
    assert len(offsets) == 49
    assert not any(offset % 64 for offset in offsets)


def test_rows_of_several_images() -> None:
    """Where each image is a number of lines; of others rows would begin as no other's do."""
    for image, offered in ((32, True), (31, False)):
        body = Load("x0", at("s0", "s1", "r0"))
        workload = anchored((3, 16), (49,), "sum", body, (operand("x0", 3, image, 49),))
        assert ("skewed" in algorithms(workload)) == offered
        values = random_operands(workload)
        space = build_space(workload, WIDE, 1)
        got = run_interpreted(workload, space.schedule(space.default), values)
        assert relative_error(got, reference_outputs(workload, values)["y0"]) < 1e-5


@pytest.mark.parametrize(
    ("workload", "target"),
    [
        pytest.param(row_sum(64, 48), WIDE, id="rows of whole vectors"),
        pytest.param(row_sum(63, 49), WIDE, id="no whole blocks"),
        pytest.param(row_sum(64, 131), WIDE, id="long rows"),
        pytest.param(row_sum(64, 24), WIDE, id="short rows"),
        pytest.param(
            row_sum(64, 49), PRESETS["x86-64-v3"], id="shorter vectors, of which few lie in two lines"
        ),
    ],
)
def test_others_are_left_as_they_are(workload: Workload, target: Target) -> None:
    assert "skewed" not in algorithms(workload, target)


def test_what_is_no_row_is_refused() -> None:
    for workload, parameters in ((row_sum(4, 49), ()), (row_sum(4, 48), (16,)), (matmul(3, 16, 5), (16,))):
        with pytest.raises(ScheduleError, match="skewed needs"):
            skewed(workload, parameters)


def test_a_schedule_of_it_has_its_blocks() -> None:
    space = build_space(row_sum(64, 49), WIDE, 1)
    values = space.values(space.default)
    with pytest.raises(ScheduleError, match="do not fit"):
        space.build({**values, "block": 8, "accumulators": 1})
