"""Taps that only ever see padding are no part of a convolution: of gaps that are wider than the image one is left."""

from __future__ import annotations

import pytest
from onnx import helper

from compiler.frontend.windows import Window
from compiler.pipeline import load_graph, lower
from tests.compiler.frontend.cases import weights
from tests.compiler.frontend.models import model


@pytest.mark.parametrize(
    ("window", "seen"),
    [
        (Window(9, 3, 1, 2, 2, 2, 9), range(3)),
        (Window(9, 3, 1, 8, 8, 8, 9), range(3)),
        (Window(9, 3, 1, 9, 9, 9, 9), range(1, 2)),
        (Window(9, 3, 1, 40, 40, 40, 9), range(1, 2)),
        (Window(4, 4, 1, 3, 9, 0, 4), range(2, 4)),
        (Window(4, 4, 1, 3, 0, 9, 4), range(2)),
        (Window(4, 2, 1, 9, 5, 9, 2), range(1)),
    ],
)
def test_what_sees_the_input(window: Window, seen: range) -> None:
    assert window.seen == seen
    narrow = window.narrowed(seen)
    places = [[window.index(o, t) for t in seen] for o in range(window.outputs)]
    assert [[narrow.index(o, t) for t in range(len(seen))] for o in range(window.outputs)] == places


def test_of_gaps_wider_than_the_image_one_tap_is_left() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], dilations=[24, 24], pads=[24, 24, 24, 24])
    program = lower(load_graph(model([node], {"x": [1, 8, 16, 16]}, {"w": weights(4, 8, 3, 3)})))
    (anchor,) = (s for g in program.subgraphs for s in g.workload.stages if s.reducer is not None)
    assert anchor.points == 4 * 8 * 16 * 16
