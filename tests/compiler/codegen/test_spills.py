"""Tiles that fit the registers stay there, however long the code of a tile is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.codegen.texts import nest_assembly
from compiler.pipeline import build_nest
from compiler.target import PRESETS, Target
from tests.compiler.loop.test_fold import tiled
from tests.compiler.workloads import matmul

V3, V4, NEON = (PRESETS[name] for name in ("x86-64-v3", "x86-64-v4", "aarch64-neoverse-n1"))
ZEN4 = replace(V4, cpu="znver4")


@pytest.mark.parametrize(
    ("target", "rows", "vectors", "stack"),
    [(V4, 8, 3, "rsp"), (ZEN4, 10, 2, "rsp"), (V3, 4, 3, "rsp"), (NEON, 8, 2, "[sp")],
    ids=["v4", "Zen 4", "v3", "aarch64"],
)
def test_a_long_body_keeps_its_sums_in_registers(target: Target, rows: int, vectors: int, stack: str) -> None:
    """LLVM's scheduler moved loads up for Zen 4, and every second multiply-add had a spilled value."""
    workload = matmul(8 * rows, 256, 16 * vectors * 6)
    schedule = tiled(workload, rows, vectors, target, unroll=8 if rows * vectors > 20 else 16)
    lines = nest_assembly(build_nest(workload, schedule), target).splitlines()
    multiply_adds = sum("fmadd" in line or "fmla" in line for line in lines)
    assert multiply_adds >= 8 * rows * vectors
    moved = [line for line in lines if stack in line and ("mm" in line or "\tq" in line)]
    assert 20 * len(moved) < multiply_adds, moved[:3]
