"""Workloads of small whole numbers that the tests of instructions share."""

from __future__ import annotations

import numpy as np

from compiler.dtype import DType
from compiler.index import Index
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, apply
from compiler.symbol import axis
from compiler.workload.ir import Operand, Stage, Workload
from tests.compiler.workloads import at

SAFE = 64
"""Weights up to it never saturate a sum of two products in 16 bits."""


def integer_matmul(
    m: int, n: int, k: int, *, data: DType = DType.U8, weights: DType = DType.I8, bound: int | None = None
) -> Workload:
    """y0[m, n] = saturate(round(sum x0[m, k] * c0[k, n] / 1024)), exact in f32."""
    operands = (
        Operand("x0", at(m, k), data),
        Operand("c0", at(k, n), weights, constant=True, bound=bound),
    )
    return _anchored((m, n), (k,), Load("x0", at("s0", "r0")), Load("c0", at("r0", "s1")), operands)


def integer_convolution(size: int, ic: int, oc: int, *, zero: int = 0, bound: int | None = None) -> Workload:
    """3x3, channels last, padded with the zero point by a guard."""
    row, column = Index.of("s0") + "r0" - 1, Index.of("s1") + "r1" - 1
    bounds = (Bound(row, 0, size), Bound(column, 0, size))
    data = Guard(bounds, Load("x0", (row, column, Index.of("r2"))), Const(zero, DType.U8))
    operands = (
        Operand("x0", at(size, size, ic), DType.U8),
        Operand("c0", at(oc, ic, 3, 3), DType.I8, constant=True, bound=bound),
    )
    return _anchored((size, size, oc), (3, 3, ic), data, Load("c0", at("s2", "r2", "r0", "r1")), operands)


def integer_groups(size: int, groups: int, per_group: int) -> Workload:
    """3x3, channels last, with an axis for the groups."""
    channel = Index.of("s2") * per_group
    data = Load("x0", (Index.of("s0") + "r0", Index.of("s1") + "r1", channel + "r2"))
    weights = Load("c0", (channel + "s3", *at("r2", "r0", "r1")))
    operands = (
        Operand("x0", at(size + 2, size + 2, groups * per_group), DType.U8),
        Operand("c0", at(groups * per_group, per_group, 3, 3), DType.I8, constant=True),
    )
    return _anchored((size, size, groups, per_group), (3, 3, per_group), data, weights, operands)


def bf16_matmul(m: int, n: int, k: int) -> Workload:
    """Products and sums in f32 of operands that are stored in 16 bits."""
    operands = (Operand("x0", at(m, k), DType.BF16), Operand("c0", at(k, n), DType.BF16, constant=True))
    body = apply(
        "mul", Cast(Load("x0", at("s0", "r0")), DType.F32), Cast(Load("c0", at("r0", "s1")), DType.F32)
    )
    axes, reduces = (axis("s0", m), axis("s1", n)), (axis("r0", k),)
    names = at("s0", "s1")
    anchor = Stage("anchor", axes, reduces, "sum", body, "t0", names, DType.F32)
    store = Stage("epilogue", axes, (), None, Load("t0", names), "y0", names, DType.F32)
    outputs = (Operand("y0", at(m, n), DType.F32),)
    return Workload(operands, (Operand("t0", at(m, n), DType.F32),), outputs, (anchor, store))


def _anchored(
    sizes: tuple[int, ...], reduces: tuple[int, ...], data: Expr, weights: Expr, operands: tuple[Operand, ...]
) -> Workload:
    axes = tuple(axis(f"s{i}", n) for i, n in enumerate(sizes))
    inner = tuple(axis(f"r{i}", n) for i, n in enumerate(reduces))
    names = at(*(a.name for a in axes))
    body = apply("mul", Cast(data, DType.I32), Cast(weights, DType.I32))
    anchor = Stage("anchor", axes, inner, "sum", body, "t0", names, DType.I32)
    scaled = apply("round", apply("mul", Cast(Load("t0", names), DType.F32), Const(2.0**-10)))
    clamped = apply("min", apply("max", scaled, Const(-128.0)), Const(127.0))
    store = Stage("epilogue", axes, (), None, Cast(clamped, DType.I8), "y0", names, DType.I8)
    outputs = (Operand("y0", at(*sizes), DType.I8),)
    return Workload(operands, (Operand("t0", at(*sizes), DType.I32),), outputs, (anchor, store))


def full_range(workload: Workload, seed: int = 0) -> dict[str, np.ndarray]:
    """Operands over all values of their types (or bounds), the extremes more often than by chance."""
    rng = np.random.default_rng(seed)
    found = {}
    for operand in workload.operands:
        if operand.dtype.is_float:
            found[operand.name] = rng.standard_normal(operand.sizes).astype(operand.dtype.numpy)
            continue
        low, high = operand.dtype.limits
        if operand.bound is not None:
            low, high = max(low, -operand.bound), min(high, operand.bound)
        values = rng.integers(low, high, operand.sizes, endpoint=True)
        extreme = rng.random(operand.sizes)
        values = np.where(extreme < 0.1, low, np.where(extreme > 0.9, high, values))
        found[operand.name] = values.astype(operand.dtype.numpy)
    return found
