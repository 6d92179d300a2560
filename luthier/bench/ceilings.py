"""Ceilings: what the machine can do at this moment, sampled in turn with the kernels that are held against it.

multiply_add   f32 operations a second            l1, l2, l3, memory   bytes read a second, again and again, from a
issue          vector instructions a second                            buffer that fills half of that cache (four
divide         vector divisions a second                               times the last cache for memory)
                                                  l1 copy, ...         bytes read and written a second, again and
                                                                       again, for the level that is asked for
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.codegen.probes import (
    ARITHMETIC,
    arithmetic_probe,
    copy_probe,
    probe_instructions,
    read_probe,
)
from compiler.runtime.loader import LoadedKernel
from compiler.target import Target

LEVELS = ("l1", "l2", "l3", "memory")
_BEYOND_CACHES = 4
_ALIGNMENT = 4096


@dataclass(frozen=True)
class Ceilings:
    """Rates of a team of threads.

    Attributes:
        lanes: f32 elements of a vector.
        rates: by name of the module's docstring; `multiply_add` in operations, `issue` and `divide` in vector
            instructions, levels in bytes, each a second.
        capacities: bytes of the team's caches by level; `memory` holds anything.
    """

    lanes: int
    rates: Mapping[str, float]
    capacities: Mapping[str, float]

    def level(self, size_bytes: int) -> str:
        """The nearest level that holds so many bytes."""
        return _level(self.capacities, size_bytes)

    def moved_s(self, read_bytes: int, written_bytes: int) -> float:
        """Least seconds to read and write so many bytes in the level that holds both.

        A written byte takes what a copied pair takes longer than a read byte: its line is fetched before it is
        changed, and later handed to the level above.
        """
        level = self.level(read_bytes + written_bytes)
        a_read, a_pair = 1 / self.rates[level], 2 / self.rates[copying(level)]
        return read_bytes * a_read + written_bytes * max(a_read, a_pair - a_read)


def _level(capacities: Mapping[str, float], size_bytes: int) -> str:
    return next(level for level in LEVELS if size_bytes <= capacities[level])


def copying(level: str) -> str:
    """The name of the rate at which a level is copied."""
    return f"{level} copy"


class Probes:
    """The loaded probes of one team size. Close it after use.

    What a level gives depends on how much of it is used, most of all near its capacity and in a last cache that others
    share. So the level that would hold `footprint_bytes` is probed with just as many, and it alone is copied too.
    """

    def __init__(self, target: Target, threads: int, footprint_bytes: int | None = None) -> None:
        """Build and load every probe."""
        self._target, self._threads, self._footprint = target, threads, footprint_bytes
        self._stack = ExitStack()
        self.samplers = {kind: self._load(arithmetic_probe(target, threads, kind)) for kind in ARITHMETIC}
        self._amounts = {kind: float(probe_instructions(target, threads, kind)) for kind in ARITHMETIC}
        self._amounts["multiply_add"] *= 2 * target.lanes(4)
        for level, size in self._sizes().items():
            self._add(level, kernel := read_probe(target, threads, size), kernel.params[0].size_bytes)
        if footprint_bytes is not None:
            kernel = copy_probe(target, threads, footprint_bytes)
            copied = sum(param.size_bytes for param in kernel.params)
            self._add(copying(_level(self._capacities, footprint_bytes)), kernel, copied)

    def ceilings(self, seconds: Mapping[str, float]) -> Ceilings:
        """Rates from the seconds that one run of each probe took."""
        rates = {name: self._amounts[name] / seconds[name] for name in self._amounts}
        return Ceilings(self._target.lanes(4), rates, self._capacities)

    def close(self) -> None:
        """End the probes' teams."""
        self._stack.close()

    @property
    def _capacities(self) -> dict[str, float]:
        caches = {"l1": self._threads * self._target.l1_bytes, "l2": self._threads * self._target.l2_bytes}
        return {**caches, "l3": self._target.l3_bytes, "memory": float("inf")}

    def _sizes(self) -> dict[str, int]:
        sizes = {name: int(size) // 2 for name, size in self._capacities.items() if name != "memory"}
        sizes["memory"] = _BEYOND_CACHES * self._target.l3_bytes
        if self._footprint is not None:
            sizes[_level(self._capacities, self._footprint)] = self._footprint
        return sizes

    def _add(self, name: str, kernel: Kernel, amount: int) -> None:
        self.samplers[name], self._amounts[name] = self._load(kernel), float(amount)

    def _load(self, kernel: Kernel) -> Sampler:
        return Sampler(kernel, self._threads, self._stack)


class Sampler:
    """Seconds per run of a loaded kernel on arrays of ones."""

    def __init__(self, kernel: Kernel, threads: int, stack: ExitStack) -> None:
        """Load it; `stack` closes it."""
        self._loaded = stack.enter_context(closing(LoadedKernel(kernel, threads)))
        self._arrays = [aligned(np.ones(param.sizes(), param.dtype.numpy)) for param in kernel.params]
        self._pointers = [array.ctypes.data for array in self._arrays]

    def __call__(self, runs: int) -> float:
        """Seconds per run over so many runs."""
        return self._loaded.time_ns(self._pointers, runs) / runs * 1e-9


def aligned(array: np.ndarray, place: int = 0) -> np.ndarray:
    """A copy that starts where a vector, a cache line and a page of memory do, or at another place of a page."""
    raw = np.empty(array.nbytes + 2 * _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT + place % _ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
