"""Blocks transposed in registers: whole vectors are read, and every element arrives at its place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.codegen.texts import nest_ir
from compiler.index import Index
from compiler.pipeline import build_nest
from compiler.scalar import Bound, Const, Guard, Load
from compiler.space.rules import build_space
from compiler.space.space import number
from compiler.target import LINE_BYTES, PRESETS, native_target
from tests.compiler.execute import run_native
from tests.compiler.workloads import mapped, operand, random_operands, transpose
from tests.slow import THREADS


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(16, 16), (10, 23), (33, 17), (64, 3), (3, 64), (50, 40), (70, 8), (70, 12), (8, 70)],
)
@pytest.mark.parametrize("threads", THREADS)
def test_every_assignment_moves_every_element(rows: int, columns: int, threads: int) -> None:
    workload = transpose(rows, columns)
    operands = random_operands(workload)
    space = build_space(workload, native_target(), threads)
    for assignment in space.enumerate(100):
        got = run_native(workload, space.schedule(assignment), operands, threads)
        np.testing.assert_array_equal(got, operands["x0"].T, str(space.values(assignment)))


@pytest.mark.parametrize("columns", [64, 8, 4])
@pytest.mark.parametrize("target", sorted(t.name for t in PRESETS.values() if t.vector_bytes > 4))
def test_the_default_reads_whole_vectors(target: str, columns: int) -> None:
    """With fewer lanes where rows of the input are shorter than a vector."""
    workload = transpose(64, columns)
    space = build_space(workload, PRESETS[target], 1)
    ir = nest_ir(build_nest(workload, space.schedule(space.default)), PRESETS[target])
    assert "shufflevector" in ir
    assert "insertelement" not in ir


def test_a_guarded_block_is_read_only_where_no_guard_can_fail() -> None:
    row = Index.of("s0") - 3
    body = Guard((Bound(row, 0, 17),), Load("x0", (Index.of("s1"), row)), Const(0.0))
    workload = mapped(body, (23, 20), (operand("x0", 20, 17),))
    operands = random_operands(workload)
    space = build_space(workload, native_target(), 1)
    for assignment in space.enumerate(100):
        schedule = space.schedule(assignment)
        got = run_native(workload, schedule, operands)
        np.testing.assert_array_equal(got, np.pad(operands["x0"].T, ((3, 3), (0, 0))))


@pytest.mark.skipif(native_target().instruction_set != "x86_64", reason="runs the code of an x86 CPU")
@pytest.mark.parametrize(("rows", "columns"), [(768, 512), (50, 70), (16, 8), (64, 15)])
def test_a_block_has_whole_lines_where_vectors_are_shorter(rows: int, columns: int) -> None:
    workload, v3 = transpose(rows, columns), PRESETS["x86-64-v3"]
    space = build_space(workload, v3, 1)
    assert space.values(space.default)["columns"] == LINE_BYTES // 4
    operands = random_operands(workload)
    got = run_native(workload, space.schedule(space.default), operands, target=v3)
    np.testing.assert_array_equal(got, operands["x0"].T)


@pytest.mark.parametrize(("rows", "columns"), [(768, 512), (600, 1000), (3000, 70)])
def test_blocks_follow_the_lines_that_they_read_where_data_is_far(rows: int, columns: int) -> None:
    workload, target = transpose(rows, columns), replace(native_target(), l2_bytes=256 << 10)
    near, far = (build_space(w, target, 1) for w in (transpose(96, 96), workload))
    assert near.values(near.default)["blocks"] == 1
    assert number(far.values(far.default), "blocks") > 1
    operands = random_operands(workload)
    for threads in (1, 2):
        space = build_space(workload, target, threads)
        got = run_native(workload, space.schedule(space.default), operands, threads)
        np.testing.assert_array_equal(got, operands["x0"].T)


def test_what_is_not_transposed_has_no_blocks() -> None:
    space = build_space(transpose(768, 512), native_target(), 1)
    tried = [space.values(a) for a in space.enumerate(100)]
    assert {v["blocks"] for v in tried if v["columns"] == 1} == {1}
    assert {v["blocks"] for v in tried if v["columns"] != 1} > {1}
