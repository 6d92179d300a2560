"""Floats of three bytes: the nearest to each single, and what is special stays so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.three_bytes import lengthen, shorten

LARGEST = float(np.finfo(np.float32).max)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_no_number_of_three_bytes_is_nearer(patterns: list[int]) -> None:
    singles = np.array(patterns, np.uint32).view(np.float32)
    short = shorten(singles)
    found = lengthen(short)
    finite = np.isfinite(singles)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(singles))
    np.testing.assert_array_equal(found[np.isinf(singles)], singles[np.isinf(singles)])
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(singles[finite]))
    distance = np.abs(found.astype(np.float64) - singles.astype(np.float64))[finite]
    bits = short.view(np.uint8).reshape(-1, 3).astype(np.int64) @ (1, 1 << 8, 1 << 16)
    for step in (-1, 1):
        beside = np.clip(bits + step, 0, (1 << 24) - 1)
        stored = (beside[:, None] >> np.array((0, 8, 16)) & 0xFF).astype(np.uint8).view("V3")[:, 0]
        with np.errstate(invalid="ignore"):
            other = lengthen(stored).astype(np.float64)
            further = np.abs(other - singles.astype(np.float64))[finite]
        assert not np.any(further < distance)


@given(st.floats(2.0**-126, LARGEST, width=32))
def test_a_number_is_off_by_a_65536th_of_itself_at_most(number: float) -> None:
    (found,) = lengthen(shorten(np.array([number], np.float32)))
    assert abs(float(found) - number) <= number * 2.0**-16


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -2.0, 0.5, 96.0, np.inf, -np.inf, LARGEST, 1 + 2.0**-7])
def test_numbers_of_few_bits_are_exact(number: float) -> None:
    (found,) = lengthen(shorten(np.array([number], np.float32)))
    assert float(found) == number
    assert np.signbit(found) == np.signbit(number)


def test_arrays_keep_their_shape_and_may_be_views() -> None:
    array = np.arange(30, dtype=np.float32).reshape(5, 6).T[::2]
    short = shorten(array)
    assert (short.shape, short.dtype.itemsize) == ((3, 5), 3)
    np.testing.assert_array_equal(lengthen(short), array)
    np.testing.assert_array_equal(lengthen(short[:, ::2]), array[:, ::2])
