"""Arrays that begin where a cache line and a vector do."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from compiler.workload.program import ALIGNMENT

Array = np.ndarray[Any, Any]


def aligned_bytes(size: int) -> Array:
    """Fresh memory, not set."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A fresh array, not set."""
    return aligned_bytes(prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def aligned(array: Array) -> Array:
    """The array itself where it is dense and begins so, else a copy that does."""
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy
