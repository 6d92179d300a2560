"""Short sums that are stored far away stand in tiles of few sums, where a core needs few multiply-adds in flight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.space.rules import build_space
from compiler.target import PRESETS, Target
from tests.compiler.workloads import convolution

WHOLE = replace(PRESETS["x86-64-v4"], l1_bytes=32 << 10, l2_bytes=1 << 20)
HALVED = replace(WHOLE, cpu="znver4")


def sums(size: int, ic: int, oc: int, target: Target) -> int:
    space = build_space(convolution(size, ic, oc, 1), target, 1)
    values = space.values(space.default)
    assert isinstance(values["rows"], int)
    assert isinstance(values["vectors"], int)
    return values["rows"] * values["vectors"]


@pytest.mark.parametrize(
    ("size", "ic", "oc", "target", "few"),
    [
        pytest.param(56, 64, 256, HALVED, True, id="3.2 MB of sums of 64"),
        pytest.param(56, 96, 256, HALVED, False, id="sums of 96"),
        pytest.param(28, 64, 256, HALVED, False, id="0.8 MB"),
        pytest.param(56, 64, 256, WHOLE, False, id="two multiply-adds a cycle"),
    ],
)
def test_lines_of_a_tile_are_not_stored_all_at_once(
    size: int, ic: int, oc: int, target: Target, *, few: bool
) -> None:
    assert (sums(size, ic, oc, target) <= 12) is few
