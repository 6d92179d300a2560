from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from compiler.choice import default_schedule
from compiler.pipeline import build_kernel
from compiler.runtime.loader import LoadedKernel
from compiler.target import native_target
from tests.compiler.integers import SAFE, integer_matmul
from tests.compiler.workloads import gather_rows
from tests.faults.planted import HALO, SIZE, add_one, planted
from tuner.measure import FailureKind, MeasureFailed
from workers.case import Cases, make_case, make_operands, unwritten
from workers.verify import Shared, check


def test_operands_depend_on_seed_and_workload_only() -> None:
    first, again, other = (make_operands(add_one(), seed)["x"] for seed in (1, 1, 2))
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_reference_has_zeros_in_the_halo() -> None:
    case = make_case(add_one(), seed=0)
    expected = case.outputs["y"]

    inner = slice(HALO, HALO + SIZE)
    np.testing.assert_array_equal(expected.values[inner], case.operands["x"].astype(np.float64) + 1)
    assert not expected.values[:HALO].any()
    assert not expected.values[HALO + SIZE :].any()
    assert expected.written[inner].all()
    assert expected.written.sum() == SIZE
    assert expected.scale == np.abs(expected.values).max()


def test_outputs_start_poisoned_and_their_halo_zero() -> None:
    expected = make_case(add_one(), seed=0).outputs["y"]
    initial = expected.initial.view(np.float32)
    assert np.isnan(initial[expected.written]).all()
    assert not initial[~expected.written].any()
    assert unwritten(expected, expected.initial) == SIZE


def test_a_case_is_made_once_per_seed() -> None:
    cases = Cases()
    case = cases.case(add_one(), seed=3)
    assert cases.case(add_one(), seed=3) is case
    other = cases.case(add_one(), seed=4)
    assert not np.array_equal(other.outputs["y"].values, case.outputs["y"].values)


def test_only_the_newest_cases_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.case._KEPT_BYTES", 1)
    cases = Cases()
    first = cases.case(add_one(), seed=0)
    cases.case(add_one(), seed=1)
    again = cases.case(add_one(), seed=0)
    assert again is not first
    np.testing.assert_array_equal(again.outputs["y"].values, first.outputs["y"].values)


def test_whole_numbers_are_drawn_from_their_whole_range_and_must_be_exact() -> None:
    workload = integer_matmul(24, 40, 16, bound=SAFE)
    operands = make_operands(workload, 0)
    assert operands["x0"].min() == 0
    assert operands["x0"].max() == 255
    assert (operands["c0"].min(), operands["c0"].max()) == (-SAFE, SAFE)

    case = make_case(workload, 0)
    kernel = build_kernel(workload, default_schedule(workload, native_target(), 1), native_target())
    loaded = LoadedKernel(kernel, 1)
    try:
        with closing(Shared(case, [kernel])) as shared, shared.guarded(kernel) as arguments:
            arguments.reset()
            loaded.run(list(arguments.pointers))
            assert check(arguments, case, 1e-5) == 0.0
            (output,) = (w for w in arguments.written if w.param.role == "output")
            output.buffer.data[7] ^= 2
            failed = check(arguments, case, 1e-5)
            assert isinstance(failed, MeasureFailed)
            assert failed.kind is FailureKind.WRONG_OUTPUT
    finally:
        loaded.close()


def test_candidates_of_a_heat_are_timed_on_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for one that needs so much scratch memory that there may be no room for it."""
    monkeypatch.setattr("workers.verify._MOST_SHARED_BYTES", 1 << 20)
    small, large, huge = (planted(scratch=count).kernel for count in (100, 100_000, 1_000_000))
    with closing(Shared(make_case(add_one(), 0), [small, large, huge])) as shared:
        timed = [shared.timed(kernel).pointers for kernel in (small, large, huge)]
        assert timed[0] == timed[1]
        assert timed[2][:2] == timed[0][:2]
        assert timed[2][2] != timed[0][2]
        with shared.guarded(small) as one, shared.guarded(large) as other:
            assert one.pointers[2] != other.pointers[2]
            assert [w.param.name for w in one.written] == ["y", "t"]
        assert shared.intact


def test_indices_are_valid_from_either_end_and_cover_the_table() -> None:
    indices = make_operands(gather_rows(31, 5, 2000), seed=0)["x0"]
    assert sorted(set(indices.tolist())) == list(range(-31, 31))
