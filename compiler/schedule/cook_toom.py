"""Cook-Toom matrices of the short convolution F(m, r): m outputs of a filter of r taps with m + r - 1 multiplications.

    y = A^T ((G g) * (B^T d))        d: m + r - 1 inputs, g: r taps, y: m outputs

Derived exactly, in rational numbers, by the transposition of polynomial interpolation at the points 0, 1, -1, 2, -2,
1/2, ... and infinity (Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, arXiv 1509.09308).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm, sqrt

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS = tuple(Fraction(p) for p in (0, 1, -1, 2, -2, "1/2", "-1/2"))


@dataclass(frozen=True, slots=True)
class CookToom:
    """output: A^T [m, n]; filter: G [n, r]; data: B^T [n, n], with n = m + r - 1."""

    output: Matrix
    filter: Matrix
    data: Matrix


@cache
def cook_toom(m: int, r: int) -> CookToom:
    """The matrices of F(m, r); raises ValueError where there are not enough points."""
    n = m + r - 1
    if m < 1 or r < 1 or n - 1 > len(POINTS):
        msg = f"no matrices for F({m}, {r})"
        raise ValueError(msg)
    points = POINTS[: n - 1]
    scales = [_product([p - q for q in points if q != p]) for p in points]
    output = [[p**i for p in points] + [Fraction(i == m - 1)] for i in range(m)]
    taps = [[p**i / scale for i in range(r)] for p, scale in zip(points, scales, strict=True)]
    taps.append([Fraction(i == r - 1) for i in range(r)])
    data = [_polynomial([q for q in points if q != p], n) for p in points]
    data.append(_polynomial(list(points), n))
    return CookToom(_matrix(output), _matrix(taps), _matrix(data))


@cache
def whole(matrices: CookToom) -> tuple[CookToom, int]:
    """Matrices of whole numbers, and the factor by which what they compute is too large.

    Each row of G is multiplied by its denominators, and the column of A^T that it meets by what is missing from those
    of all rows. Raises ValueError where B^T has fractions.
    """
    own = [lcm(*(x.denominator for x in row)) for row in matrices.filter]
    factor = lcm(*own)
    if any(x.denominator != 1 for row in (*matrices.data, *matrices.output) for x in row):
        msg = f"no matrices of whole numbers with {len(own)} points"
        raise ValueError(msg)
    taps = [[x * d for x in row] for row, d in zip(matrices.filter, own, strict=True)]
    output = [[x * (factor // d) for x, d in zip(row, own, strict=True)] for row in matrices.output]
    return CookToom(_matrix(output), _matrix(taps), matrices.data), factor


@cache
def growth(m: int, r: int) -> float:
    """How much larger rounding errors of F(m, r) are than those of the direct form, for random data and taps.

    Errors of the products grow with the rows of all three matrices that meet in them: the root of the mean square.
    """
    matrices = cook_toom(m, r)
    sizes = [
        float(sum(x * x for x in g) * sum(x * x for x in b))
        for g, b in zip(matrices.filter, matrices.data, strict=True)
    ]
    squares = sum(float(a * a) * size for row in matrices.output for a, size in zip(row, sizes, strict=True))
    return sqrt(squares / (m * r))


@cache
def kronecker(a: Matrix, b: Matrix) -> tuple[tuple[float, ...], ...]:
    """The matrix of `a` along one dimension and `b` along the next, over both flattened."""
    return tuple(tuple(float(x * y) for x in row_a for y in row_b) for row_a in a for row_b in b)


def _product(values: list[Fraction]) -> Fraction:
    total = Fraction(1)
    for value in values:
        total *= value
    return total


def _polynomial(roots: list[Fraction], length: int) -> list[Fraction]:
    """Coefficients of the monic polynomial with these roots, lowest first, padded with zeros."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [root * c for c in coefficients] + [Fraction(0)]
        coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients + [Fraction(0)] * (length - len(coefficients))


def _matrix(rows: list[list[Fraction]]) -> Matrix:
    return tuple(tuple(row) for row in rows)
