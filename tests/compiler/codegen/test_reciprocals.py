"""Divisions by literals: two multiplications where they round as a division does, for every numerator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.codegen.reciprocals import exact_reciprocal, reciprocal_of
from compiler.scalar import Const, apply
from tests.compiler.graph.building import load

SIGNIFICANDS = np.arange(1 << 23, 1 << 24, dtype=np.int64).astype(np.float32)
"""Of every f32; a quotient's own depends on nothing else."""
X = load("x", "a0")


def quotients(parts: tuple[float, float]) -> np.ndarray:
    """As the machine's multiply-add gives them: the wide sum has 64 bits of which 48 hold the product."""
    high, low = (np.float32(part) for part in parts)
    product = (SIGNIFICANDS * low).astype(np.longdouble)
    return (SIGNIFICANDS.astype(np.longdouble) * np.longdouble(high) + product).astype(np.float32)


def both_parts(divisor: float) -> tuple[float, float]:
    high = np.float32(1 / np.float64(divisor))
    return float(high), float(np.float32(1 / np.float64(divisor) - np.float64(high)))


@pytest.mark.parametrize("divisor", [0.12912403047084808, 3.0, -0.07243242859840393])
def test_every_quotient_is_that_of_the_division(divisor: float) -> None:
    divisor = float(np.float32(divisor))
    parts = exact_reciprocal(divisor)
    assert parts is not None
    np.testing.assert_array_equal(quotients(parts), SIGNIFICANDS / np.float32(divisor))


@pytest.mark.parametrize("divisor", [0.007056239526718855, 3.9388368129730225])
def test_a_divisor_with_one_wrong_quotient_is_refused(divisor: float) -> None:
    assert exact_reciprocal(divisor) is None
    wrong = quotients(both_parts(divisor)) != SIGNIFICANDS / np.float32(divisor)
    assert wrong.sum() == 1


@pytest.mark.parametrize("divisor", [0.0, float("inf"), float("nan"), 1e-30, 1e30])
def test_divisors_without_a_normal_reciprocal_are_refused(divisor: float) -> None:
    assert exact_reciprocal(divisor) is None


@given(st.floats(2.0**-50, 2.0**50, width=32), st.floats(2.0**-50, 2.0**50, width=32))
def test_any_two_numbers(divisor: float, x: float) -> None:
    parts = exact_reciprocal(divisor)
    if parts is None:
        return
    product = np.longdouble(np.float32(x) * np.float32(parts[1]))
    assert np.float32(np.longdouble(x) * np.longdouble(parts[0]) + product) == np.float32(x) / np.float32(
        divisor
    )


def test_only_bounded_numerators_and_literal_divisors() -> None:
    bounded = apply("min", apply("max", X, Const(-3.0)), Const(3.0))
    assert reciprocal_of((bounded, Const(0.1))) is not None
    assert reciprocal_of((X, Const(0.1))) is None
    assert reciprocal_of((bounded, X)) is None
