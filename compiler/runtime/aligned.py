"""Arrays that begin where a cache line and a vector do, and the addresses of arrays."""

from __future__ import annotations

import ctypes
import mmap
import platform
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from compiler.workload.program import ALIGNMENT

Array = np.ndarray[Any, Any]

HUGE_PAGE_BYTES = 2 << 20
"""Of x86-64 and aarch64. A pass over hundreds of megabytes of constants waits for their addresses to be looked up, page
by page, where pages are the usual ones."""
_IN_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)

FOUR_LINES = 256
"""What constants begin at a multiple of, as in trials: some kernels that read them from memory take a third longer or
shorter by which line of four is the first."""

_WORTH_BYTES = 16 << 10
"""Of an output: the few vectors of a smaller one that cross a line cost less time than finding where lines begin."""


_BYTE = np.dtype(np.uint8)
_size_at = ctypes.c_size_t.from_address


def aligned_bytes(size: int) -> Array:
    """Fresh memory, not set."""
    return aligned_empty((size,), _BYTE)


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A fresh array, not set; a large one is in huge pages where the system has them."""
    size = prod(shape) * dtype.itemsize
    if size >= HUGE_PAGE_BYTES and _IN_HUGE_PAGES is not None:
        raw, unit = _mapped(size + HUGE_PAGE_BYTES, _IN_HUGE_PAGES), HUGE_PAGE_BYTES
    else:
        raw, unit = np.empty(size + FOUR_LINES, _BYTE), FOUR_LINES
    return np.ndarray(shape, dtype, raw, -data_pointer(raw) % unit)


def _mapped(size: int, advice: int) -> Array:
    """A mapping of its own; what is never touched of it, takes no memory. Raises MemoryError, as NumPy does."""
    try:
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        msg = f"cannot allocate {size} bytes"
        raise MemoryError(msg) from error
    with suppress(OSError):  # A kernel without huge pages.
        mapping.madvise(advice)
    return np.frombuffer(mapping, _BYTE)


class FreshOutput:
    """Makes arrays of one shape and type, not set, aligned where that is worth the time.

    NumPy aligns to 16 bytes, so that three in four of the widest vectors' stores would cross a line.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Prepare for many calls."""
        self._shape, self._dtype = shape, dtype
        self._bytes = prod(shape) * dtype.itemsize

    def __call__(self) -> Array:
        """The next array."""
        if self._bytes < _WORTH_BYTES:
            return np.empty(self._shape, self._dtype)
        raw = np.empty(self._bytes + ALIGNMENT, _BYTE)
        return np.ndarray(self._shape, self._dtype, raw, -data_pointer(raw) % ALIGNMENT)


def aligned(array: Array) -> Array:
    """The array itself where it is dense and begins so, else a copy that does."""
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def data_pointer(array: Array) -> int:
    """The address of the first element."""
    if _DATA_OFFSET is None:
        return int(array.ctypes.data)
    # A tenth of the time of `.ctypes.data` and of `.__array_interface__`, which make objects that can do more.
    return _size_at(id(array) + _DATA_OFFSET).value


def _data_offset() -> int | None:
    """Where an array object has its pointer: right after what every object has, in NumPy's ABI. None elsewhere."""
    if platform.python_implementation() != "CPython":
        return None
    probe, offset = np.zeros(1), object.__basicsize__
    found = _size_at(id(probe) + offset).value
    return offset if found == probe.ctypes.data else None


_DATA_OFFSET = _data_offset()
