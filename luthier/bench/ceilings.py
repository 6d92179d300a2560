"""Ceilings: what the machine can do at this moment, sampled in turn with the kernels that are held against it.

multiply_add   f32 operations a second            l1, l2, l3, memory   bytes read a second, again and again, from a
issue          vector instructions a second                            buffer that fills half of that cache (four
divide         vector divisions a second                               times the last cache for memory)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.codegen.probes import ARITHMETIC, arithmetic_probe, probe_instructions, read_probe
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
        return next(level for level in LEVELS if size_bytes <= self.capacities[level])


class Probes:
    """The loaded probes of one team size. Close it after use."""

    def __init__(self, target: Target, threads: int) -> None:
        """Build and load every probe."""
        self._target, self._threads = target, threads
        self._stack = ExitStack()
        self.samplers = {kind: self._load(arithmetic_probe(target, threads, kind)) for kind in ARITHMETIC}
        self._amounts = {kind: float(probe_instructions(target, threads, kind)) for kind in ARITHMETIC}
        self._amounts["multiply_add"] *= 2 * target.lanes(4)
        for level, size in self._sizes().items():
            kernel = read_probe(target, threads, size)
            self.samplers[level] = self._load(kernel)
            self._amounts[level] = float(kernel.params[0].size_bytes)

    def ceilings(self, seconds: Mapping[str, float]) -> Ceilings:
        """Rates from the seconds that one run of each probe took."""
        caches = {"l1": self._threads * self._target.l1_bytes, "l2": self._threads * self._target.l2_bytes}
        capacities = {**caches, "l3": self._target.l3_bytes, "memory": float("inf")}
        rates = {name: self._amounts[name] / seconds[name] for name in self._amounts}
        return Ceilings(self._target.lanes(4), rates, capacities)

    def close(self) -> None:
        """End the probes' teams."""
        self._stack.close()

    def _sizes(self) -> dict[str, int]:
        l1, l2 = (self._threads * size // 2 for size in (self._target.l1_bytes, self._target.l2_bytes))
        return {
            "l1": l1,
            "l2": l2,
            "l3": self._target.l3_bytes // 2,
            "memory": _BEYOND_CACHES * self._target.l3_bytes,
        }

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


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts where a vector, a cache line and a page of memory do."""
    raw = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
