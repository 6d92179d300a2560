"""Sums in several registers: which tiles have them, and that every sum is what it would be."""

from __future__ import annotations

import pytest

from compiler.codegen.llvm import emit_assembly
from compiler.codegen.nest import emit_nest
from compiler.evaluate import reference_outputs
from compiler.loop.spread import IN_FLIGHT
from compiler.pipeline import build_nest
from compiler.space.rules import build_space
from compiler.symbol import size_at
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.loop.test_fold import tiled
from tests.compiler.workloads import (
    convolution,
    matmul,
    max_pool,
    padded_convolution,
    product,
    random_operands,
)

V3 = PRESETS["x86-64-v3"]


def copies(workload: Workload, rows: int, vectors: int, unroll: int) -> list[int]:
    """Sums in place of one, of each block of statements that has several."""
    nest = build_nest(workload, tiled(workload, rows, vectors, unroll=unroll))
    return [size_at(b.shape[0], {}) for b in nest.buffers if b.name.startswith("t0.p")]


CASES = {
    "one vector": (matmul(1, 8, 64), 1, 1),
    "what is left of the loop": (matmul(3, 16, 39), 1, 2),
    "beside a fold": (matmul(2, 17, 63), 2, 3),
    "a window": (convolution(5, 12, 8, 3), 2, 1),
    "padded borders": (padded_convolution(7, 8, 16, 5), 1, 2),
    "both factors known at run time": (product(2, 3, 8, 24), 3, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_in_several_registers_are_what_they_would_be(case: str) -> None:
    workload, rows, vectors = CASES[case]
    schedule, operands = tiled(workload, rows, vectors), random_operands(workload)
    assert set(copies(workload, rows, vectors, 4)) <= {2, 4}
    assert copies(workload, rows, vectors, 4)
    expected = reference_outputs(workload, operands)["y0"]
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-5


def test_there_are_as_many_as_hide_the_latency() -> None:
    assert copies(matmul(1, 8, 64), 1, 1, 8) == [4]
    assert copies(matmul(4, 8, 64), 4, 1, 8) == [2]
    assert copies(matmul(4, 8, 64), 4, 1, 3) == []
    assert copies(matmul(IN_FLIGHT, 8, 64), IN_FLIGHT, 1, 4) == []
    assert copies(max_pool(9, 8), 2, 1, 4) == []


def test_they_are_registers() -> None:
    workload = matmul(1, 8, 512)
    nest = build_nest(workload, tiled(workload, 1, 1))
    lines = emit_assembly(emit_nest(nest, V3), V3).splitlines()
    fused = [line.split(",")[-1].strip() for line in lines if "vfmadd" in line]
    assert len(set(fused)) == 4


def test_the_default_has_them() -> None:
    workload = matmul(1, 8, 512)
    space = build_space(workload, V3, 1)
    assert any(b.name.startswith("t0.p") for b in build_nest(workload, space.schedule(space.default)).buffers)
