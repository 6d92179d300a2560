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

Numbers = Mapping[str, tuple[int, ...]]


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

    `downwards`: whether smaller sizes than those of the examples are looked at. Large ones that the model refuses are
    left to it.
    """
    found, why = [], None

    def differs(symbol: Symbol, value: int) -> str | None:
        values = {**base, symbol.name: value}
        return reach.differs(numbers_of(imported(values)), values)

    def below_holds(symbol: Symbol, value: int) -> bool:
        try:
            return differs(symbol, value) is None
        except LuthierError:
            return False

    for symbol in symbols:
        low, high = reach.range(symbol)
        for value in reach.above(symbol):
            try:
                other = differs(symbol, value)
            except LuthierError:
                high = symbol.high
                break
            if other is not None:
                why = other
                break
            high = value
        for value in reach.below(symbol) if downwards else ():
            if not below_holds(symbol, value):
                low = _between(value, low, partial(below_holds, symbol))
                break
            low = value
        found.append(replace(symbol, low=low, high=high))
    return tuple(found), why


def _between(bad: int, good: int, holds: Callable[[int], bool]) -> int:
    """The smallest size above a bad one for which something holds, as it does for a good one."""
    while good - bad > 1:
        middle = (bad + good) // 2
        bad, good = (bad, middle) if holds(middle) else (middle, good)
    return good
