"""Looks at one shape: the least disturbed figures of each contender count."""

from __future__ import annotations

import pytest

from benchmarks.bars import bound_share, is_short, peak_share
from benchmarks.looks import joined
from tests.benchmarks.test_bars import row


def test_a_shape_below_its_bar_is_short() -> None:
    assert not is_short(row("a", "ragged", 9.0))
    assert is_short(row("a", "ragged", 10.0))
    assert is_short(row("a", "memory", 9.0))  # slower than a peer
    assert not is_short(row("a", "other", 90.0))
    assert not is_short({"shape": "a", "group": "ragged", "threads": 1, "refused": "no such operator"})


def test_of_two_looks_the_faster_times_and_the_higher_ceilings_count() -> None:
    slow = row("a", "ragged", 20.0, bound_us=7.0, algorithms=["parts(32,)"])
    slow["ceilings"]["multiply_add"], slow["model"]["openvino"] = 30e6, {"median_us": 12.0}
    quick = row("a", "ragged", 10.0)
    del quick["model"]["onnxruntime"]
    for both in (joined(slow, quick), joined(quick, slow)):
        assert both["kernel"]["tuned"]["median_us"] == 10.0
        assert both["algorithms"] == []
        assert bound_share(both) == pytest.approx(0.7)
        assert peak_share(both) == pytest.approx(200 / 10e-6 / 30e6)
        assert {k: f["median_us"] for k, f in both["model"].items()} == {
            "default": 30.0,
            "tuned": 20.0,
            "onnxruntime": 25.0,
            "openvino": 12.0,
        }
    assert joined(joined(slow, quick), quick)["looks"] == 3
