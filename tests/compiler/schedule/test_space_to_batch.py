"""Space to batch: convolutions of dilated windows as those of interleaved images, and Winograd's algorithm on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.evaluate import reference_outputs
from compiler.scalar import Guard
from compiler.scalar import rewrite as substituted
from compiler.schedule.convolution import find_convolution
from compiler.schedule.space_to_batch import find_dilation, space_to_batch
from compiler.schedule.winograd import winograd
from compiler.space.estimate import arithmetic_cycles
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.workloads import (
    convolution,
    depthwise,
    dilated,
    matmul,
    padded_convolution,
    random_operands,
)

WORKLOADS = {
    "no border": dilated((11, 12), 3, 4, 3, (2, 2)),
    "whole": dilated((8, 8), 3, 4, 3, (2, 2), pad=2),
    "ragged": dilated((9, 10), 3, 4, 3, (4, 4), pad=4),
    "wider than the image": dilated((5, 5), 3, 4, 3, (6, 6), pad=6),
    "little border": dilated((9, 9), 3, 4, 3, (3, 3), pad=1),
    "two that differ": dilated((9, 10), 3, 4, 3, (2, 3), pad=2),
    "gaps along one of them": dilated((9, 10), 3, 4, 3, (1, 3), pad=2),
    "a line": dilated((23,), 3, 4, 3, (4,), pad=4),
    "a volume": dilated((7, 8, 9), 2, 3, 2, (2, 2, 2), pad=1),
    "images": dilated((9, 10), 3, 4, 3, (2, 2), pad=2, images=(2,)),
}


def _agrees(workload: Workload, rewritten: Workload) -> None:
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    transformed = {n: t.apply(operands[n].astype(np.float64)) for n, t in rewritten.transforms.items()}
    got = reference_outputs(rewritten, {**operands, **transformed})["y0"]
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("tile", [(), (2,), (3,)])
@pytest.mark.parametrize("workload", [pytest.param(w, id=name) for name, w in WORKLOADS.items()])
def test_the_rewritten_workload_is_equivalent(workload: Workload, tile: tuple[int, ...]) -> None:
    rewritten = space_to_batch(workload, tile)
    _agrees(workload, rewritten)
    assert find_dilation(rewritten) is None


@pytest.mark.parametrize("rewrite", [lambda w: w, lambda w: winograd(w, (2,))])
def test_zeros_may_be_where_there_are_elements(rewrite: Callable[[Workload], Workload]) -> None:
    """As where only a part of what is padded was asked for."""
    workload = dilated((9, 10), 3, 4, 3, (2, 1), pad=2)
    guard = workload.stages[0].body.args[0]  # type: ignore[union-attr]
    assert isinstance(guard, Guard)
    some = tuple(replace(b, low=b.low + 2, high=b.high - 3) for b in guard.bounds)
    changed = workload.stages[0].rewritten(
        lambda body: substituted(body, lambda e: replace(guard, bounds=some) if e == guard else None)
    )
    narrow = replace(workload, stages=(changed, *workload.stages[1:]))
    _agrees(narrow, rewrite(space_to_batch(narrow, (2,))))


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("workload", [pytest.param(w, id=name) for name, w in WORKLOADS.items()])
def test_tiles_of_all_images_are_numbered_together(workload: Workload, m: int) -> None:
    spread = space_to_batch(workload, (m,))
    assert find_convolution(spread) is not None
    _agrees(workload, winograd(spread, (m,)))


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(convolution(7, 4, 3, 3), id="neighbours"),
        pytest.param(padded_convolution(7, 4, 3, 3, 2), id="stride"),
        pytest.param(depthwise(9, 4), id="depthwise"),
        pytest.param(matmul(4, 5, 6), id="matrices"),
    ],
)
def test_windows_without_gaps_are_none(workload: Workload) -> None:
    assert find_dilation(workload) is None
    with pytest.raises(ScheduleError, match="dilated window"):
        space_to_batch(workload, ())


def test_places_outside_of_the_image_cost_nothing() -> None:
    """Taps 30 places apart see an image of 32 places less than half of the time."""
    target = PRESETS["x86-64-v3"]
    far, near = (dilated((32, 32), 64, 64, 3, (gap, gap), pad=gap) for gap in (30, 1))
    share = arithmetic_cycles(far, target) / arithmetic_cycles(near, target)
    assert share == pytest.approx(((32 + 2 + 2) / 96) ** 2, rel=0.05)


@pytest.mark.parametrize(("gap", "algorithm"), [(2, "winograd"), (4, "winograd"), (30, "direct")])
def test_it_is_taken_without_measuring_where_it_is_cheaper(gap: int, algorithm: str) -> None:
    space = build_space(dilated((32, 32), 128, 128, 3, (gap, gap), pad=gap), PRESETS["x86-64-v3"], 1)
    assert str(space.values(space.default)["algorithm"]).startswith(algorithm)
