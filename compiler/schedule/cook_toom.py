"""Cook-Toom matrices of the short convolution F(m, r): m outputs of a filter of r taps with m + r - 1 multiplications.

    y = A^T ((G g) * (B^T d))        d: m + r - 1 inputs, g: r taps, y: m outputs

A stride makes several such convolutions of one; there are m + r - 1 multiplications of each.

Derived exactly, in rational numbers, by the transposition of polynomial interpolation at some points and infinity
(Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural
Networks, arXiv 1509.09308). The points decide how much rounding errors grow, and good ones are found by trying
(Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution for DNNs, arXiv 1803.10986).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm, sqrt

Matrix = tuple[tuple[Fraction, ...], ...]

WHOLE_POINTS = tuple(Fraction(p) for p in (0, 1, -1, 2, -2))
"""Points of which the first few make whole numbers of the data's matrix and the outputs'."""
FLOAT_POINTS = {
    len(points): tuple(Fraction(p) for p in points)
    for points in (
        (0,),
        (0, 1),
        (0, 1, -1),
        (0, "-5/8", "7/8", "-7/4"),
        (0, "11/16", "-11/16", "23/16", "-23/16"),
        (0, "-1/2", "3/4", -1, "9/8", "-5/2"),
        (0, "9/16", "-9/16", 1, -1, "7/4", "-7/4"),
    )
}
"""By their number, of few binary digits, so that entries of the data's matrix and the outputs' are floats: of those
tried, the ones with the least `growth` of three taps. Two that differ in sign alone save some multiplications."""


@dataclass(frozen=True, slots=True)
class CookToom:
    """output: A^T [m, n]; filter: G [n, r]; data: B^T [n, n], with n = stride * (m - 1) + r."""

    output: Matrix
    filter: Matrix
    data: Matrix


@cache
def cook_toom(m: int, r: int, stride: int = 1, *, whole_points: bool = False) -> CookToom:
    """The matrices of F(m, r), for floats unless with whole points; raises ValueError where there are not enough.

    With a stride every so many inputs are the data of a convolution of their own, with every so many taps, and all
    outputs are sums of one of each.
    """
    if stride == 1:
        return _dense(m, r, whole_points=whole_points)
    if not 1 <= stride <= r:
        msg = f"no matrices for F({m}, {r}) with a stride of {stride}"
        raise ValueError(msg)
    inputs = stride * (m - 1) + r
    parts = [_dense(m, -(-(r - p) // stride), whole_points=whole_points) for p in range(stride)]
    output = [[x for part in parts for x in part.output[i]] for i in range(m)]
    taps = [_spread(row, p, stride, r) for p, part in enumerate(parts) for row in part.filter]
    data = [_spread(row, p, stride, inputs) for p, part in enumerate(parts) for row in part.data]
    return CookToom(_matrix(output), _matrix(taps), _matrix(data))


def _spread(row: tuple[Fraction, ...], first: int, step: int, length: int) -> list[Fraction]:
    """Entries `step` apart, zeros between them."""
    spread = [Fraction(0)] * length
    spread[first : first + step * len(row) : step] = row
    return spread


@cache
def _dense(m: int, r: int, *, whole_points: bool) -> CookToom:
    """Those of stride 1; with one tap every output is a product."""
    if r == 1 and m > 0:
        unit = _matrix([[Fraction(i == j) for j in range(m)] for i in range(m)])
        return CookToom(unit, _matrix([[Fraction(1)]] * m), unit)
    n = m + r - 1
    points = WHOLE_POINTS[: n - 1] if whole_points else FLOAT_POINTS.get(n - 1, ())
    if m < 1 or r < 1 or len(points) < n - 1:
        msg = f"no matrices for F({m}, {r})"
        raise ValueError(msg)
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
def growth(matrices: CookToom) -> float:
    """How much larger rounding errors of F(m, r) are than those of the direct form, for random data and taps.

    Errors of the products grow with the rows of all three matrices that meet in them; the worst output counts.
    """
    sizes = [
        float(sum(x * x for x in g) * sum(x * x for x in b))
        for g, b in zip(matrices.filter, matrices.data, strict=True)
    ]
    squares = [
        sum(float(a * a) * size for a, size in zip(row, sizes, strict=True)) for row in matrices.output
    ]
    return sqrt(max(squares) / len(matrices.filter[0]))


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
