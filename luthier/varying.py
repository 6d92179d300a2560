"""Numbers that differ from call to call: sizes of values, and whole numbers that a segment must know.

    boxes [48, 4], count 48   and then   boxes [52, 4], count 52   →   boxes [n, 4], count n

Numbers that were equal in all calls so far are taken for one symbol. 0 and 1 are no sizes like others: a dimension of
one is repeated where another is not, and nothing is computed where there are no elements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.frontend.limits import LARGEST
from compiler.frontend.segment import Given, Kind, Known, TensorKind, content
from compiler.symbol import Symbol
from compiler.workload.generalise import FAR_APART
from luthier.values import Value

LEAST = 2
_FEW, _TRIES = 2, 3
"""Calls that a structure has code of their own for, and how often code for all that follow is tried."""
_KEPT = 8
MOST_SYMBOLS = 3
"""A common form is lowered for so many sizes and five more, and its numbers are fitted by polynomials of them."""
_MOST_ELEMENTS = 16
"""Of a value whose elements are numbers of their own: a shape, a count, the ends of a slice."""

Numbers = tuple[int, ...]
Structure = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of some values, and all else that code for them depends on."""

    structure: Structure
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values whose numbers are symbols where a name stands.

    Attributes:
        needed: the values that must be known.
        numbers: in the order of `shape_of`.
    """

    structure: Structure
    needed: frozenset[Given]
    numbers: tuple[int | str, ...]
    symbols: tuple[Symbol, ...]

    def sizes(self, values: Mapping[str, Value], symbols: Sequence[Symbol]) -> dict[str, int] | None:
        """The symbols' values, within the ranges of `symbols`; None where the pattern does not fit."""
        shape = shape_of(values, self.needed)
        if shape.structure != self.structure:
            return None
        found: dict[str, int] = {}
        for number, wanted in zip(shape.numbers, self.numbers, strict=True):
            if (found.setdefault(wanted, number) if isinstance(wanted, str) else wanted) != number:
                return None
        fits = all(symbol.low <= found[symbol.name] <= symbol.high for symbol in symbols)
        return found if fits else None

    def kinds(self, values: Mapping[str, Value], sizes: Mapping[str, int]) -> dict[str, Kind]:
        """What such values are for some sizes."""
        numbers = iter([sizes[n] if isinstance(n, str) else n for n in self.numbers])
        return {name: _kind(values[name], Given(name), self.needed, numbers) for name in sorted(values)}


class Seen:
    """The calls of one structure that had no code yet."""

    def __init__(self) -> None:
        """None so far."""
        self._numbers: deque[Numbers] = deque(maxlen=_KEPT)
        self._calls = self._made = 0
        self._least = 0
        self.evaluated_s = 0.0
        """Seconds that calls took which NumPy evaluated."""

    @property
    def many(self) -> bool:
        """Whether there were more calls than those that have code of their own at once."""
        return self._calls > _FEW

    def add(self, shape: Shape) -> None:
        """Another call."""
        self._numbers.append(shape.numbers)
        self._calls += 1

    def pattern(self, shape: Shape, needed: frozenset[Given]) -> Pattern | None:
        """What to make code for that serves all calls so far; None where it is not time for that.

        `shape`: of the last one.
        """
        # Numbers may have been equal by chance: then what was made of them does not serve the next call.
        if self._calls <= _FEW or self._made == _TRIES:
            return None
        found = pattern_of(shape.structure, needed, self._numbers)
        if found is None or any(symbol.nominal < self._least for symbol in found.symbols):
            return None
        self._made += 1
        return found

    def has_none(self, pattern: Pattern) -> None:
        """A pattern has no code. Small numbers were tried with larger ones, which may have been too large."""
        if any(symbol.nominal < FAR_APART for symbol in pattern.symbols):
            self._least, self._made = FAR_APART, self._made - 1
        else:
            self._made = _TRIES


def pattern_of(structure: Structure, needed: frozenset[Given], seen: Sequence[Numbers]) -> Pattern | None:
    """The pattern of several calls; None where too many numbers go their own ways."""
    columns = list(zip(*seen, strict=True))
    varying = dict.fromkeys(column for column in columns if len(set(column)) > 1)
    if not 0 < len(varying) <= MOST_SYMBOLS:
        return None
    names = {column: f"s{place}" for place, column in enumerate(varying)}
    symbols = tuple(Symbol(name, LEAST, LARGEST, (max(column),)) for column, name in names.items())
    numbers = tuple(names.get(column, column[0]) for column in columns)
    return Pattern(structure, needed, numbers, symbols)


def shape_of(values: Mapping[str, Value], needed: Collection[Given]) -> Shape:
    """The numbers of values by name; `needed`: those that must be known."""
    numbers: list[int] = []
    structure = tuple(
        (name, _structure(values[name], Given(name), needed, numbers)) for name in sorted(values)
    )
    return Shape(structure, tuple(n for n in numbers if n >= LEAST))


def _structure(value: Value, given: Given, needed: Collection[Given], numbers: list[int]) -> Structure | None:
    """What of a value is no number; its numbers are added to those found."""
    if value is None:
        return None
    if isinstance(value, list):
        places = enumerate(value)
        return ("list", *(_structure(v, Given(given.name, place), needed, numbers) for place, v in places))
    known = value.array if isinstance(value, Known) else value
    if not isinstance(value, Known) and given not in needed:
        own = value.shape
        kind: tuple[Any, ...] = ("tensor", value.dtype)
    elif known.dtype.kind in "iu" and known.size <= _MOST_ELEMENTS:
        own = tuple(map(int, known.reshape(-1)))
        kind = ("known", known.dtype, known.shape)
    else:
        return ("known", value.content if isinstance(value, Known) else content(known))
    numbers.extend(own)
    return (*kind, *(n if n < LEAST else None for n in own))


def _kind(value: Value, given: Given, needed: Collection[Given], numbers: Iterator[int]) -> Kind:
    """What a value is with other numbers."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_kind(v, Given(given.name, place), needed, numbers) for place, v in enumerate(value))
    known = value.array if isinstance(value, Known) else value
    if not isinstance(value, Known) and given not in needed:
        return TensorKind(_renumbered(value.shape, numbers), value.dtype)
    if known.dtype.kind in "iu" and known.size <= _MOST_ELEMENTS:
        own = _renumbered(tuple(map(int, known.reshape(-1))), numbers)
        return np.array(own, known.dtype).reshape(known.shape)
    return known


def _renumbered(own: Sequence[int], numbers: Iterator[int]) -> Numbers:
    return tuple(n if n < LEAST else next(numbers) for n in own)
