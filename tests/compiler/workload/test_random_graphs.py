"""Partitioning keeps the values of any small convolutional graph, whatever is read twice, padded or given out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.graph.evaluate import evaluate_graph
from compiler.graph.inline_movement import InlineMovements
from compiler.graph.ir import Graph
from compiler.scalar import apply
from compiler.workload.evaluate import evaluate_program
from compiler.workload.partition import partition
from compiler.workload.verify import verify_program
from tests.compiler.workload.graphs import GraphBuilder, index, load, random_inputs

SMALL = st.integers(0, 1)


def _convolution(draw: st.DrawFn, b: GraphBuilder, x: str) -> str:
    channels = b.shapes[x][1]
    groups = draw(st.sampled_from([1, 1, channels, 2 if channels % 2 == 0 else 1]))
    k = draw(st.sampled_from([1, 3] if min(b.shapes[x][2:]) >= 3 else [1]))
    wide = groups * draw(st.integers(1, 2))
    return b.conv(x, wide, k, stride=1 + draw(SMALL), pad=draw(SMALL) if k > 1 else 0, groups=groups)


def _pooling(draw: st.DrawFn, b: GraphBuilder, x: str) -> str:
    return b.pool(x, 2, 1 + draw(SMALL), draw(SMALL), draw(st.sampled_from(["max", "sum"])))


def _addition(draw: st.DrawFn, b: GraphBuilder, x: str) -> str:
    return b.add(x, draw(st.sampled_from([v for v, shape in b.shapes.items() if shape == b.shapes[x]])))


def _transposition(draw: st.DrawFn, b: GraphBuilder, x: str) -> str:
    return b.transpose(x, *draw(st.sampled_from([(0, 1, 3, 2), (0, 2, 3, 1), (1, 0, 2, 3)])))


def _gating(_: st.DrawFn, b: GraphBuilder, x: str) -> str:
    """One half of the channels scales the other."""
    n, channels, h, w = b.shapes[x]
    product, half = b.conv(x, 2 * channels), channels
    gate = load(product, "a0", index("a1") + half, "a2", "a3")
    return b.node((n, half, h, w), apply("mul", load(product, "a0", "a1", "a2", "a3"), gate))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    b = GraphBuilder()
    b.input("x", 1 + draw(SMALL), draw(st.integers(1, 4)), draw(st.integers(2, 6)), draw(st.integers(2, 6)))
    steps = {
        "conv": _convolution,
        "pool": _pooling,
        "add": _addition,
        "transpose": _transposition,
        "relu": lambda _, b, x: b.relu(x),
        "bias": lambda _, b, x: b.bias(x),
        "mean": lambda _, b, x: b.mean(x),
        "gate": _gating,
    }
    kinds = [*3 * ["conv"], *2 * ["relu"], *2 * ["add"], "bias", "pool", "transpose", "mean", "gate"]
    for _ in range(draw(st.integers(1, 9))):
        values = [v for v, shape in b.shapes.items() if v not in b.constants and min(shape[2:]) >= 1]
        recent = values[-1] if draw(st.integers(0, 2)) else draw(st.sampled_from(values))
        kind = draw(st.sampled_from(kinds if min(b.shapes[recent][2:]) >= 2 else ["conv", "relu", "add"]))
        steps[kind](draw, b, recent)
    computed = [node.output for node in b.nodes]
    graph = b.graph(*dict.fromkeys([computed[-1], draw(st.sampled_from(computed))]))
    return InlineMovements().run(graph) if draw(st.booleans()) else graph


def check(graph: Graph) -> None:
    """The Program is valid and computes the same."""
    program = partition(graph)
    verify_program(program)
    inputs = random_inputs(graph)
    actual = evaluate_program(program, inputs)
    for name, value in evaluate_graph(graph, inputs).items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-9, atol=1e-9)


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_a_program_computes_what_its_graph_computes(graph: Graph) -> None:
    check(graph)


def test_an_axis_that_one_stage_stores_and_another_sums_is_split_in_both() -> None:
    b = GraphBuilder()
    grouped = b.conv(b.input("x", 1, 2, 2, 2), 4, groups=2)
    check(b.graph(b.conv(grouped, 1)))
