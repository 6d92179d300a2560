"""Extents: polynomials over named symbols such as a batch or a sequence length.

A static model has no symbols and all its extents are constants. What is decided by numbers (layouts, fusion, tiles) is
decided for the `nominal` value of each symbol; the code that comes of it holds for its whole range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from compiler.errors import InputError
from compiler.index import Index, Times, product_of

Size = int | Index
"""A number, or an expression over symbols that is not constant."""

_NOMINAL = 8


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named extent: its range (both ends included) and the values that matter most."""

    name: str
    low: int = 1
    high: int = 2**31 - 1
    hints: tuple[int, ...] = ()

    @property
    def nominal(self) -> int:
        """The value within the range for which schedules are chosen: the first hint, else a small batch."""
        return max(self.low, min(self.high, self.hints[0] if self.hints else _NOMINAL))


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of an iteration space: the name runs over 0 .. extent - 1."""

    name: str
    extent: Index

    @property
    def size(self) -> int:
        """The extent as a number; raises InputError where a symbol is left in it."""
        return static(self.extent, self.name)


def axis(name: str, extent: Index | int) -> Axis:
    """Build an Axis."""
    return Axis(name, Index.of(extent))


def static(extent: Index, what: str) -> int:
    """The extent as a number; raises InputError where a symbol is left in it."""
    value = extent.constant
    if value is None:
        msg = (
            f"the extent of {what} is {extent}, not a number; give its symbols values with --shape NAME=1,128"
        )
        raise InputError(msg)
    return value


def as_size(extent: Index) -> Size:
    """The number where the extent is one, else the expression."""
    value = extent.constant
    return extent if value is None else value


def size_at(size: Size, values: Mapping[str, int]) -> int:
    """The number under values of the symbols; raises InputError where one is missing."""
    if isinstance(size, int):
        return size
    return static(size.substitute({name: Index.of(value) for name, value in values.items()}), "a tensor")


def product(extents: Iterable[Index]) -> Index:
    """Product of extents."""
    return product_of(extents)


def divides(factor: int, extent: Index) -> bool:
    """Whether the extent is a multiple of the factor, whatever its symbols are."""
    return extent.const % factor == 0 and all(
        coefficient % factor == 0 and isinstance(atom, str | Times) for atom, coefficient in extent.terms
    )


def ceiling(extent: Index, factor: int) -> Index:
    """The extent divided by a positive number, rounded up."""
    if all(coefficient % factor == 0 for _, coefficient in extent.terms):
        whole = extent - extent.const
        return whole // factor + -(-extent.const // factor)
    return (extent + (factor - 1)) // factor


def corners(symbols: Iterable[Symbol]) -> list[dict[str, int]]:
    """Every combination of the ends of the ranges; one empty combination where there are no symbols."""
    found: list[dict[str, int]] = [{}]
    for symbol in symbols:
        ends = dict.fromkeys((symbol.low, symbol.high))
        found = [{**values, symbol.name: end} for values in found for end in ends]
    return found


def ranges_of(symbols: Iterable[Symbol]) -> dict[str, int]:
    """Ranges of symbols for `Index.bounds`, counted from 0 like all ranges."""
    return {symbol.name: symbol.high + 1 for symbol in symbols}


@lru_cache(maxsize=4096)
def row_major(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Strides in elements of a row-major buffer."""
    strides, step = [], Index.of(1)
    for size in reversed(shape):
        strides.append(as_size(step))
        step = step.times(Index.of(size))
    return tuple(reversed(strides))
