"""The summary of `benchmarks.kernels`, over rows made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.bars import Bar, bars, best_peer, is_short, peak_share, peer_ratio
from benchmarks.kernel_shapes import GROUPS
from benchmarks.kernels import select, table_line
from benchmarks.roofline_plot import roofline_svg
from luthier import InputError


def row(shape: str, group: str, tuned_us: float, threads: int = 1, **changes: Any) -> dict[str, Any]:
    """100 multiply-adds of a bound of 8 us, on a machine of 20e6 operations a second."""
    figures = {"p10_us": tuned_us, "p90_us": tuned_us}
    rates = {"multiply_add": 20e6, "l1": 4e7, "l2": 3e7, "l3": 2e7, "memory": 1e7}
    return {
        "shape": shape,
        "group": group,
        "threads": threads,
        "multiply_adds": 100,
        "operations": 200,
        "bytes": 50,
        "bound_us": 8.0,
        "bound_by": "multiply_add",
        "disturbed": {"kernel tuned": 0.25},
        "ceilings": rates,
        "kernel": {
            "default": {"median_us": 2 * tuned_us, **figures},
            "tuned": {"median_us": tuned_us, **figures},
        },
        "model": {
            "default": {"median_us": 30.0},
            "tuned": {"median_us": 20.0},
            "onnxruntime": {"median_us": 25.0},
            "openvino": {"median_us": 19.0},
        },
        "refused_peers": {"torch": "torch refuses the model"},
        "errors": {"luthier": 1e-7},
        "algorithms": [],
        **changes,
    }


def bar(found: list[Bar], title: str) -> Bar:
    return next(b for b in found if b.title.startswith(title))


def test_shares_and_ratios_of_a_row() -> None:
    example = row("a", "contraction", 10.0)
    assert peak_share(example) == pytest.approx(1.0)
    assert best_peer(example) == ("openvino", 19.0)
    assert peer_ratio(example) == pytest.approx(0.95)
    assert peer_ratio(row("a", "memory", 10.0, model={"tuned": {"median_us": 1.0}})) is None


def test_bars_name_the_shapes_that_fall_short() -> None:
    found = bars([row("good", "contraction", 10.0), row("bad", "contraction", 20.0)], None)
    worst = bar(found, "contraction: worst")
    assert (worst.value, worst.met, worst.short) == (pytest.approx(0.5), False, ("bad 0.50",))
    assert "MISSED   short: bad 0.50" in worst.line()
    assert bar(found, "contraction: median").value == pytest.approx(0.75)
    assert bar(found, "default").value == pytest.approx(0.5)


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    found = bars([row("a", "memory", 10.0)], None)
    assert bar(found, "ragged: worst").met is None
    assert "not measured" in bar(found, "build").line()
    assert bar(found, "memory: worst share").met is True
    assert bar(found, "memory: worst of best peer").short == ("a 0.95",)


def test_a_refused_shape_misses_its_bar() -> None:
    refused = {"shape": "q", "group": "int8", "threads": 1, "refused": "no such operator"}
    found = bars([refused], None)
    assert bar(found, "int8").met is False
    assert bar(found, "int8").short == ("q 0.00",)
    assert "refused: no such operator" in table_line(refused)


def test_two_threads_are_compared_with_one_in_their_turns_on_long_shapes_alone() -> None:
    long, short = (row(name, "ragged", us, threads=2) for name, us in (("long", 1000.0), ("short", 20.0)))
    long["kernel"]["alone"], short["kernel"]["alone"] = {"median_us": 1700.0}, {"median_us": 21.0}
    disturbed = row("long", "ragged", 5000.0)
    found = bar(bars([disturbed, long, short], None), "two threads")
    assert (found.value, found.short) == (pytest.approx(1.7), ("long 1.70 (memory 1.00)",))
    assert "over one thread 1.70" in table_line(long)
    assert is_short(long)
    assert not is_short(short)
    assert bar(bars([short, row("long", "ragged", 1000.0, threads=2)], None), "two threads").value is None


def test_a_short_gain_stands_beside_that_of_memory() -> None:
    two = row("long", "ragged", 1000.0, threads=2, ceilings={"memory": 1.1e7})
    two["kernel"]["alone"] = {"median_us": 1200.0}
    assert bar(bars([row("long", "ragged", 1200.0), two], None), "two threads").short == (
        "long 1.20 (memory 1.10)",
    )


def test_the_build_bar_is_an_upper_one() -> None:
    builds = {"median_ms": 31.0, "slowest": "conv", "slowest_ms": 80.0}
    found = bar(bars([], builds), "build")
    assert (found.met, found.short) == (False, ("conv 80 ms",))
    assert bar(bars([], {**builds, "median_ms": 29.0}), "build").met is True


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_a_place_in_the_plot(group: str) -> None:
    assert "<circle" in roofline_svg([row("a", group, 5.0)])


def test_a_row_is_one_line_and_one_point() -> None:
    example = row("shape<&", "memory", 10.0)
    line = table_line(example)
    assert "openvino/ours 0.95" in line
    assert "torch refuses" in line
    svg = roofline_svg([example, row("b", "ragged", 5.0), {**row("c", "int8", 1.0), "refused": "no"}])
    assert svg.count("<circle") == 4
    assert "shape&lt;&amp;" in svg


def test_a_time_that_cannot_be_is_marked() -> None:
    assert "NOT IDLE" in table_line(row("a", "ragged", 7.0))
    assert "NOT IDLE" not in table_line(row("a", "ragged", 9.0))
    assert "NOT IDLE" not in table_line(row("a", "winograd", 7.0, algorithms=["winograd(4,)"]))


def test_shapes_are_chosen_by_pattern_and_group() -> None:
    assert {s.group for s in select([], ["ragged"])} == {"ragged"}
    assert len(select([], ["ragged"])) == 20
    assert all("conv3x3" in s.name for s in select(["conv3x3*"], ()))
    with pytest.raises(InputError, match="no shape matches nothing"):
        select(["nothing"], ())
