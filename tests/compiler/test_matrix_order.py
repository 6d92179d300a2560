"""The order of the products of a tile: all of them, each operand in its register, and the fewest loads."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.matrix_order import MatrixOrder, are_held, heights_of, matrix_order
from compiler.target import MATRIX_REGISTERS

PARTS = ((1, 0), (0, 0), (0, 1))
ONE = ((0, 0),)
TILES = [
    ((16,), 1),
    ((16, 16), 2),
    ((16, 13), 2),
    ((16, 16, 16, 13), 1),
    ((7,), 4),
    ((16,), 6),
    ((16,) * 6, 1),
]


def is_right(
    order: MatrixOrder, heights: tuple[int, ...], wide: int, pairs: tuple[tuple[int, int], ...]
) -> None:
    """Follow the registers: each product finds its operands, and all products are there."""
    held: dict[int, tuple[str, int, int]] = {}
    loaded = [0, 0]
    sums = len(heights) * wide
    for p in order.products:
        left, right = ("data", pairs[p.pair][0], p.row), ("weights", pairs[p.pair][1], p.column)
        if p.loads_left:
            held[p.left] = left
            loaded[0] += heights[p.row]
        if p.loads_right:
            held[p.right] = right
            loaded[1] += 16
        assert held[p.left] == left
        assert held[p.right] == right
        assert order.rows[p.left] == heights[p.row]
        assert sums <= min(p.left, p.right)
        assert max(p.left, p.right) < MATRIX_REGISTERS
    done = {(p.pair, p.row, p.column) for p in order.products}
    assert done == set(product(range(len(pairs)), range(len(heights)), range(wide)))
    assert len(order.products) == len(done)
    assert tuple(loaded) == order.loaded


@pytest.mark.parametrize("pairs", [PARTS, ONE])
@pytest.mark.parametrize(("heights", "wide"), TILES)
def test_every_product_finds_its_operands(
    heights: tuple[int, ...], wide: int, pairs: tuple[tuple[int, int], ...]
) -> None:
    order = matrix_order(heights, wide, 16, pairs)
    assert order is not None
    is_right(order, heights, wide, pairs)


@pytest.mark.parametrize(
    ("heights", "wide", "fewest"),
    [
        ((16, 16), 2, (64, 64)),
        ((16,) * 4, 1, (128, 32)),
        ((16,), 4, (32, 128)),
        ((16, 16, 16, 13), 1, (122, 32)),
    ],
)
def test_each_operand_is_loaded_once_where_registers_allow(
    heights: tuple[int, ...], wide: int, fewest: tuple[int, int]
) -> None:
    order = matrix_order(heights, wide, 16, PARTS)
    assert order is not None
    assert order.loaded == fewest


def test_products_of_one_sum_do_not_follow_each_other() -> None:
    order = matrix_order((16,) * 4, 1, 16, PARTS)
    assert order is not None
    assert order.chained == 0


def test_a_tile_that_leaves_no_registers_has_no_order() -> None:
    assert matrix_order((16, 16), 4, 16, ONE) is None
    assert not are_held((16, 16), 4)
    assert not are_held((16, 13), 3)
    assert are_held((16, 16), 3)
    assert heights_of(61, 16) == (16, 16, 16, 13)
