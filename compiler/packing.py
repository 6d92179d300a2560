"""Packing: how a constant is rearranged before the first run; and what a kernel's pointers are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from compiler.dtype import DType

Role = Literal["input", "constant", "output", "scratch"]
"""What a kernel's pointer is for; scratch is memory that phases of the kernel hand to each other."""


@dataclass(frozen=True, slots=True)
class Transform:
    """A linear map over the innermost dimension of a constant, computed in float64 before the first run.

    result[..., k] = sum_j matrix[k][j] * source[..., j], the source taken in the given shape.

    Attributes:
        dtype: element type of the result; None for the source's own.
    """

    shape: tuple[int, ...]
    matrix: tuple[tuple[float, ...], ...]
    dtype: DType | None = None

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The transformed array."""
        result = array.reshape(self.shape).astype(np.float64) @ np.array(self.matrix, np.float64).T
        return np.ascontiguousarray(result.astype(array.dtype if self.dtype is None else self.dtype.numpy))


@dataclass(frozen=True, slots=True)
class Packing:
    """How a constant is rearranged once, before the first run.

    packed[i] = source[sum_k coefficients[k] * i[k]] per source dimension, and 0 outside the source.

    Attributes:
        source: name of the operand it is made from.
        shape: extents of the packed array.
        coefficients: per packed dimension, one factor per source dimension.
        transform: what is done to the source before; its result then stands for the source.
        dtype: element type of the packed array, which holds all values of the source; None for the source's own.
    """

    source: str
    shape: tuple[int, ...]
    coefficients: tuple[tuple[int, ...], ...]
    transform: Transform | None = None
    dtype: DType | None = None

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed copy of a source array."""
        if self.transform is not None:
            array = self.transform.apply(array)
        reach = [
            1 + sum((n - 1) * c[d] for n, c in zip(self.shape, self.coefficients, strict=True))
            for d in range(array.ndim)
        ]
        padding = [(0, max(0, r - s)) for r, s in zip(reach, array.shape, strict=True)]
        padded = np.ascontiguousarray(np.pad(array, padding) if any(p for _, p in padding) else array)
        strides = [sum(c * s for c, s in zip(cs, padded.strides, strict=True)) for cs in self.coefficients]
        view = np.lib.stride_tricks.as_strided(padded, self.shape, strides, writeable=False)
        return np.ascontiguousarray(view if self.dtype is None else view.astype(self.dtype.numpy))
