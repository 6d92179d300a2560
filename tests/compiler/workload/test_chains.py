"""Chains: reductions and maps along the same rows become one Subgraph, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.graph.assign_layouts import assign_layouts
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import Graph
from compiler.graph.layout import Layout
from compiler.scalar import Bound, Const, Guard, apply
from compiler.workload.chains import chains
from compiler.workload.evaluate import evaluate_program
from compiler.workload.partition import partition
from compiler.workload.printer import workload_text
from compiler.workload.verify import verify_program
from tests.compiler.workload.graphs import GraphBuilder, index, load, random_inputs


def _members(graph: Graph) -> list[list[str]]:
    return [
        [member.last.output for member in chain.members] for chain in chains(graph, assign_layouts(graph))
    ]


def _checked(graph: Graph) -> list[str]:
    """The text of every Workload; the Program is verified, and equal to the Graph in value."""
    program = partition(graph)
    verify_program(program)
    inputs = random_inputs(graph)
    expected, actual = evaluate_graph(graph, inputs), evaluate_program(program, inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-12, atol=1e-12)
    return [workload_text(s.workload) for s in program.subgraphs]


def softmax(b: GraphBuilder, x: str) -> tuple[str, str, str, str]:
    """Over the last of three axes; the statistics keep it with extent 1."""
    n, m, k = b.shapes[x]
    largest = b.node((n, m, 1), load(x, "a0", "a1", "r0"), (k,), "max")
    power = b.node((n, m, k), apply("exp", apply("sub", b.at(x), load(largest, "a0", "a1", 0))))
    total = b.node((n, m, 1), load(power, "a0", "a1", "r0"), (k,), "sum")
    share = b.node((n, m, k), apply("div", b.at(power), load(total, "a0", "a1", 0)))
    return largest, power, total, share


def test_softmax_is_one_workload_over_merged_rows() -> None:
    b = GraphBuilder()
    values = softmax(b, b.input("x", 2, 3, 5))
    graph = b.graph(values[-1])
    assert _members(graph) == [list(values)]
    (text,) = _checked(graph)
    assert "sum over s1 < 5" in text
    assert "s0 < 6, s1 < 5" in text


def test_a_map_in_front_joins_where_only_the_chain_reads_it() -> None:
    b = GraphBuilder()
    scaled = b.node((2, 3, 5), apply("mul", load(b.input("x", 2, 3, 5), "a0", "a1", "a2"), Const(0.5)))
    values = softmax(b, scaled)
    assert _members(b.graph(values[-1])) == [[scaled, *values]]
    assert len(_checked(b.graph(values[-1]))) == 1
    assert _members(b.graph(values[-1], scaled)) == [[scaled], list(values)]


def test_a_value_that_the_model_returns_stays_outside() -> None:
    b = GraphBuilder()
    largest, power, total, share = softmax(b, b.input("x", 2, 3, 5))
    assert _members(b.graph(share, total)) == [[largest, power], [total], [share]]
    _checked(b.graph(share, total))


def test_a_normalisation_over_images_shares_batch_and_channel() -> None:
    b = GraphBuilder()
    x = b.input("x", 2, 4, 3, 3)
    mean = b.mean(x)
    centre = b.node((2, 4, 3, 3), apply("sub", b.at(x), load(mean, "a0", "a1", 0, 0)))
    (text,) = _checked(b.graph(centre))
    assert "s0 < 8, sum over s1 < 9" in text


def test_a_contraction_never_joins() -> None:
    b = GraphBuilder()
    product = b.matmul(b.input("x", 6, 4), 5)
    largest = b.node((6, 1), load(product, "a0", "r0"), (5,), "max")
    shifted = b.node((6, 5), apply("sub", b.at(product), load(largest, "a0", 0)))
    assert _members(b.graph(shifted)) == [[product], [largest, shifted]]
    _checked(b.graph(shifted))


def test_overlapping_windows_never_join() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 2, 6, 6)
    largest = b.node((1, 2, 1, 1), load(x, "a0", "a1", "r0", "r1"), (6, 6), "max")
    pooled = b.pool(x, 3, 1, 1)
    joined = b.node((1, 2, 6, 6), apply("sub", b.at(pooled), load(largest, "a0", "a1", 0, 0)))
    assert _members(b.graph(joined)) == [[largest], [joined]]
    _checked(b.graph(joined))


def test_a_copy_into_another_layout_stays_a_kernel_of_its_own() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 5)
    rows = b.node((4, 1), load(x, "a0", "r0"), (5,), "sum")
    copied = b.node((4, 1), b.at(rows))
    assert _members(b.graph(copied, b.relu(copied))) == [[rows], [copied], ["v2"]]


def test_reductions_over_other_rows_run_apart() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 5)
    rows = b.node((4, 1), load(x, "a0", "r0"), (5,), "sum")
    columns = b.node((1, 5), load(x, "r0", "a1"), (4,), "sum")
    both = b.node((4, 5), apply("add", load(rows, "a0", 0), load(columns, 0, "a1")))
    assert _members(b.graph(both)) == [[rows], [columns, both]]
    _checked(b.graph(both))


def test_a_transposed_read_inside_a_chain_keeps_its_place() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 5)
    rows = b.node((4,), load(x, "a0", "r0"), (5,), "sum")
    turned = b.node((5, 4), apply("sub", load(x, "a1", "a0"), load(rows, "a1")))
    assert _members(b.graph(turned)) == [[rows, turned]]
    _checked(b.graph(turned))


def test_a_row_read_at_another_place_ends_the_chain() -> None:
    b = GraphBuilder()
    x = b.input("x", 4, 4)
    rows = b.node((4,), load(x, "a0", "r0"), (4,), "sum")
    diagonal = b.node((4, 4), apply("add", load(rows, "a0"), load(rows, "a1")))
    assert _members(b.graph(diagonal)) == [[rows], [diagonal]]
    _checked(b.graph(diagonal))


def test_one_column_behind_others_stays_outside() -> None:
    """It is read at its own place by the last column alone; what the others would read there is nowhere."""
    b = GraphBuilder()
    x = b.input("x", 4, 5)
    column = b.node((4, 1), apply("neg", load(x, "a0", index("a1") + 4)))
    behind = load(column, "a0", index("a1") - 4)
    joined = b.node((4, 5), Guard((Bound(index("a1"), 0, 4),), load(x, "a0", "a1"), behind))
    rows = b.node((4, 1), load(joined, "a0", "r0"), (5,), "sum")
    both = b.node((4, 5), apply("sub", b.at(joined), load(rows, "a0", 0)))
    graph = b.graph(both)
    assert _members(graph)[0] == [column]
    _checked(graph)


def centred_groups(b: GraphBuilder, x: str, per: int) -> tuple[str, str]:
    """The mean of so many neighbours of the second axis and all of the last; what is left without it."""
    n, c, k = b.shapes[x]
    element = load(x, "a0", index("a1") * per + "r0", "r1")
    total = b.node((n, c // per), element, (per, k), "sum")
    mean = load(total, "a0", index("a1") // per)
    return total, b.node((n, c, k), apply("sub", b.at(x), apply("mul", mean, Const(1 / (per * k)))))


def test_rows_of_several_channels_are_one_workload() -> None:
    b = GraphBuilder()
    values = centred_groups(b, b.input("x", 2, 12, 5), 3)
    graph = b.graph(values[-1])
    assert _members(graph) == [list(values)]
    (text,) = _checked(graph)
    assert "for s0 < 8, s1 < 3, s2 < 5 in f32" in text


def test_channels_that_are_stored_inside_of_pixels_make_no_rows() -> None:
    b = GraphBuilder()
    _, centred = centred_groups(b, b.input("x", 2, 12, 5), 3)
    graph = b.graph(centred)
    layouts = {**assign_layouts(graph), centred: replace(Layout.plain(3), order=(0, 2, 1))}
    assert [len(chain.members) for chain in chains(graph, layouts)] == [1, 1]


def test_what_is_inside_is_not_read_by_two_quotients() -> None:
    b = GraphBuilder()
    x = b.input("x", 2, 12, 5)
    total = b.node((2, 4), load(x, "a0", index("a1") * 3 + "r0", "r1"), (3, 5), "sum")
    by_both = apply("add", load(total, "a0", index("a1") // 3), load(total, "a0", index("a1") // 4))
    graph = b.graph(b.node((2, 12, 5), apply("sub", b.at(x), by_both)))
    assert len(_members(graph)) == 2
    _checked(graph)
