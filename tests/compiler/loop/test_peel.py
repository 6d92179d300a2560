"""Borders get code of their own, as far as a phase has room for it."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from onnx import helper

from compiler.loop.count import LOOP_LIMIT
from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import get_target, native_target
from tests.compiler.frontend.models import model
from tests.onnx_runtime import expected_outputs


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("strides", [[1, 1, 1], [1, 8, 8], [2, 4, 3]])
def test_windows_in_space_and_time_have_no_more_loops_than_there_may_be(
    target: str, strides: list[int]
) -> None:
    """Channels lie side by side, and are too many for one block: each border along each axis has loops over them."""
    random = np.random.default_rng(0)
    sizes, channels = (4, 18, 20), 96
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["t", "shape"], ["u"]),
        helper.make_node("Conv", ["u", "kernel"], ["y"], group=channels, strides=strides, pads=[1] * 6),
    ]
    constants = {
        "shape": np.array([1, channels, *sizes]),
        "kernel": random.standard_normal((channels, 1, 3, 3, 3)).astype(np.float32),
    }
    network = model(nodes, {"x": (1, int(np.prod(sizes)), channels)}, constants)
    inputs = {"x": random.standard_normal((1, int(np.prod(sizes)), channels)).astype(np.float32)}
    assert LOOP_LIMIT < 3**3 * 3
    chosen = native_target() if target == "native" else get_target(target)
    with closing(compile_program(lower(load_graph(network)), chosen, 2, NoSource())) as module:
        if target == "native":
            got, wanted = module.run(inputs)["y"], expected_outputs(network, inputs)["y"]
            np.testing.assert_allclose(got, wanted, atol=1e-4)
