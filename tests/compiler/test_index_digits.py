"""Quotients and remainders of digits: what takes the places of a reshaped value apart, and puts them together again."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.index import Index

C = Index.of("c")
DIGITS = C * 3136 + "i"
RANGES = {"c": 64, "i": 3136}


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (DIGITS // 6272, "(c) // 2"),
        (DIGITS % 6272, "i + (c) % 2*3136"),
        (DIGITS // 3136, "c"),
        (DIGITS % 3136, "i"),
        (DIGITS // 56, "c*56 + (i) // 56"),
        (DIGITS % 56, "(i) % 56"),
        ((DIGITS // 6272) * 6272 + DIGITS % 6272, "i + (c) % 2*3136 + (c) // 2*6272"),
        ((DIGITS + 3136) // 6272, "(c + 1) // 2"),
        ((C * 4 - 2) // 8, "(c - 1) // 2"),
        ((C * 4 + 7) // 4, "c + 1"),
    ],
)
def test_digits_below_the_divisor_are_taken_apart(index: Index, text: str) -> None:
    assert str(index.simplify(RANGES)) == text


def test_a_digit_that_reaches_the_next_stays_in_the_quotient() -> None:
    index = (DIGITS // 6272).simplify({"c": 64, "i": 3137})
    assert index.evaluate({"c": 1, "i": 3136}) == 1
    assert "i" in index.names()


COEFFICIENTS = st.sampled_from([-6, -1, 0, 1, 2, 3, 4, 6, 8, 12, 24])
SIZES = st.integers(1, 6)


@given(
    coefficients=st.tuples(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS),
    sizes=st.tuples(SIZES, SIZES, SIZES),
    constant=st.integers(-30, 30),
    divisors=st.tuples(st.sampled_from([2, 3, 4, 6, 8, 12, 24]), st.sampled_from([2, 3, 4, 6])),
    words=st.tuples(st.booleans(), st.booleans()),
)
def test_what_is_simplified_has_the_same_values(
    coefficients: tuple[int, int, int],
    sizes: tuple[int, int, int],
    constant: int,
    divisors: tuple[int, int],
    words: tuple[bool, bool],
) -> None:
    """Twice over: a quotient or remainder of a quotient or remainder."""
    names = ("a", "b", "c")
    index = sum((Index.of(n) * c for n, c in zip(names, coefficients, strict=True)), Index.of(constant))
    for divisor, quotient in zip(divisors, words, strict=True):
        index = index // divisor if quotient else index % divisor
    ranges = dict(zip(names, sizes, strict=True))
    simple = index.simplify(ranges)
    for place in itertools.product(*(range(size) for size in sizes)):
        values = dict(zip(names, place, strict=True))
        expected = constant + sum(c * x for c, x in zip(coefficients, place, strict=True))
        for divisor, quotient in zip(divisors, words, strict=True):
            expected = expected // divisor if quotient else expected % divisor
        assert index.evaluate(values) == expected
        assert simple.evaluate(values) == expected
