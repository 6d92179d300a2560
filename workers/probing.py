"""Measuring the machine's peaks, inside the child."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import numpy as np

from compiler.codegen.kernel import Kernel
from compiler.codegen.probes import arithmetic_probe, multiply_add_operations, read_probe
from compiler.runtime.loader import LoadedKernel
from compiler.target import Target, target_from_json
from workers import sandbox
from workers.frames import Frame

_SAMPLES = 5
_SAMPLE_NS = 5_000_000
_BEYOND_CACHES = 4


def serve(request: Frame, reply: Callable[[Frame], None]) -> None:
    """Answer with operations and bytes a second."""
    header = request.header
    reply(Frame(sandbox.enter(header["limits"])))
    target, threads = target_from_json(header["target"]), int(header["threads"])
    seconds = _best_s(arithmetic_probe(target, threads, "multiply_add"), threads)
    reads = []
    for limit, size in _sizes(target, threads):
        kernel = read_probe(target, threads, size)
        reads.append((limit, kernel.params[0].size_bytes / _best_s(kernel, threads)))
    reply(Frame({"operations_per_s": multiply_add_operations(target, threads) / seconds, "read": reads}))


def _sizes(target: Target, threads: int) -> list[tuple[int, int]]:
    """(largest size that fits, size to read) per level: half of each cache, and far more than the last."""
    levels = [threads * target.l1_bytes, threads * target.l2_bytes, target.l3_bytes]
    return [*((size, size // 2) for size in levels), (1 << 62, _BEYOND_CACHES * target.l3_bytes)]


def _best_s(kernel: Kernel, threads: int) -> float:
    arrays = [np.ones(param.sizes(), param.dtype.numpy) for param in kernel.params]
    pointers = [array.ctypes.data for array in arrays]
    with closing(LoadedKernel(kernel, threads)) as loaded:
        once_ns = max(1, loaded.time_ns(pointers, 1))
        runs = max(1, _SAMPLE_NS // once_ns)
        return min(loaded.time_ns(pointers, runs) for _ in range(_SAMPLES)) / runs * 1e-9
