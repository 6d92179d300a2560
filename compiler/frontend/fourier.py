"""Fourier transforms in stages: where a length has factors, few products per element are enough.

With N = r * m, n = m * n1 + n2 and k = k1 + r * k2 (Cooley and Tukey, Mathematics of Computation 19, 1965):

    y[n2, k1]       =  sum over n1 < r  of  x[m * n1 + n2] * e^(-2 pi i (m * n1 + n2) * k1 / N)
    X[k1 + r * k2]  =  sum over n2 < m  of  y[n2, k1] * e^(-2 pi i n2 * k2 / m)

The second line is a transform of length m again. Each stage is a product with a constant, as any other contraction.
Values between stages have real and imaginary numbers apart, so that lanes run along k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Cast, Expr, Load, apply

Floats = npt.NDArray[np.float64]
Places = tuple[Index, ...]
Element = Callable[[Places, Index, Index, Places], Load]
"""`element(before, n, part, behind)` of a signal: its element n, at the places of the dimensions before and behind."""
_MOST_ELEMENTS = 1 << 26
"""Elements of the constant of a transform or of one of its stages."""
_MOST_LENGTHS = 1 << 12
"""Lengths whose factors are kept."""
_STAGE_COST = 8
"""Products that take as long as writing and reading the values between two stages, per element."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What is transformed: real (`parts` 1) or complex (2) numbers, which a `window` of N elements multiplies first.

    `inverse`: it is a spectrum, of which the signal is wanted: turned the other way, and divided by N.
    """

    element: Element
    parts: int
    window: str | None = None
    inverse: bool = False


def turns(products: npt.NDArray[np.int64], length: int, *, inverse: bool = False) -> Floats:
    """[..., 2, 2]: what the parts of an input add to the parts of an output, turned by -2 pi products / length."""
    angle = 2 * np.pi * (products % length) / length
    real, imaginary = np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)
    return np.stack([np.stack([real, -imaginary], -1), np.stack([imaginary, real], -1)], -2)


def check_elements(call: OperatorCall, length: int, elements: int) -> None:
    """Raise UnsupportedOperator where a constant of a transform would be too large."""
    if not length >= 1 or elements > _MOST_ELEMENTS:
        call.unsupported(f"a transform of length {length}")


def radices(length: int, parts: int) -> tuple[int, ...]:
    """The factors of a length whose stages, in this order, take the fewest operations; one where it stays whole."""
    return _cheapest(length, parts)[1]


@lru_cache(_MOST_LENGTHS)
def _cheapest(length: int, parts: int) -> tuple[int, tuple[int, ...]]:
    best: tuple[int, tuple[int, ...]] = (2 * parts * length + _STAGE_COST, (length,))
    small = [r for r in range(2, math.isqrt(length) + 1) if length % r == 0]
    for radix in {*small, *(length // r for r in small)}:
        cost, behind = _cheapest(length // radix, 2)
        best = min(best, (2 * parts * radix + _STAGE_COST + cost, (radix, *behind)))
    return best


def emit_stages(call: OperatorCall, shape: tuple[int, ...], axis: int, signal: Signal, length: int) -> None:
    """Emit a spectrum of `shape`, whose last dimension is of 2 parts; the frequencies along `axis` are the first ones.

    Sums are of doubles: much of a spectrum cancels out. Raises UnsupportedOperator where a factor of the length
    is too large.
    """
    before, bins, behind = shape[:axis], shape[axis], shape[axis + 1 : -1]
    element, parts, rest = signal.element, signal.parts, length
    digits: tuple[int, ...] = ()
    for stage, radix in enumerate(radices(length, parts)):
        whole, rest = rest, rest // radix
        matrix = _matrix(call, whole, radix, inverse=signal.inverse)[..., :parts]
        weights = _weights(call, matrix, signal.window if stage == 0 else None)
        kept = radix if rest > 1 else -(-bins // math.prod(digits))
        axes = output_axes((*before, rest, 2, kept, *digits, *behind))
        outer, (n2, out, k), inner = _split(at(axes), axis)
        summed = ReduceAxes()
        n1, part = summed.index(radix), summed.index(parts)
        x = element(outer, n1 * rest + n2, part, inner)
        term = apply("mul", double(x, call.dtype(x.buffer)), Load(weights, (n2, out, k, n1, part)))
        value = call.intermediate(reduced(axes, summed, "sum", term, DType.F64), f"stage{stage}")
        element, parts, digits = _element_of(value), 2, (kept, *digits)
    _emit_interleaved(call, shape, axis, element, digits)


def _split(places: Places, axis: int) -> tuple[Places, Places, Places]:
    return places[:axis], places[axis : axis + 3], places[axis + 3 :]


def _element_of(value: str) -> Element:
    return lambda before, n, part, behind: Load(value, (*before, n, part, *behind))


def _matrix(call: OperatorCall, length: int, radix: int, *, inverse: bool) -> Floats:
    """[n2, part of the output, k, n1, part of the input] of a stage."""
    check_elements(call, length, 4 * length * radix)
    rest = length // radix
    n = (np.arange(radix) * rest)[:, None, None] + np.arange(rest)  # [n1, 1, n2]
    matrix = turns(n * np.arange(radix)[:, None], length, inverse=inverse)  # [n1, k, n2, out, part]
    # What each stage divides by makes up the whole length.
    return (matrix / radix if inverse else matrix).transpose(2, 3, 1, 0, 4)


def _weights(call: OperatorCall, matrix: Floats, window: str | None) -> str:
    """The constant, with what a window of the whole length multiplies its elements by."""
    weights = call.intermediate_constant(np.ascontiguousarray(matrix), "weights")
    if window is None:
        return weights
    axes = output_axes(matrix.shape)
    n2, _, _, n1, _ = at(axes)
    factor = Load(window, (n1 * matrix.shape[0] + n2,))
    body = apply("mul", Load(weights, at(axes)), double(factor, call.dtype(window)))
    return call.intermediate(Compute(axes, (), None, body, DType.F64), "windowed")


def _emit_interleaved(
    call: OperatorCall,
    shape: tuple[int, ...],
    axis: int,
    element: Element,
    digits: tuple[int, ...],
) -> None:
    """Emit the spectrum with its parts side by side, from the digits of k, the highest first."""
    axes = output_axes(shape)
    places = at(axes)
    k, below = places[axis], math.prod(digits)
    found: list[Index] = []
    for digit in digits:
        within, below = below, below // digit
        found.append((k % within if found else k) // below)
    behind = places[axis + 1 : -1]
    x = element(places[:axis], Index.of(0), places[-1], (*found, *behind))
    dtype = call.dtype(call.value(0))
    call.emit(Compute(axes, (), None, x if dtype is DType.F64 else Cast(x, dtype), dtype))


def double(value: Load, dtype: DType) -> Expr:
    """The element as a double."""
    return value if dtype is DType.F64 else Cast(value, DType.F64)
