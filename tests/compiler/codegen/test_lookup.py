"""The code of gathers: how often an index is read, and that nothing is read outside of a buffer."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.codegen.texts import nest_ir
from compiler.dtype import DType
from compiler.elementary import place
from compiler.index import Index
from compiler.pipeline import build_nest
from compiler.scalar import Load
from compiler.space.rules import build_space
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Workload
from tests.compiler.execute import run_native
from tests.compiler.workloads import gather_elements, integers, looked_up, mapped, operand


def rows(count: int, columns: int, dtype: DType = DType.I64) -> Workload:
    body = looked_up("v0", 31, Load("x0", (Index.of("s0"),)), lambda v: Load("x1", (v, Index.of("s1"))))
    return mapped(body, (count, columns), (integers("x0", count, dtype=dtype), operand("x1", 31, columns)))


@pytest.mark.parametrize(
    "target", sorted(name for name, target in PRESETS.items() if not target.grid_threads)
)
def test_an_index_is_read_once_for_the_vectors_of_a_copy(target: str) -> None:
    workload = rows(4, 8 * PRESETS[target].lanes(4))
    space = build_space(workload, PRESETS[target], 1)
    assert space.values(space.default)["unroll"] == 8
    ir = nest_ir(build_nest(workload, space.schedule(space.default)), PRESETS[target])
    assert ir.count("load i64") == 1
    assert ir.count(f"load <{PRESETS[target].lanes(4)} x float>") == 8
    assert "insertelement" not in ir


def test_lanes_with_an_index_each_read_their_indices_as_a_vector() -> None:
    workload, target = gather_elements(6, 64), PRESETS["x86-64-v3"]
    space = build_space(workload, target, 1)
    assert space.values(space.default)["unroll"] == 1
    ir = nest_ir(build_nest(workload, space.schedule(space.default)), target)
    assert ir.count("load <8 x i32>") == 1
    assert ir.count("load float") == 8


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I16, DType.I32, DType.I64])
def test_any_index_of_any_type_reads_inside_of_the_buffer(dtype: DType) -> None:
    low, high = dtype.limits
    indices = np.array([low, high, 0, 30, 31, min(high, 2**31), max(low, -31), max(low, -32), 7]).astype(
        dtype.numpy
    )
    workload = rows(len(indices), 37, dtype)
    table = np.random.default_rng(0).standard_normal((31, 37)).astype(np.float32)
    space = build_space(workload, native_target(), 1)
    for assignment in space.enumerate(20):
        got = run_native(workload, space.schedule(assignment), {"x0": indices, "x1": table})
        np.testing.assert_array_equal(got, table[place(indices, 31)])
