"""Guards whose tests differ between lanes: what they become, and that chains of them stay short."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from onnx import helper

from compiler.choice import default_schedule
from compiler.loop.ir import Store, walk_statements
from compiler.pipeline import build_nest, compile_program, load_graph, lower
from compiler.scalar import walk
from compiler.schedule.source import NoSource
from compiler.target import get_target, native_target
from tests.compiler.frontend.models import model
from tests.onnx_runtime import expected_outputs
from tests.slow import slow

MOST = 400
"""Expressions of a store that nine phases end in."""


@pytest.mark.parametrize("strides", [slow([3, 1, 3]), [2, 2, 3], slow([1, 4, 4])])
def test_a_chain_of_guards_of_several_tests_is_not_copied_for_each_of_them(strides: list[int]) -> None:
    """Each phase is where one remainder along each axis is: copies multiplied by two or four."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "kernel"], ["t"], strides=strides, pads=[1] * 6),
        helper.make_node("LeakyRelu", ["t"], ["y"]),
    ]
    network = model(
        nodes,
        {"x": (1, 8, 6, 5, 10)},
        {"kernel": random.standard_normal((8, 1, 3, 3, 3)).astype(np.float32)},
    )
    program = lower(load_graph(network))
    for name in ("x86-64-v3", "x86-64-v4"):
        for subgraph in program.subgraphs:
            schedule = default_schedule(subgraph.workload, get_target(name), 1)
            nest = build_nest(subgraph.workload, schedule)
            values = [s.value for s in walk_statements(nest.body) if isinstance(s, Store)]
            assert max(sum(1 for _ in walk(value)) for value in values) < MOST
    inputs = {"x": random.standard_normal((1, 8, 6, 5, 10)).astype(np.float32)}
    with closing(compile_program(program, native_target(), 1, NoSource())) as module:
        np.testing.assert_allclose(
            module.run(inputs)["y"], expected_outputs(network, inputs)["y"], atol=1e-5, rtol=1e-4
        )
