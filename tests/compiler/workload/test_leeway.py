from __future__ import annotations

import numpy as np

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.scalar import Cast, Load
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
