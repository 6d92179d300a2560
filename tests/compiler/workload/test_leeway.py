from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.scalar import Cast, Expr, Load, apply
from compiler.scalar_ops import bits_of
from compiler.symbol import axis
from compiler.workload.ir import Operand, Stage, Workload
from compiler.workload.leeway import reference_bounds
from tests.compiler.integers import full_range, integer_matmul
from tests.compiler.workloads import KINDS, at, random_operands


def test_floats_that_are_not_rounded_have_one_right_value() -> None:
    workload = KINDS["matmul"]
    operands = random_operands(workload)
    least, most = reference_bounds(workload, operands)["y0"]
    np.testing.assert_array_equal(least, most)
    np.testing.assert_array_equal(least, reference_outputs(workload, operands)["y0"])


def test_only_values_beside_a_tie_have_two() -> None:
    workload = integer_matmul(64, 96, 8)
    operands = full_range(workload)
    least, most = reference_bounds(workload, operands)["y0"]
    exact = reference_outputs(workload, operands)["y0"].astype(np.float64)
    assert (least <= exact).all()
    assert (exact <= most).all()
    assert (most - least).max() <= 1
    assert 0 < (most > least).mean() < 0.02


def test_short_floats_may_be_rounded_either_way() -> None:
    names = at("s0")
    body = Cast(Load("x0", names), DType.BF16)
    stage = Stage("map", (axis("s0", 9),), (), None, body, "y0", names, DType.BF16)
    operand, output = Operand("x0", at(9), DType.F32), Operand("y0", at(9), DType.BF16)
    operands = {"x0": np.linspace(-1, 1, 9, dtype=np.float32) * np.float32(1.001)}
    least, most = reference_bounds(Workload((operand,), (), (output,), (stage,)), operands)["y0"]
    rounded = operands["x0"].astype(DType.BF16.numpy).astype(np.float64)
    assert (least <= rounded).all()
    assert (rounded <= most).all()


@pytest.mark.parametrize(
    ("source", "twice", "taken", "target"),
    [
        (DType.F64, lambda x: apply("round", apply("add", x, x)), lambda x: Cast(x, DType.I64), DType.I64),
        (DType.F64, lambda x: apply("add", x, x), lambda x: apply(bits_of(DType.F64), x), DType.U64),
        (DType.F16, lambda x: Cast(x, DType.F16), lambda x: apply(bits_of(DType.F16), x), DType.U16),
    ],
)
def test_what_is_rounded_in_any_type_has_bounds(
    source: DType, twice: Callable[[Expr], Expr], taken: Callable[[Expr], Expr], target: DType
) -> None:
    names = at("s0")
    stage = Stage("map", (axis("s0", 9),), (), None, taken(twice(Load("x0", names))), "y0", names, target)
    operand, output = Operand("x0", at(9), source), Operand("y0", at(9), target)
    workload = Workload((operand,), (), (output,), (stage,))
    operands = {"x0": np.linspace(1, 9, 9).astype(source.numpy)}
    least, most = reference_bounds(workload, operands)["y0"]
    exact = reference_outputs(workload, operands)["y0"].astype(np.float64)
    assert (least <= exact).all()
    assert (exact <= most).all()
    assert np.isfinite(least).all()
    assert np.isfinite(most).all()
