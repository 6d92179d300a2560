from __future__ import annotations

import numpy as np

from tests.faults.planted import HALO, SIZE, add_one
from workers.case import make_case, make_operands, reference_bytes, unwritten


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


def test_a_known_reference_gives_the_same_case() -> None:
    case = make_case(add_one(), seed=3)
    again = make_case(add_one(), seed=3, reference=reference_bytes(case))
    np.testing.assert_array_equal(case.outputs["y"].values, again.outputs["y"].values)
    np.testing.assert_array_equal(case.outputs["y"].initial, again.outputs["y"].initial)
