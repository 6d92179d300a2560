"""Loads whose lanes share a few neighbouring elements: one load, and the lanes picked out of it."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from compiler.codegen.texts import nest_ir
from compiler.index import Index
from compiler.pipeline import build_nest
from compiler.scalar import Bound, Const, Guard, Load, apply
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_native
from tests.compiler.workloads import at, mapped, operand, random_operands

ROWS = 5


def enlarged(width: int, factor: int) -> Workload:
    """Each element of a row `factor` times, plus a row of its own: a nearest upsampling and what follows it."""
    spread = Load("x0", (Index.of("s0"), Index.of("s1") // factor))
    body = apply("add", spread, Load("x1", at("s0", "s1")))
    columns = -(-width // factor)
    return mapped(body, (ROWS, width), (operand("x0", ROWS, columns), operand("x1", ROWS, width)))


@pytest.mark.parametrize("factor", [2, 3, 4, 7])
@pytest.mark.parametrize("width", [1, 6, 16, 37, 64, 130])
def test_elements_that_lanes_share(width: int, factor: int) -> None:
    """To the last column, where lanes are missing and the row of what is read ends."""
    workload = enlarged(width, factor)
    operands = random_operands(workload)
    expected = np.repeat(operands["x0"], factor, axis=1)[:, :width] + operands["x1"]
    space = build_space(workload, native_target(), 1)
    rng = random.Random(0)
    for assignment in {space.default, *(space.sample(rng) for _ in range(8))}:
        got = run_native(workload, space.schedule(assignment), operands)
        np.testing.assert_array_equal(got, expected, str(space.values(assignment)))


def test_a_pattern_with_a_remainder() -> None:
    """Neighbours in pairs, the two of each the other way round."""
    turned = (Index.of("s1") // 2) * 2 + (Index.of("s1") + 1) % 2
    workload = mapped(Load("x0", (Index.of("s0"), turned)), (ROWS, 48), (operand("x0", ROWS, 48),))
    operands = random_operands(workload)
    expected = operands["x0"].reshape(ROWS, 24, 2)[:, :, ::-1].reshape(ROWS, 48)
    space = build_space(workload, native_target(), 1)
    rng = random.Random(0)
    for assignment in {space.default, *(space.sample(rng) for _ in range(8))}:
        got = run_native(workload, space.schedule(assignment), operands)
        np.testing.assert_array_equal(got, expected, str(space.values(assignment)))


def test_what_a_guard_forbids_is_not_read() -> None:
    """Half of the columns lie beyond the row, for the last row beyond the buffer."""
    place = Index.of("s1") // 2
    read = Guard((Bound(place, 0, 7),), Load("x0", (Index.of("s0"), place)), Const(-1.0))
    workload = mapped(read, (ROWS, 32), (operand("x0", ROWS, 7),))
    operands = random_operands(workload)
    expected = np.pad(np.repeat(operands["x0"], 2, axis=1), ((0, 0), (0, 18)), constant_values=-1.0)
    space = build_space(workload, native_target(), 1)
    got = run_native(workload, space.schedule(space.default), operands)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("target", sorted(t.name for t in PRESETS.values() if t.vector_bytes > 4))
@pytest.mark.parametrize("factor", [2, 4])
def test_they_are_never_read_one_by_one(target: str, factor: int) -> None:
    workload = enlarged(256, factor)
    space = build_space(workload, PRESETS[target], 1)
    ir = nest_ir(build_nest(workload, space.schedule(space.default)), PRESETS[target])
    assert not re.search(r"insertelement <\d+ x float>.*, i64 [1-9]", ir)


@pytest.mark.parametrize("apart", ["rows", "columns"])
@pytest.mark.parametrize("columns", [16, 29])
def test_lanes_of_a_few_runs(apart: str, columns: int) -> None:
    """Two rows in turns, or pairs of neighbours out of many rows: each run is one load; ends have fewer lanes."""
    lane, whole = Index.of("s1"), 2 * columns
    if apart == "rows":
        shape, at_lane = (2 * ROWS, columns), (Index.of("s0") * 2 + lane % 2, lane // 2)
    else:
        shape, at_lane = (columns, 2 * ROWS), (lane // 2, Index.of("s0") * 2 + lane % 2)
    workload = mapped(Load("x0", at_lane), (ROWS, whole), (operand("x0", *shape),))
    operands = random_operands(workload)
    x = operands["x0"]
    if apart == "rows":
        expected = x.reshape(ROWS, 2, columns).transpose(0, 2, 1).reshape(ROWS, whole)
    else:
        expected = x.reshape(columns, ROWS, 2).transpose(1, 0, 2).reshape(ROWS, whole)
    space = build_space(workload, native_target(), 1)
    for assignment in {space.default, *space.starts}:
        np.testing.assert_array_equal(run_native(workload, space.schedule(assignment), operands), expected)
    wide = build_space(workload, PRESETS["x86-64-v4"], 1)
    ir = nest_ir(build_nest(workload, wide.schedule(wide.default)), PRESETS["x86-64-v4"])
    length = 8 if apart == "rows" else 2
    assert f"= load <{length} x float>" in ir


@pytest.mark.parametrize("size", [40, 44, 47])
def test_a_test_of_a_part_of_the_lanes(size: int) -> None:
    """Each lane reads what half its number says, where that is; in the last vector some lanes are outside."""
    half = Index.of("s0") * 8 + Index.of("s1") // 2
    body = Guard((Bound(half, 0, size),), Load("x0", (half,)), Const(7.0))
    workload = mapped(body, (6, 16), (operand("x0", size),))
    operands = random_operands(workload)
    padded = np.pad(operands["x0"], (0, 48 - size), constant_values=7.0)
    expected = np.repeat(padded, 2).reshape(6, 16)
    for assignment in {(space := build_space(workload, native_target(), 1)).default, *space.starts}:
        np.testing.assert_array_equal(run_native(workload, space.schedule(assignment), operands), expected)


def test_no_block_is_read_ahead_of_rows_that_end() -> None:
    """Columns that a copy fills up: every copy of the unrolled loop knows its test, and no row has 16 elements."""
    body = Guard((Bound(Index.of("s0"), 0, 13),), Load("x0", at("s1", "s0")), Const(0.0))
    workload = mapped(body, (16, 16), (operand("x0", 16, 13),))
    operands = random_operands(workload)
    space = build_space(workload, native_target(), 1)
    got = run_native(workload, space.schedule(space.default), operands)
    np.testing.assert_array_equal(got, np.pad(operands["x0"].T, ((0, 3), (0, 0))))
    wide = build_space(workload, PRESETS["x86-64-v4"], 1)
    assert "= load <16 x float>" not in nest_ir(
        build_nest(workload, wide.schedule(wide.default)), PRESETS["x86-64-v4"]
    )
