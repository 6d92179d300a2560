"""The machine's peaks, measured by real probes."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from compiler.codegen.probes import ARITHMETIC, arithmetic_probe, copy_probe, read_probe
from compiler.runtime.loader import LoadedKernel
from compiler.target import PRESETS, native_target
from tests.compiler.workloads import add_relu, matmul
from workers.peaks import Peaks, measure_peaks


def test_peaks_of_this_machine() -> None:
    peaks = measure_peaks(native_target(), 1)
    assert peaks.operations_per_s > 1e9
    sizes = [size for size, _ in peaks.read_bytes_per_s]
    assert sizes == sorted(sizes)
    assert all(rate > 1e8 for _, rate in peaks.read_bytes_per_s)


def test_every_cpu_has_probes() -> None:
    for target in (t for t in PRESETS.values() if not t.grid_threads):
        for kind in ARITHMETIC:
            assert arithmetic_probe(target, 2, kind).phases[0].parallel_extent == 2
        assert read_probe(target, 2, 1 << 16).params[0].size_bytes == 1 << 16
        assert [p.size_bytes for p in copy_probe(target, 2, 1 << 16).params] == [1 << 15, 1 << 15]


def test_the_copy_probe_copies() -> None:
    kernel = copy_probe(native_target(), 2, 1 << 12)
    source = np.arange(kernel.params[0].size_bytes // 4, dtype=np.float32)
    copied = np.zeros_like(source)
    with closing(LoadedKernel(kernel, 2)) as loaded:
        loaded.time_ns([source.ctypes.data, copied.ctypes.data], 1)
    np.testing.assert_array_equal(copied, source)


def test_the_bound_is_arithmetic_or_memory() -> None:
    peaks = Peaks(1e9, ((1 << 10, 1e12), (1 << 62, 1e6)))
    product = matmul(64, 64, 64)
    assert peaks.bound_s(add_relu(4, 4)) == add_relu(4, 4).operations / 1e9
    assert peaks.bound_s(product) == sum(b.size_bytes for b in (*product.operands, *product.outputs)) / 1e6
