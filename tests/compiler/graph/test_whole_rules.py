"""Whole numbers in floats: cheaper expressions of the same values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.dtype import DType
from compiler.evaluate import evaluate_compute
from compiler.graph.ir import Compute
from compiler.graph.whole_rules import whole_interval, with_whole_numbers
from compiler.index import Index
from compiler.scalar import Apply, Cast, Const, Expr, apply, walk
from compiler.symbol import axis
from tests.compiler.graph.building import load

X = load("x", "a0")
A0 = Index.of("a0")


def clamped(x: Expr, low: float, high: float) -> Expr:
    return apply("min", apply("max", x, Const(low)), Const(high))


def quantised(x: Expr, scale: float, zero: int, dtype: DType) -> Expr:
    whole: Expr = apply("round", apply("div", x, Const(scale)))
    low, high = dtype.limits
    return Cast(clamped(apply("add", whole, Const(float(zero))), float(low), float(high)), dtype)


def dequantised(q: Expr, scale: float, zero: int) -> Expr:
    whole = apply("sub", Cast(q, DType.I32), Cast(Const(zero, DType.U8), DType.I32))
    return apply("mul", Cast(whole, DType.F32), Const(scale))


def evaluated(expr: Expr, x: np.ndarray, dtype: DType) -> np.ndarray:
    compute = Compute((axis("a0", len(x)),), (), None, expr, dtype)
    with np.errstate(all="ignore"):
        return evaluate_compute(compute, {"x": x}, np.float32)


def clamps_nothing_rounded(expr: Expr) -> bool:
    clamps = (e for e in walk(expr) if isinstance(e, Apply) and e.op in ("max", "min"))
    return not any(isinstance(e, Apply) and e.op == "round" for clamp in clamps for e in walk(clamp))


SCALES = st.floats(2.0**-20, 2.0**10, width=32)


@given(
    scale=SCALES,
    zero=st.integers(0, 255),
    dtype=st.sampled_from([DType.U8, DType.I8, DType.U16, DType.I16]),
    units=st.lists(st.integers(-140_000, 140_000), min_size=1, max_size=40),
)
def test_a_clamp_before_the_division_gives_the_same_numbers(
    scale: float, zero: int, dtype: DType, units: list[int]
) -> None:
    before = quantised(X, scale, zero, dtype)
    after = with_whole_numbers(before)
    assert clamps_nothing_rounded(after)
    # Ties and what lies next to them, far values, infinities.
    middles = (np.array(units, np.float32) / 2 * np.float32(scale)).astype(np.float32)
    near = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    x = np.concatenate([middles, *near, np.array([np.inf, -np.inf, 3e38, -3e38, 0.0], np.float32)])
    np.testing.assert_array_equal(evaluated(before, x, dtype), evaluated(after, x, dtype))


@given(
    scale=SCALES, zero=st.integers(0, 255), values=st.lists(st.floats(width=32, allow_nan=False), min_size=1)
)
def test_what_is_read_again_never_becomes_an_integer(scale: float, zero: int, values: list[float]) -> None:
    before = dequantised(quantised(X, scale, zero, DType.U8), scale, zero)
    after = with_whole_numbers(before)
    assert not any(isinstance(e, Cast) for e in walk(after))
    assert not any(isinstance(e, Apply) and e.op in ("add", "sub") for e in walk(after))
    x = np.array(values, np.float32)
    np.testing.assert_array_equal(evaluated(before, x, DType.F32) + 0.0, evaluated(after, x, DType.F32) + 0.0)


@pytest.mark.parametrize(
    "expr",
    [
        Cast(Cast(apply("round", X), DType.U8), DType.F32),  # may be out of range
        Cast(Cast(clamped(X, 0.0, 255.0), DType.U8), DType.F32),  # need not be whole
        clamped(apply("round", apply("div", X, Const(-2.5))), 0.0, 255.0),  # falls as x grows
        clamped(apply("round", apply("div", X, Const(3.0))), 0.5, 255.0).args[0],
    ],
)
def test_what_would_change_a_number_stays(expr: Expr) -> None:
    assert with_whole_numbers(expr) is expr


def test_ends_of_whole_numbers() -> None:
    whole = apply("round", apply("div", clamped(X, -1.0, 2.0), Const(0.1)))
    assert whole_interval(whole) == (-10.0, 20.0)
    assert whole_interval(apply("add", whole, Const(10.0))) == (0.0, 30.0)
    assert whole_interval(apply("add", whole, Const(0.5))) is None
    assert whole_interval(apply("round", X)) is None
