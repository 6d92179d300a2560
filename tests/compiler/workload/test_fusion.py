from __future__ import annotations

from compiler.graph.ir import Graph
from compiler.scalar import Const, apply
from compiler.workload.fusion import fuse
from tests.compiler.workload.graphs import GraphBuilder, load


def _groups(graph: Graph) -> list[list[str]]:
    return [[node.output for node in fused.nodes] for fused in fuse(graph)]


def test_an_anchor_takes_the_maps_that_follow_it() -> None:
    b = GraphBuilder()
    conv = b.conv(b.input("x", 1, 3, 6, 6), 4)
    biased = b.bias(conv)
    graph = b.graph(b.relu(biased))
    assert _groups(graph) == [[conv, biased, graph.outputs[0]]]


def test_a_value_with_two_readers_ends_its_group() -> None:
    b = GraphBuilder()
    conv = b.conv(b.input("x", 1, 3, 6, 6), 4)
    graph = b.graph(b.relu(conv), b.relu(conv))
    assert _groups(graph) == [[conv], ["v1"], ["v2"]]


def test_an_output_of_the_model_ends_its_group() -> None:
    b = GraphBuilder()
    conv = b.conv(b.input("x", 1, 3, 6, 6), 4)
    last = b.relu(conv)
    assert _groups(b.graph(conv, last)) == [[conv], [last]]


def test_a_sum_of_two_anchors_joins_the_later_one() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 3, 6, 6)
    first, second = b.conv(x, 4), b.conv(x, 4)
    for left, right in ((first, second), (second, first)):
        joined = b.add(left, right)
        assert _groups(b.graph(joined)) == [[first], [second, joined]]
        b.nodes.pop()


def test_groups_of_a_diamond_run_after_all_that_they_read() -> None:
    b = GraphBuilder()
    top = b.conv(b.input("x", 1, 4, 6, 6), 4)
    left = b.relu(top)
    side = b.conv(left, 4)
    right = b.relu(side)
    graph = b.graph(b.relu(b.add(left, right)))
    groups = _groups(graph)
    assert groups == [[top, left], [side, right, "v4", "v5"]]
    ready = {"x", *graph.constants}
    for fused in fuse(graph):
        own = {node.output for node in fused.nodes}
        reads = {value for node in fused.nodes for value in node.compute.reads}
        assert reads - own <= ready
        ready.add(fused.last.output)


def test_a_long_edge_does_not_pull_a_group_before_its_inputs() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 4, 6, 6)
    early = b.conv(x, 4)
    late = b.relu(b.conv(b.pool(x, 3, 1, 1), 4))
    other = b.relu(late)
    joined = b.add(early, other)
    graph = b.graph(joined, late)
    assert _groups(graph) == [["v1"], ["v2", late], [other, early, joined]]


def test_maps_without_an_anchor_become_one_expression() -> None:
    b = GraphBuilder()
    x = b.input("x", 2, 3)
    graph = b.graph(b.relu(b.add(b.relu(x), b.bias(x))))
    (fused,) = fuse(graph)
    assert fused.anchor is None
    inner = apply(
        "add",
        apply("max", load("x", "a0", "a1"), Const(0.0)),
        apply("add", load("x", "a0", "a1"), load("k0", "a1")),
    )
    assert fused.body == apply("max", inner, Const(0.0))


def test_a_map_reads_through_a_movement() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.transpose(b.input("x", 2, 3), 1, 0)))
    (fused,) = fuse(graph)
    assert fused.body == apply("max", load("x", "a1", "a0"), Const(0.0))


def test_a_map_is_not_computed_again_for_each_reader_of_a_broadcast() -> None:
    b = GraphBuilder()
    row = b.relu(b.input("x", 1, 3))
    spread = b.node((5, 3), apply("neg", load(row, 0, "a1")))
    assert _groups(b.graph(spread)) == [[row], [spread]]


def test_a_broadcast_of_an_anchor_does_not_join_it() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 6)
    total = b.node((4, 1), load(x, "a0", "r0"), (6,), "sum")
    centred = b.node((4, 6), apply("sub", b.at(x), load(total, "a0", 0)))
    assert _groups(b.graph(centred)) == [[total], [centred]]


def test_a_map_that_transposes_an_anchor_does_not_join_it() -> None:
    b = GraphBuilder()
    product = b.matmul(b.input("x", 4, 6), 4)
    turned = b.node((4, 4), apply("neg", load(product, "a1", "a0")))
    assert _groups(b.graph(turned)) == [[product], [turned]]


def test_a_movement_does_not_join_an_anchor() -> None:
    b = GraphBuilder()
    product = b.matmul(b.input("x", 4, 6), 5)
    copied = b.node((4, 5), b.at(product))
    assert _groups(b.graph(copied)) == [[product], [copied]]


def test_an_anchor_takes_what_only_its_maps_read() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 6)
    gate = b.relu(x)
    product = b.matmul(x, 6)
    graph = b.graph(b.add(product, gate))
    (fused,) = fuse(graph)
    assert fused.anchor is not None
    assert fused.anchor.output == product


def test_expressions_that_repeat_themselves_stay_small() -> None:
    b = GraphBuilder()
    value = b.input("x", 4)
    for _ in range(16):
        value = b.add(value, value)
    groups = fuse(b.graph(value))
    assert 1 < len(groups) < 8
