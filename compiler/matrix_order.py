"""The order of the products of a tile of matrices, and the registers of their operands: so that the fewest are loaded.

    for each step of a sum:  sums[i, j] += data[p(n), i] * weights[q(n), j]    for all i, j, n: any order is right

All sums are in registers. What is left of those holds some of the data and some of the weights: of each side what was
used last, so that an order tells what is loaded again. Every order by runs of one side and every division is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from compiler.target import MATRIX_REGISTERS

Pairs = tuple[tuple[int, int], ...]
"""The operands of each product of a row and a column of matrices: which data, and which weights."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """One instruction: of a pair, a row and a column of matrices. An operand that is not loaded is in its register."""

    pair: int
    row: int
    column: int
    left: int
    right: int
    loads_left: bool
    loads_right: bool


@dataclass(frozen=True, slots=True)
class MatrixOrder:
    """All instructions of a step.

    Attributes:
        rows: of each register, by its number: those of the sums, of the data, then of the weights.
        loaded: rows of registers that are loaded, of the data and of the weights.
    """

    products: tuple[MatrixProduct, ...]
    rows: tuple[int, ...]
    loaded: tuple[int, int]

    @property
    def cost(self) -> tuple[int, int, int]:
        """The smaller the better: rows that are loaded, products that wait, and registers for operands."""
        used = {n for p in self.products for n in (p.left, p.right)}
        return sum(self.loaded), self.chained, len(used)

    @property
    def chained(self) -> int:
        """Products that wait for the one before, which adds to the same sum."""
        return sum(a[1:3] == b[1:3] for a, b in pairwise([(p.pair, p.row, p.column) for p in self.products]))


def heights_of(rows: int, most: int) -> tuple[int, ...]:
    """Rows of the matrices below each other: full ones, and the rest."""
    return tuple(min(most, rows - first) for first in range(0, rows, most))


def are_held(heights: tuple[int, ...], wide: int) -> bool:
    """Whether the registers hold the sums, and an operand of each shape."""
    return len(heights) * wide + len(set(heights)) < MATRIX_REGISTERS


@cache
def matrix_order(heights: tuple[int, ...], wide: int, depth: int, pairs: Pairs) -> MatrixOrder | None:
    """The order that loads the fewest rows; None where the registers do not hold the sums and two operands.

    `heights`: of the matrices below each other; `wide`: beside each other; `depth`: rows of the weights' matrices.
    """
    sums = len(heights) * wide
    kinds = len(set(heights))
    best: MatrixOrder | None = None
    for left in range(kinds, MATRIX_REGISTERS - sums):
        for order in _orders(range(len(pairs)), range(len(heights)), range(wide)):
            right = MATRIX_REGISTERS - sums - left
            tried = _with_registers(heights, wide, depth, pairs, order, (left, right))
            if best is None or tried.cost < best.cost:
                best = tried
    return best


def _orders(pairs: range, rows: range, columns: range) -> Iterator[tuple[tuple[int, int, int], ...]]:
    """Of (pair, row, column): all pairs for some rows, then for the next ones; and the same by columns."""
    for runs in _runs(rows):
        yield tuple((n, i, j) for run in runs for n in pairs for i in run for j in columns)
    for runs in _runs(columns):
        yield tuple((n, i, j) for run in runs for n in pairs for j in run for i in rows)


def _runs(places: range) -> Iterator[list[range]]:
    """All divisions into runs of one length; the last may be shorter."""
    for length in range(1, len(places) + 1):
        yield [places[first : first + length] for first in range(0, len(places), length)]


def _with_registers(
    heights: tuple[int, ...],
    wide: int,
    depth: int,
    pairs: Pairs,
    order: tuple[tuple[int, int, int], ...],
    split: tuple[int, int],
) -> MatrixOrder:
    """What is loaded in one order, with so many registers for the data and for the weights."""
    left, right = split
    sums, kinds = len(heights) * wide, sorted(set(heights), reverse=True)
    # A register has one number of rows: the last matrix has its own where it has fewer.
    of_data = [kinds[0]] * (left - len(kinds) + 1) + kinds[1:]
    rows = (*(height for height in heights for _ in range(wide)), *of_data, *[depth] * right)
    pools = {height: _Registers([sums + k for k, h in enumerate(of_data) if h == height]) for height in kinds}
    weights = _Registers(list(range(sums + left, sums + left + right)))
    products, loaded = [], [0, 0]
    for n, i, j in order:
        a, new_a = pools[heights[i]].holding((pairs[n][0], i))
        b, new_b = weights.holding((pairs[n][1], j))
        loaded = [loaded[0] + heights[i] * new_a, loaded[1] + depth * new_b]
        products.append(MatrixProduct(n, i, j, a, b, new_a, new_b))
    return MatrixOrder(tuple(products), rows, (loaded[0], loaded[1]))


class _Registers:
    """Registers for operands of one shape: the one whose operand was not used for longest is taken for the next."""

    def __init__(self, numbers: list[int]) -> None:
        self._free = numbers
        self._held: dict[tuple[int, int], int] = {}

    def holding(self, operand: tuple[int, int]) -> tuple[int, bool]:
        """The register with the operand, and whether it has to be loaded."""
        register = self._held.pop(operand, None)
        is_new = register is None
        if register is None:
            register = self._free.pop(0) if self._free else self._held.pop(next(iter(self._held)))
        self._held[operand] = register
        return register, is_new
