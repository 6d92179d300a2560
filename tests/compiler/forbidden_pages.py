"""Arrays whose neighbouring pages must not be read: who does so ends with a segmentation fault."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_NO_ACCESS = 0


def between_forbidden_pages(array: np.ndarray, *, at_end: bool) -> np.ndarray:
    """A copy that begins right behind a page that must not be read, or ends right before one. It is never freed."""
    pages = -(-array.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for page in (0, pages + 1):
        address = ctypes.c_void_p(base + page * mmap.PAGESIZE)
        if libc.mprotect(address, ctypes.c_size_t(mmap.PAGESIZE), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "a page could not be forbidden")
    start = mmap.PAGESIZE + (pages * mmap.PAGESIZE - array.nbytes if at_end else 0)
    copy = np.frombuffer(memory, np.uint8, array.nbytes, start)
    copy[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return copy.view(array.dtype).reshape(array.shape)
