"""How far a form that was found from a few sizes reaches: a model may do something else for other sizes.

    s = Shape(x)[0];  k = Min(s, 64);  y = x[:k]      k is n for n = 8, 9, 35, and 64 for n = 100

Shapes, and small whole numbers that are known once the sizes are, tell: they must be the same polynomials of the sizes
for some that are far away. Between two sizes of which both are alike none is taken to differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from compiler.errors import LuthierError
from compiler.frontend.builder import GraphBuilder
from compiler.index import Index
from compiler.symbol import Symbol, as_size, size_at
from compiler.workload.generalise import DiffersError, Values, polynomial

_STEP = 4
"""Each size that is looked at is so many times the one before, or the one before so many times it."""
_MOST_NUMBERS = 16
"""Of a value that is looked at."""

_LOOKS = 4
"""Sizes that are looked at between one that is alike and one that the model refuses."""
_REFUSED = ""

Numbers = Mapping[str, tuple[int, ...]]
Differs = Callable[[int], str | None]


def numbers_of(builder: GraphBuilder) -> Numbers:
    """The shapes of the values that the model names, the elements of small known ones, and what was decided."""
    named = {name: builder.resolve(name) for name in builder.reserved}
    known = {
        f"{name}=": tuple(map(int, array.reshape(-1)))
        for name, value in named.items()
        if (array := builder.constants.get(value)) is not None
        if array.dtype.kind in "iub" and array.size <= _MOST_NUMBERS
    }
    shapes = {name: builder.shapes[value] for name, value in named.items() if value in builder.shapes}
    return shapes | known | {f"{name}=": (int(is_so),) for name, is_so in builder.decisions.items()}


class Reach:
    """What some examples have in common."""

    def __init__(self, examples: Sequence[Numbers], points: Sequence[Values]) -> None:
        """One example per point."""
        self._points = points
        self._fitted: dict[str, tuple[Index, ...]] = {}
        first, *others = examples
        for name, numbers in first.items():
            if all(len(other.get(name, ())) == len(numbers) and name in other for other in others):
                try:
                    columns = zip(*(example[name] for example in examples), strict=True)
                    self._fitted[name] = tuple(polynomial(column, points, name) for column in columns)
                except DiffersError:  # Nothing comes of it, or there was no common form.
                    continue

    def differs(self, numbers: Numbers, values: Values) -> str | None:
        """A value that is not what it should be for these sizes; None where there is none."""
        for name, fitted in self._fitted.items():
            if name not in numbers or numbers[name] != tuple(size_at(as_size(n), values) for n in fitted):
                return name.rstrip("=")
        return None

    def range(self, symbol: Symbol) -> tuple[int, int]:
        """The smallest and the largest size among the examples."""
        sizes = [point[symbol.name] for point in self._points]
        return min(sizes), max(sizes)

    def above(self, symbol: Symbol) -> Iterator[int]:
        """Sizes above those of the examples, the last one the largest."""
        value = _STEP * self.range(symbol)[1]
        while value < symbol.high:
            yield value
            value *= _STEP
        yield symbol.high

    def below(self, symbol: Symbol) -> Iterator[int]:
        """Sizes below those of the examples, the last one the smallest."""
        value = self.range(symbol)[0] // _STEP
        while value > symbol.low:
            yield value
            value //= _STEP
        yield symbol.low


def within_reach(
    symbols: tuple[Symbol, ...],
    reach: Reach,
    base: Values,
    imported: Callable[[Values], GraphBuilder],
    *,
    downwards: bool,
) -> tuple[tuple[Symbol, ...], str | None]:
    """The symbols with ranges within which the form holds, and a value that differs above them, if one does.

    `downwards`: whether smaller sizes than those of the examples are looked at. Above sizes that the model refuses
    nothing is looked at.
    """
    found, why = [], None
    for symbol in symbols:
        differs = partial(_differs, reach, base, imported, symbol.name)
        low, high = reach.range(symbol)
        high, other = _highest(high, reach.above(symbol), differs)
        why = why or other
        for value in reach.below(symbol) if downwards else ():
            if differs(value) is not None:
                low = _between(value, low, differs)
                break
            low = value
        found.append(replace(symbol, low=low, high=high))
    return tuple(found), why


def _differs(
    reach: Reach, base: Values, imported: Callable[[Values], GraphBuilder], name: str, size: int
) -> str | None:
    """A value that is not what it should be for a size; None where there is none, `_REFUSED` where no model is."""
    values = {**base, name: size}
    try:
        return reach.differs(numbers_of(imported(values)), values)
    except LuthierError:
        return _REFUSED


def _highest(good: int, sizes: Iterator[int], differs: Differs) -> tuple[int, str | None]:
    """The largest size up to which none differs, and a value that does above it; None where the model ends there."""
    for size in sizes:
        other = differs(size)
        if other == _REFUSED:
            return _nearer(good, size, differs)
        if other is not None:
            return good, other
        good = size
    return good, None


def _nearer(good: int, refused: int, differs: Differs) -> tuple[int, str | None]:
    """The same between a size that is alike and one that the model refuses."""
    for _ in range(_LOOKS):
        middle = (good + refused) // 2
        other = differs(middle)
        if other == _REFUSED:
            refused = middle
        elif other is not None:
            return good, other
        else:
            good = middle
    return good, None


def _between(bad: int, good: int, differs: Differs) -> int:
    """The smallest size above a bad one that is alike, as a good one is."""
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (bad, middle) if differs(middle) is None else (middle, good)
    return good
