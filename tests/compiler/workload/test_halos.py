"""Halos: a value that convolutions of several reaches read is right for all of them, whatever border it has."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from compiler.pipeline import compile_program, load_graph, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from compiler.workload.evaluate import evaluate_program
from tests.compiler.frontend.models import model
from tests.onnx_runtime import expected_outputs

Reader = tuple[tuple[int, int], tuple[int, int], int]
"""Kernel, dilations, stride; padded so that the extents stay, at stride 1."""


def readers(size: tuple[int, int], convolutions: list[Reader], groups: int = 1) -> onnx.ModelProto:
    """One computed value, and an output for each convolution that reads it."""
    rng = np.random.default_rng(0)
    nodes, weights = [helper.make_node("Sigmoid", ["x"], ["h"])], {}
    for place, (kernel, dilations, stride) in enumerate(convolutions):
        weights[f"w{place}"] = rng.standard_normal((8, 8 // groups, *kernel)).astype(np.float32)
        pads = [d * (k // 2) for k, d in zip(kernel, dilations, strict=True)] * 2
        attributes = {"pads": pads, "dilations": dilations, "strides": [stride] * 2, "group": groups}
        nodes.append(helper.make_node("Conv", ["h", f"w{place}"], [f"y{place}"], **attributes))
    return model(nodes, {"x": [1, 8, *size]}, weights, [f"y{place}" for place in range(len(convolutions))])


@pytest.mark.parametrize(
    ("size", "convolutions"),
    [
        ((16, 16), [((3, 3), (9, 9), 1)]),  # most of it is border
        ((16, 16), [((3, 3), (9, 9), 1), ((3, 3), (1, 1), 1)]),  # a small border beside a test
        ((5, 40), [((5, 5), (2, 2), 1), ((3, 3), (1, 1), 2)]),
        ((3, 3), [((3, 3), (1, 1), 1), ((1, 5), (1, 1), 1)]),
        ((40, 5), [((7, 1), (6, 1), 1), ((1, 3), (1, 4), 1)]),
    ],
)
@pytest.mark.parametrize("groups", [1, 8])
def test_every_reader_gets_zeros_outside(
    size: tuple[int, int], convolutions: list[Reader], groups: int
) -> None:
    proto = readers(size, convolutions, groups)
    graph = load_graph(proto)
    program = lower(graph)
    inputs = {"x": np.random.default_rng(1).standard_normal(graph.inputs["x"].sizes).astype(np.float32)}
    expected = expected_outputs(proto, inputs)
    module = compile_program(program, native_target(), 2, NoSource())
    for _ in range(2):
        got = module.run(inputs)
    exact = evaluate_program(program, inputs)
    module.close()
    for name, array in expected.items():
        np.testing.assert_allclose(exact[name], array, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4)
