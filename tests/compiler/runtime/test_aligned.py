"""Fresh arrays begin where a vector does."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.aligned import (
    FOUR_LINES,
    HUGE_PAGE_BYTES,
    FreshOutput,
    aligned,
    aligned_empty,
    data_pointer,
)

LINE_BYTES = 64


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 7), (100, 1003)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.bool_])
def test_an_array_begins_where_a_trial_has_it(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    array = aligned_empty(shape, np.dtype(dtype))
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert data_pointer(array) == array.ctypes.data
    assert data_pointer(array) % FOUR_LINES == 0
    array[...] = 1
    assert array.flags.c_contiguous
    assert array.flags.writeable


def test_large_outputs_begin_where_a_line_does() -> None:
    """NumPy's own begin 16 bytes after a page or anywhere that is a multiple of 16."""
    fresh = FreshOutput((1, 64, 56, 56), np.dtype(np.float32))
    kept = [fresh() for _ in range(5)]
    assert all(data_pointer(array) % LINE_BYTES == 0 for array in kept)
    for number, array in enumerate(kept):
        array[...] = number
    assert [float(array.max()) for array in kept] == [0, 1, 2, 3, 4]


def test_what_is_aligned_is_not_copied() -> None:
    array = aligned_empty((8, 8), np.dtype(np.float32))
    assert aligned(array) is array
    array[...] = np.arange(64).reshape(8, 8)
    copy = aligned(array[:, 1:])
    assert data_pointer(copy) % LINE_BYTES == 0
    np.testing.assert_array_equal(copy, array[:, 1:])


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="a system without huge pages")
def test_large_arrays_are_in_huge_pages() -> None:
    array = aligned_empty((3, HUGE_PAGE_BYTES // 4), np.dtype(np.float32))
    address = data_pointer(array)
    assert address % HUGE_PAGE_BYTES == 0
    array[...] = 1
    assert array.sum() == array.size
    flags = [_flags_at(a) for a in (address, address + array.nbytes - 1)]
    assert all("hg" in found for found in flags), "advised to be in huge pages"


def test_an_array_that_finds_no_room_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        aligned_empty((1 << 60,), np.dtype(np.uint8))


def _flags_at(address: int) -> list[str]:
    """VmFlags of the mapping that holds an address (proc(5), smaps)."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            low, high = (int(part, 16) for part in first.split("-"))
            inside = low <= address < high
        elif inside and first == "VmFlags:":
            return line.split()[1:]
    return []
