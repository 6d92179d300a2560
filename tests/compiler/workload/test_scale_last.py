"""A factor that a sum does not run over multiplies the sum."""

from __future__ import annotations

import numpy as np

from compiler.evaluate import reference_outputs
from compiler.scalar import Expr, Load, apply
from compiler.symbol import axis
from compiler.workload.ir import Stage, Workload
from compiler.workload.scale_last import scale_last
from tests.compiler.workloads import KINDS, at, operand, random_operands


def weighted(factor: Expr) -> Workload:
    """y[i, l] = sum(j) (x0[i, j] * factor) * x1[j, l]; t0[i] is the square of x2[i], u0[j] that of x3[j]."""
    i, j, k = axis("i", 3), axis("j", 5), axis("l", 4)
    squares = [
        Stage("rows", (i,), (), None, apply("mul", Load("x2", at("i")), Load("x2", at("i"))), "t0", at("i")),
        Stage(
            "columns", (j,), (), None, apply("mul", Load("x3", at("j")), Load("x3", at("j"))), "u0", at("j")
        ),
    ]
    body = apply("mul", Load("x0", at("i", "j")), factor)
    scaled = Stage("scaled", (i, j), (), None, body, "t1", at("i", "j"))
    product = apply("mul", Load("t1", at("i", "j")), Load("x1", at("j", "l")))
    total = Stage("total", (i, k), (j,), "sum", product, "t2", at("i", "l"))
    store = Stage("store", (i, k), (), None, Load("t2", at("i", "l")), "y0", at("i", "l"))
    operands = operand("x0", 3, 5), operand("x1", 5, 4), operand("x2", 3), operand("x3", 5)
    temporaries = operand("t0", 3), operand("u0", 5), operand("t1", 3, 5), operand("t2", 3, 4)
    return Workload(operands, temporaries, (operand("y0", 3, 4),), (*squares, scaled, total, store))


def test_a_factor_of_the_rows_moves_behind_the_sum() -> None:
    workload = weighted(Load("t0", at("i")))
    moved = scale_last(workload)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    np.testing.assert_allclose(reference_outputs(moved, operands)["y0"], expected, atol=1e-12)
    assert [s.name for s in moved.stages] == ["rows", "columns", "total", "store"]
    assert moved.stages[-1].body == apply("mul", Load("t2", at("i", "l")), Load("t0", at("i")))
    assert scale_last(moved) is moved


def test_a_factor_of_the_terms_stays() -> None:
    workload = weighted(Load("u0", at("j")))
    assert scale_last(workload) is workload
    assert scale_last(KINDS["convolution"]) is KINDS["convolution"]
