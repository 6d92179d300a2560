"""Conversions between element types, whole vectors and short ones at the edge, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.choice import default_schedule
from compiler.codegen.llvm import emit_assembly
from compiler.codegen.texts import nest_ir
from compiler.dtype import TENSOR_TYPES, DType
from compiler.evaluate import reference_outputs
from compiler.pipeline import build_nest
from compiler.scalar import Cast, Const, Load, apply
from compiler.symbol import axis
from compiler.target import PRESETS, native_target
from compiler.workload.ir import Operand, Stage, Workload
from tests.compiler.execute import run_interpreted, run_native
from tests.compiler.workloads import at

USUAL = [
    DType.F32,
    DType.F64,
    DType.F16,
    DType.BF16,
    DType.I8,
    DType.U8,
    DType.I32,
    DType.U32,
    DType.I64,
    DType.BOOL,
]
PAIRS = [(a, b) for a in USUAL for b in USUAL if a is not b]
PAIRS += [
    (a, b) for a in TENSOR_TYPES if a not in USUAL for b in (DType.F32, DType.I64, DType.U4) if a is not b
]
PAIRS += [
    (b, a) for a in TENSOR_TYPES if a not in USUAL for b in (DType.F32, DType.I64, DType.F8E5M2) if a is not b
]


def converted(before: DType, after: DType, rows: int = 2, columns: int = 37) -> Workload:
    names = at("s0", "s1")
    axes = (axis("s0", rows), axis("s1", columns))
    stage = Stage("map", axes, (), None, Cast(Load("x0", names), after), "y0", names, after)
    operands = (Operand("x0", at(rows, columns), before),)
    return Workload(operands, (), (Operand("y0", at(rows, columns), after),), (stage,))


def values(dtype: DType, after: DType, size: int) -> np.ndarray:
    """Numbers that both types have room for; ties and the ends of the range among them."""
    rng = np.random.default_rng(size)
    if dtype.is_float:
        low, high = (-100, 100) if after.is_signed else (0, 100)
        return (rng.integers(low * 4, high * 4, size) / 4).astype(dtype.numpy)
    low, high = dtype.limits
    found = rng.integers(max(low, -(2**30)), min(high, 2**30), size, endpoint=True)
    found[:2] = max(low, -(2**30)), min(high, 2**30)
    return found.astype(dtype.numpy)


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=[f"{a.value}-{b.value}" for a, b in PAIRS])
def test_a_cast_gives_what_numpy_gives(before: DType, after: DType) -> None:
    workload = converted(before, after)
    operands = {"x0": values(before, after, 2 * 37).reshape(2, 37)}
    with np.errstate(all="ignore"):
        # By way of float64, which has all these values: NumPy does not convert what it does not know to each other.
        foreign = any(kind.numpy.kind == "V" or kind.is_narrow_float for kind in (before, after))
        source = operands["x0"].astype(np.float64) if foreign else operands["x0"]
        expected = source.astype(after.numpy)
    plan = default_schedule(workload, native_target(), 1)
    for got in (run_native(workload, plan, operands), run_interpreted(workload, plan, operands)):
        assert got.dtype == after.numpy
        np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


def test_bf16_rounds_half_to_even_and_keeps_what_is_no_number() -> None:
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F800000, 0x7F800001, 0x7F7FFFFF], np.uint32)
    operands = {"x0": np.tile(bits.view(np.float32), 6)[:33].reshape(1, 33)}
    workload = converted(DType.F32, DType.BF16, 1, 33)
    got = run_native(workload, default_schedule(workload, native_target(), 1), operands)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            got.astype(np.float32), operands["x0"].astype(DType.BF16.numpy).astype(np.float32)
        )


def requantised(rows: int, columns: int) -> Workload:
    names = at("s0", "s1")
    axes = (axis("s0", rows), axis("s1", columns))
    scaled = apply("round", apply("mul", Cast(Load("x0", names), DType.F32), Const(0.25)))
    clamped = apply("min", apply("max", scaled, Const(0.0)), Const(255.0))
    stage = Stage("map", axes, (), None, Cast(clamped, DType.U8), "y0", names, DType.U8)
    operands = (Operand("x0", at(rows, columns), DType.I8),)
    return Workload(operands, (), (Operand("y0", at(rows, columns), DType.U8),), (stage,))


@pytest.mark.parametrize("columns", [1, 5, 31, 32, 45, 64])
def test_bytes_at_the_edge_of_a_row(columns: int) -> None:
    workload = requantised(3, columns)
    operands = {"x0": np.random.default_rng(0).integers(-128, 128, (3, columns)).astype(np.int8)}
    expected = reference_outputs(workload, operands)["y0"]
    plan = default_schedule(workload, native_target(), 1)
    np.testing.assert_array_equal(run_native(workload, plan, operands), expected)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_vectors_of_bytes_are_never_taken_apart(target: str) -> None:
    workload = requantised(3, 45)
    nest = build_nest(workload, default_schedule(workload, PRESETS[target], 1))
    ir = nest_ir(nest, PRESETS[target])
    assert ("llvm.masked" in ir) == (target == "x86-64-v4")
    assembly = emit_assembly(ir, PRESETS[target])
    single = [line for line in assembly.splitlines() if "pextrb" in line or "pinsrb" in line]
    assert len(single) <= 4 * 3
