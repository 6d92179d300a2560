"""Packing: how a constant is rearranged before the first run; and what a kernel's pointers are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from compiler.dtype import DType
from compiler.elementary import LARGEST_BF16
from compiler.three_bytes import shorten

Role = Literal["input", "constant", "output", "scratch"]
"""What a kernel's pointer is for; scratch is memory that phases of the kernel hand to each other."""


_COLUMNS = 1024


@dataclass(frozen=True, slots=True)
class Transform:
    """A linear map over the innermost dimensions of a constant, computed in float64 before the first run.

    result[..., k] = sum_j matrix[k][j] * source[..., j], the source taken in the given shape and order.

    Attributes:
        dtype: element type of the result; None for the source's own.
        order: in which the dimensions of the shape are taken; empty: as they are.
        combined: so many of the last are one, `j`.
    """

    shape: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]
    dtype: DType | None = None
    order: tuple[int, ...] = ()
    combined: int = 1

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The transformed array."""
        return self.rows(self.view(array))

    def view(self, array: np.ndarray) -> np.ndarray:
        """The array in the shape and the order that the map takes it in."""
        shaped = array.reshape(self.shape)
        return shaped.transpose(self.order) if self.order else shaped

    def rows(self, part: np.ndarray) -> np.ndarray:
        """What becomes of some of the array's elements along its first dimension."""
        matrix = np.array(self.matrix, np.float64)
        columns = part.reshape(-1, matrix.shape[1])
        # Each row of the matrix gives a block of memory: packed arrays mostly have these blocks one after the other.
        found = np.empty((len(matrix), len(columns)), part.dtype if self.dtype is None else self.dtype.numpy)
        for start in range(0, len(columns), _COLUMNS):  # what is computed in float64 stays in the caches
            block = columns[start : start + _COLUMNS].astype(np.float64)
            found[:, start : start + len(block)] = matrix @ block.T
        return np.moveaxis(found.reshape(-1, *part.shape[: -self.combined]), 0, -1)


@dataclass(frozen=True, slots=True)
class Parts:
    """Each float as a sum of short ones: the nearest, the nearest to what that leaves, and so on.

    result[..., k] = the k-th of `count` numbers of type `dtype` whose sum is source[...], nearly

    All but the last are finite.

    Attributes:
        order: in which the dimensions of the source are taken; empty: as they are.
        joined: so many of the last are one.
    """

    count: int
    dtype: DType = DType.BF16
    order: tuple[int, ...] = ()
    joined: int = 1

    def view(self, array: np.ndarray) -> np.ndarray:
        """The array in the order and the shape that it is taken in."""
        ordered = array.transpose(self.order) if self.order else array
        return ordered.reshape(*ordered.shape[: ordered.ndim - self.joined], -1)

    def rows(self, part: np.ndarray) -> np.ndarray:
        """What becomes of some of the array's elements along its first dimension."""
        found = np.empty((self.count, *part.shape), self.dtype.numpy)
        rest = part
        for number in range(self.count):
            found[number] = np.clip(rest, -LARGEST_BF16, LARGEST_BF16) if number < self.count - 1 else rest
            rest = rest - found[number].astype(part.dtype)
        return np.moveaxis(found, 0, -1)


@dataclass(frozen=True, slots=True)
class Shortened:
    """Each float in three bytes: the nearest of those numbers."""

    @property
    def dtype(self) -> DType:
        """Element type of the result."""
        return DType.F24

    def view(self, array: np.ndarray) -> np.ndarray:
        """The array as it is taken."""
        return array

    def rows(self, part: np.ndarray) -> np.ndarray:
        """What becomes of some of the array's elements along its first dimension."""
        return shorten(part)


@dataclass(frozen=True, slots=True)
class Packing:
    """How a constant is rearranged once, before the first run.

    packed[i] = source[start + sum_k coefficients[k] * i[k]] per source dimension, and 0 outside the source.

    Attributes:
        source: name of the operand it is made from.
        shape: extents of the packed array.
        coefficients: per packed dimension, one factor per source dimension.
        transform: what is done to the source before; its result then stands for the source.
        dtype: element type of the packed array, which holds all values of the source; None for the source's own.
        start: where the part of the source begins that is read; its first element where empty, and where a transform
            gives another shape.
    """

    source: str
    shape: tuple[int, ...]
    coefficients: tuple[tuple[int, ...], ...]
    transform: Transform | Parts | Shortened | None = None
    dtype: DType | None = None
    start: tuple[int, ...] = ()

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed copy of a source array."""
        packed = np.empty(self.shape, self.element_type(array.dtype))
        self.fill(packed, array)
        return packed

    def element_type(self, source: np.dtype[Any]) -> np.dtype[Any]:
        """Of the packed array, by that of the source."""
        transformed = None if self.transform is None else self.transform.dtype
        found = self.dtype or transformed
        return source if found is None else found.numpy

    def fill(self, packed: np.ndarray, array: np.ndarray) -> None:
        """Write the packed copy of a source array. A transformed source is never in memory as a whole.

        packed: of `shape`; it may be of any element type that holds all values of the source.
        """
        part = array[tuple(slice(first, None) for first in self.start)]
        if self.transform is None:
            packed[...] = _moved(part, self.shape, self.coefficients)
            return
        source = self.transform.view(part)
        along = max(range(len(self.shape)), key=lambda dim: self.coefficients[dim][0])
        step = self.coefficients[along][0]
        if not step:
            packed[...] = _moved(self.transform.rows(source), self.shape, self.coefficients)
            return
        shape = (*self.shape[:along], *self.shape[along + 1 :])
        coefficients = (*self.coefficients[:along], *self.coefficients[along + 1 :])
        reach = _reach(shape, coefficients, 0)
        for place in range(self.shape[along]):
            part = self.transform.rows(source[place * step : place * step + reach])
            np.moveaxis(packed, along, 0)[place] = _moved(part, shape, coefficients)


def _moved(
    array: np.ndarray, shape: tuple[int, ...], coefficients: tuple[tuple[int, ...], ...]
) -> np.ndarray:
    """A view of the array, or of a copy of it with zeros behind, that looks as if it were packed."""
    wanted = [_reach(shape, coefficients, dim) for dim in range(array.ndim)]
    padding = [(0, max(0, reach - size)) for reach, size in zip(wanted, array.shape, strict=True)]
    padded = np.pad(array, padding) if any(p for _, p in padding) else array
    strides = [sum(c * s for c, s in zip(cs, padded.strides, strict=True)) for cs in coefficients]
    return np.lib.stride_tricks.as_strided(padded, shape, strides, writeable=False)


def _reach(shape: tuple[int, ...], coefficients: tuple[tuple[int, ...], ...], dim: int) -> int:
    """How many elements of a source dimension are looked at, from the first on."""
    return 1 + sum((n - 1) * c[dim] for n, c in zip(shape, coefficients, strict=True))
