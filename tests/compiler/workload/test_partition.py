from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.errors import InputError
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.index import Index
from compiler.scalar import Const, apply, substitute
from compiler.symbol import Axis
from compiler.workload.evaluate import evaluate_program
from compiler.workload.partition import partition
from compiler.workload.program import Program
from compiler.workload.verify import verify_program
from tests.compiler.workload.graphs import GraphBuilder, bottleneck, load, random_inputs


def _checked(graph: Graph) -> Program:
    """The Program, verified, and equal to the Graph in value."""
    program = partition(graph)
    verify_program(program)
    inputs = random_inputs(graph)
    expected = evaluate_graph(graph, inputs)
    actual = evaluate_program(program, inputs)
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-12, atol=1e-12)
    return program


def test_a_residual_network_is_its_anchors_and_one_copy_of_the_input() -> None:
    program = _checked(bottleneck())
    assert [s.name for s in program.subgraphs] == [
        "copy 16x16x3",
        "conv 3x3 3->8 @8x8 /2 +add+max",
        "window max 3x3 8 @8x8",
        "conv 1x1 8->4 @8x8 +add+max",
        "conv 3x3 4->4 @8x8 +add+max",
        "conv 1x1 4->16 @8x8 +add",
        "conv 1x1 8->16 @8x8 +add+add+max",
        "reduce sum 8x8 -> 16 +mul",
        "matmul 1x16x10 +add",
    ]


def test_an_anchor_has_two_stages_over_the_same_axes() -> None:
    for subgraph in _checked(bottleneck()).subgraphs[1:]:
        anchor, epilogue = subgraph.workload.stages
        assert (anchor.name, epilogue.name) == ("anchor", "epilogue")
        assert anchor.axes == epilogue.axes
        assert anchor.target == "t0"
        assert epilogue.target == "y0"
        assert epilogue.reducer is None


def test_a_padded_convolution_reads_its_halo_without_a_guard() -> None:
    program = _checked(bottleneck())
    bound = {s.bindings["y0"]: s for s in program.subgraphs}
    assert program.buffers["v6"].sizes == (1, 10, 10, 4)
    assert str(bound["v6"].workload.stages[1].target_indices[1]) == "s0 + 1"
    assert "Guard" not in str(bound["v9"].workload.stages)


def test_maximum_pooling_keeps_its_guard() -> None:
    b = GraphBuilder()
    program = _checked(b.graph(b.mean(b.pool(b.relu(b.input("x", 1, 4, 7, 7)), 3, 2, 1))))
    assert "Guard" in str(program.subgraphs[1].workload.stages[0].body)


def test_zero_padded_pooling_uses_a_halo_that_is_there_already() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 4, 8, 8))
    program = _checked(b.graph(b.mean(b.pool(x, 3, 1, 1, "sum")), b.mean(b.conv(x, 4, k=3, pad=1))))
    assert all("Guard" not in str(s.workload.stages) for s in program.subgraphs)


def test_outputs_are_row_major() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.conv(b.input("x", 2, 3, 6, 5), 4, k=3)))
    program = _checked(graph)
    (name,) = graph.outputs
    assert program.buffers[name].sizes == (2, 4, 4, 3)
    assert program.layouts[name].is_plain
    assert [s.name for s in program.subgraphs][-1].startswith("copy")


def test_a_value_read_at_two_places_is_one_operand() -> None:
    b = GraphBuilder()
    x = b.input("x", 6)
    y = b.node((5,), apply("sub", load(x, Index.of("a0") + 1), load(x, "a0")))
    (subgraph,) = _checked(b.graph(y)).subgraphs
    assert [o.name for o in subgraph.workload.operands] == ["x0"]


def test_a_1x1_convolution_is_a_matrix_product() -> None:
    b = GraphBuilder()
    hidden = b.conv(b.input("x", 2, 3, 6, 5), 4, k=3)
    program = _checked(b.graph(b.mean(b.relu(b.conv(hidden, 7)))))
    anchor = program.subgraphs[1].workload.anchor
    assert [a.size for a in anchor.axes] == [2 * 4 * 3, 7]
    assert [a.size for a in anchor.reduce_axes] == [4]


def test_equal_structure_gives_equal_digests_whatever_the_names() -> None:
    def digests(prefix: int) -> list[str]:
        b = GraphBuilder()
        for i in range(prefix):
            b.input(f"unused{i}", 1)
            b.constant(3)
        x = b.input("x" * (prefix + 1), 1, 3, 8, 8)
        graph = b.graph(b.mean(b.relu(b.bias(b.conv(x, 4, k=3, pad=1)))))
        return [s.workload.digest for s in _checked(graph).subgraphs]

    assert digests(0) == digests(3)


def test_names_of_axes_do_not_matter() -> None:
    b = GraphBuilder()
    graph = b.graph(b.bias(b.matmul(b.input("x", 4, 5), 6)))
    product, bias = graph.nodes
    names = {"a0": Index.of("rows"), "a1": Index.of("a0")}
    axes = tuple(Axis(name, a.extent) for name, a in zip(("rows", "a0"), bias.compute.axes, strict=True))
    renamed = replace(bias.compute, axes=axes, body=substitute(bias.compute.body, names))
    other = graph.with_nodes((product, replace(bias, compute=renamed)))
    assert _checked(other).subgraphs == _checked(graph).subgraphs


def test_one_digest_is_the_same_on_every_platform() -> None:
    b = GraphBuilder()
    hidden = b.conv(b.input("x", 1, 3, 8, 8), 16, k=3)
    program = partition(b.graph(b.mean(b.relu(hidden))))
    assert program.subgraphs[0].workload.digest == (
        "f4ca4f2c4e5931876d4beb26ba704db087f34a8b679835e983daed82e6fa9244"
    )


def test_a_constant_output_is_copied() -> None:
    b = GraphBuilder()
    b.input("x", 2)
    _checked(b.graph(b.constant(2, 3)))


def test_an_input_that_is_an_output_needs_no_subgraph() -> None:
    b = GraphBuilder()
    program = _checked(b.graph(b.input("x", 2, 3)))
    assert program.subgraphs == ()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_scalars_have_one_axis(shape: tuple[int, ...]) -> None:
    b = GraphBuilder()
    total = b.node(shape, load(b.input("x", 5), "r0"), (5,), "sum")
    (subgraph,) = _checked(b.graph(b.relu(total))).subgraphs
    assert [[a.size for a in stage.axes] for stage in subgraph.workload.stages] == [[1], [1]]


def test_unread_constants_are_left_out() -> None:
    b = GraphBuilder()
    b.constant(3)
    assert partition(b.graph(b.relu(b.input("x", 2)))).constants == {}


def test_grouped_and_depthwise_convolutions_are_named() -> None:
    b = GraphBuilder()
    x = b.conv(b.input("x", 1, 3, 9, 9), 8, k=3)
    depthwise = b.conv(x, 8, k=3, stride=2, pad=1, groups=8)
    grouped = b.conv(depthwise, 12, k=3, pad=1, groups=4)
    names = [s.name for s in _checked(b.graph(b.mean(grouped))).subgraphs]
    assert names[1:3] == ["dwconv 3x3 8 @4x4 /2", "gconv 3x3 8->12 g4 @4x4"]


def test_symbolic_extents_are_refused() -> None:
    shape = (Index.of("batch"),)
    body = apply("max", load("x", "a0"), Const(0.0))
    node = Node("relu", "y", Compute((Axis("a0", shape[0]),), (), None, body))
    graph = Graph({"x": TensorType(shape, DType.F32)}, ("y",), {}, (node,))
    with pytest.raises(InputError, match="--shape"):
        partition(graph)


def test_weights_are_free_when_the_program_lets_go_of_them() -> None:
    """No reference cycle keeps them: nothing is collected while a model is compiled."""
    graph = bottleneck()
    weights = [weakref.ref(array) for array in graph.constants.values()]
    gc.collect()
    gc.disable()
    try:
        program = partition(graph)
        del graph
        assert all(weight() is not None for weight in weights)
        program.constants.clear()
        assert all(weight() is None for weight in weights)
    finally:
        gc.enable()
