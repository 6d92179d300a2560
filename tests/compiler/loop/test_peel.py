"""Borders get code of their own, as far as a phase has room for it."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from onnx import helper

from compiler.choice import default_schedule
from compiler.codegen.nest import emit_nest
from compiler.loop.count import LOOP_LIMIT
from compiler.pipeline import build_nest, compile_program, load_graph, lower
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


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "wasm32"])
def test_a_loop_that_stays_whole_has_its_shorter_tile_apart(target: str) -> None:
    """Borders of a tall window multiply with those of its rows; of 26 rows the last tile of four has two."""
    random = np.random.default_rng(0)
    nodes = [helper.make_node("ConvTranspose", ["x", "kernel"], ["y"], pads=[0, 1, 0, 1])]
    constants = {"kernel": random.standard_normal((16, 1, 7, 3)).astype(np.float32)}
    network = model(nodes, {"x": (1, 16, 20, 37)}, constants)
    inputs = {"x": random.standard_normal((1, 16, 20, 37)).astype(np.float32)}
    program = lower(load_graph(network))
    chosen = native_target() if target == "native" else get_target(target)
    for subgraph in program.subgraphs:
        emit_nest(build_nest(subgraph.workload, default_schedule(subgraph.workload, chosen, 1)), chosen)
    if target == "native":
        with closing(compile_program(program, chosen, 1, NoSource())) as module:
            got, wanted = module.run(inputs)["y"], expected_outputs(network, inputs)["y"]
            np.testing.assert_allclose(got, wanted, atol=1e-4)
