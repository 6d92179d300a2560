"""Extents: affine expressions over named symbols such as a batch or a sequence length.

A static model has no symbols and all its extents are constants. Schedules are made for constants: `specialise` a
Graph or a Workload first (substitution of every symbol), then split, tile and build.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import InputError
from compiler.index import Index


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named extent: its range (both ends included) and the values that matter most."""

    name: str
    low: int = 1
    high: int = 2**31 - 1
    hints: tuple[int, ...] = ()


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
