"""Buffers between guard pages, so that an access outside them is a fault and not somebody else's data."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.workload.program import ALIGNMENT, STAGGER, STAGGERED_BYTES

GUARD_BYTES = 1 << 20

_PAGE = mmap.PAGESIZE
_REDZONE = 0xA5
_PROT_NONE = 0
_MAP_FAILED = ctypes.c_void_p(-1).value


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


_LIBC = _libc()


class GuardedBuffer:
    """Guard pages, redzone, data, guard pages.

    The data ends where the back guard begins. Once aligned, it starts as the runtime places it instead: at a multiple
    of 64 bytes or, where it is large, at a given place of a page; redzone follows. Once locked, a write to it is a
    fault too.
    """

    def __init__(self, size_bytes: int, *, written: bool = False) -> None:
        """Map it; raises MemoryError where there is no room. `written`: by what reads others."""
        large = size_bytes >= STAGGERED_BYTES
        place = STAGGER if written and large else 0
        space = -(-max(size_bytes + place, 1) // _PAGE) * _PAGE
        self._start_aligned = place if large else space - -(-size_bytes // ALIGNMENT) * ALIGNMENT
        self._space, self._length = space, space + 2 * GUARD_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        base = _LIBC.mmap(None, self._length, _PROT_NONE, flags, -1, 0)
        if base == _MAP_FAILED or base is None:
            raise MemoryError
        self._base: int = base
        inner = self._base + GUARD_BYTES
        if _LIBC.mprotect(inner, space, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
            self.close()
            raise MemoryError
        self._size = size_bytes
        whole = (ctypes.c_uint8 * space).from_address(inner)
        self._whole: npt.NDArray[np.uint8] = np.ctypeslib.as_array(whole)
        self._place(space - size_bytes)

    @property
    def is_aligned(self) -> bool:
        """Whether the data starts as the runtime places it."""
        return self._start == self._start_aligned

    def align(self) -> None:
        """Move the data to where it is aligned; where it was elsewhere, it is undefined now."""
        if not self.is_aligned:
            self._place(self._start_aligned)

    def lock(self) -> None:
        """From now on the data can only be read; raises MemoryError where the system refuses."""
        if _LIBC.mprotect(self._base + GUARD_BYTES, self._space, mmap.PROT_READ) != 0:
            raise MemoryError

    @property
    def address(self) -> int:
        """Where the data starts."""
        return self._base + GUARD_BYTES + self._start

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes; not to be used after `close`."""
        return self._whole[self._start : self._start + self._size]

    @property
    def intact(self) -> bool:
        """Whether the redzone is as it was."""
        return bool((self._front == _REDZONE).all() and (self._back == _REDZONE).all())

    def _place(self, start: int) -> None:
        self._start = start
        self._front, self._back = self._whole[:start], self._whole[start + self._size :]
        self._front[:] = _REDZONE
        self._back[:] = _REDZONE

    def close(self) -> None:
        """Unmap it. Safe to call twice."""
        if self._length:
            _LIBC.munmap(self._base, self._length)
            self._length = 0
