"""Products of names in index expressions: strides and sizes over several symbols, quotients by a symbol."""

from __future__ import annotations

import itertools

import pytest

from compiler.index import Index
from compiler.index_json import index_from_json, index_json
from compiler.symbol import divides, product, row_major

LOOP, N, M = Index.of("i"), Index.of("n"), Index.of("m")
FLAT = LOOP.times(N).times(M) * 3 + N.times(N) * 2 - LOOP + 7


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (LOOP.times(N), "i*n"),
        (N.times(LOOP), "i*n"),
        (N.times(LOOP) - LOOP.times(N), "0"),
        ((LOOP + 1).times(N + 2), "i*2 + n + i*n + 2"),
        (FLAT, "-i + i*m*n*3 + n*n*2 + 7"),
        (LOOP.times(Index.of(4)), "i*4"),
    ],
)
def test_products_have_one_form(index: Index, text: str) -> None:
    assert str(index) == text
    assert index_from_json(index_json(index)) == index


@pytest.mark.parametrize(
    "index", [FLAT, (LOOP * 5 + 3) // N, (LOOP + N) % M, (LOOP.times(N) + 1) // 4], ids=str
)
def test_values_substitution_and_bounds_agree(index: Index) -> None:
    assert index_from_json(index_json(index)) == index
    ranges = {"i": 6, "n": 5, "m": 4}
    low, high = index.bounds(ranges)
    for i, n, m in itertools.product(range(6), range(1, 5), range(1, 4)):
        value = index.evaluate({"i": i, "n": n, "m": m})
        assert low <= value <= high
        some = index.substitute({"n": Index.of(n), "m": Index.of(m)})
        assert some.evaluate({"i": i}) == value
        assert some.substitute({"i": Index.of(i)}).constant == value
        split = index.substitute({"i": Index.of("o") * 2 + "l"})
        assert split.evaluate({"o": i // 2, "l": i % 2, "n": n, "m": m}) == value
        assert index.simplify(ranges).evaluate({"i": i, "n": n, "m": m}) == value


def test_names_are_found_in_products_and_divisors() -> None:
    assert FLAT.names() == {"i", "n", "m"}
    assert ((LOOP + 1) // M).names() == {"i", "m"}
    assert not FLAT.is_affine()
    assert FLAT.coefficient("i") == -1


def test_strides_are_products_of_the_sizes_inside() -> None:
    assert row_major((2, N, 3, M)) == (N.times(M) * 3, M * 3, M, 1)
    assert row_major((N, 4, 5)) == (20, 5, 1)
    assert product((N, Index.of(3), M)) == N.times(M) * 3


def test_what_divides_a_product() -> None:
    assert divides(4, N.times(M) * 8)
    assert not divides(3, N.times(M) * 8)
    assert not divides(2, N.times(M) * 8 + 1)
