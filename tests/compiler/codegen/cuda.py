"""A real GPU, by NVIDIA's driver alone: it makes machine code of PTX text and runs it as `launch` says.

Each buffer lies between bytes that nobody may write; what is outside all of them is the driver's to notice.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

GUARD_BYTES = 1 << 12
_GUARD = 0xA5
_LOG_BYTES = 1 << 14
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
"""Options of cuModuleLoadDataEx."""


@dataclass(frozen=True)
class Phase:
    """A kernel's phase as text, its function, and the blocks and threads with which it is started."""

    text: str
    symbol: str
    blocks: tuple[int, ...]
    threads: tuple[int, ...]


def run_phases(phases: Sequence[Phase], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the arrays hold after one run of all phases, which get their addresses; skips without a GPU."""
    gpu = _gpu()
    with gpu.memory([_guarded(array) for array in arrays]) as places:
        pointers = [place + GUARD_BYTES for place in places]
        for phase in phases:
            gpu.run(phase, pointers)
        found = [gpu.read(p, a.nbytes + 2 * GUARD_BYTES) for p, a in zip(places, arrays, strict=True)]
    for number, data in enumerate(found):
        beside = np.concatenate((data[:GUARD_BYTES], data[-GUARD_BYTES:]))
        assert (beside == _GUARD).all(), f"wrote beside array {number}"
    return [
        data[GUARD_BYTES:-GUARD_BYTES].view(array.dtype).reshape(array.shape)
        for data, array in zip(found, arrays, strict=True)
    ]


def _guarded(array: np.ndarray) -> np.ndarray:
    guard = np.full(GUARD_BYTES, _GUARD, np.uint8)
    return np.concatenate((guard, np.ascontiguousarray(array).reshape(-1).view(np.uint8), guard))


class _Gpu:
    """The first GPU of this machine, by the names of the driver's C interface."""

    def __init__(self, driver: ctypes.CDLL) -> None:
        self._driver = driver
        self._call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(code, ctypes.byref(text))
            message = f"{name}: {(text.value or b'').decode()} ({code})"
            raise RuntimeError(message)

    @contextmanager
    def memory(self, contents: Sequence[np.ndarray]) -> Iterator[list[int]]:
        """Addresses of copies."""
        places: list[int] = []
        try:
            for data in contents:
                place = ctypes.c_uint64()
                self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(data.nbytes))
                places.append(place.value)
                source = ctypes.c_void_p(data.ctypes.data)
                self._call("cuMemcpyHtoD_v2", place, source, ctypes.c_size_t(data.nbytes))
            yield places
        finally:
            for address in places:
                self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def read(self, address: int, count: int) -> np.ndarray:
        """So many bytes."""
        found = np.empty(count, np.uint8)
        source = ctypes.c_uint64(address)
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), source, ctypes.c_size_t(count))
        return found

    def run(self, phase: Phase, pointers: Sequence[int]) -> None:
        """Run one phase to its end."""
        module, function = self._load(phase.text), ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), module, phase.symbol.encode())
        values = [ctypes.c_uint64(pointer) for pointer in pointers]
        addresses = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = [ctypes.c_uint(size) for size in (*phase.blocks, *phase.threads, 0)]
        self._call("cuLaunchKernel", function, *sizes, None, addresses, None)
        self._call("cuCtxSynchronize")
        self._call("cuModuleUnload", module)

    def _load(self, text: str) -> ctypes.c_void_p:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            self._call("cuModuleLoadDataEx", ctypes.byref(module), text.encode(), 2, options, values)
        except RuntimeError as error:
            message = f"{error}\n{log.value.decode()}"
            raise RuntimeError(message) from error
        return module


@cache
def _gpu() -> _Gpu:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("this machine has no driver of an NVIDIA GPU")
    return _Gpu(driver)
