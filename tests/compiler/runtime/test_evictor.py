"""Memory that is driven out of the caches takes longer to read, and stays what it is."""

from __future__ import annotations

from time import perf_counter_ns

import numpy as np
import pytest

from compiler.codegen.evict import emit_evict
from compiler.runtime.loader import evictor
from compiler.target import PRESETS


def test_what_is_evicted_is_far_and_unchanged() -> None:
    evict = evictor()
    if evict is None:
        pytest.skip("programs on this processor have no instruction for it")
    data = np.arange(1 << 16, dtype=np.float32)  # 256 KiB: less than a second cache
    expected = data.copy()
    # A place in each line, in an order that no prefetcher follows: some cores read a run of far memory like a near one.
    places = np.random.default_rng(0).permutation(len(data) // 16) * 16

    def read_ns(*, far: bool) -> int:
        if far:
            evict(data.ctypes.data, data.nbytes)
        start = perf_counter_ns()
        data.take(places)
        return perf_counter_ns() - start

    # In turns, and the quickest of each: other work slows both, and what is near may be driven out by it.
    near, far = zip(*((read_ns(far=False), read_ns(far=True)) for _ in range(400)), strict=True)
    assert min(far) > 1.1 * min(near)
    np.testing.assert_array_equal(data, expected)


def test_targets_have_it_or_say_so() -> None:
    assert "clflush" in (emit_evict(PRESETS["x86-64-v4"]) or "")
    assert emit_evict(PRESETS["aarch64-cortex-a72"]) is None
