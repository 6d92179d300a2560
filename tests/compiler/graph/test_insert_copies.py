from __future__ import annotations

import numpy as np
import pytest

from compiler.graph.assign_layouts import assign_layouts
from compiler.graph.drop_unit_reductions import DropUnitReductions
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.insert_copies import InsertCopies
from compiler.graph.ir import ComputeKind
from compiler.scalar import loads
from tests.compiler.workload.graphs import GraphBuilder, index


def test_a_padded_convolution_of_an_input_reads_a_copy_with_halo() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 16, 8, 8)
    y = b.mean(b.add(b.conv(x, 16, k=3, pad=1), x))
    graph = InsertCopies().run(b.graph(y))
    copy, conv, add = graph.nodes[:3]
    assert (copy.output, copy.compute.kind) == ("x@stored", ComputeKind.MOVEMENT)
    assert conv.compute.reads[0] == "x@stored"
    assert "x" in add.compute.reads
    layout = assign_layouts(graph)["x@stored"]
    assert layout.order == (0, 2, 3, 1)
    assert layout.before == (0, 0, 1, 1)


def test_an_unpadded_convolution_reads_the_input_itself() -> None:
    b = GraphBuilder()
    graph = b.graph(b.mean(b.conv(b.input("x", 1, 3, 8, 8), 4, k=3)))
    assert InsertCopies().run(graph) is graph


def test_an_output_in_another_layout_is_copied_last_and_keeps_its_name() -> None:
    b = GraphBuilder()
    y = b.conv(b.input("x", 1, 3, 8, 8), 16, k=3)
    z = b.conv(y, 16)
    graph = InsertCopies().run(b.graph(y, b.mean(z)))
    assert graph.nodes[-1].output == y
    assert graph.nodes[-1].compute.reads == (f"{y}@stored",)
    assert graph.producers()[z].compute.reads[0] == f"{y}@stored"


def test_an_output_with_a_padded_reader_is_stored_with_halo_and_copied() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 3, 8, 8))
    graph = InsertCopies().run(b.graph(x, b.mean(b.conv(x, 4, k=3, pad=1))))
    layouts = assign_layouts(graph)
    assert layouts[f"{x}@stored"].has_halo
    assert layouts[x].is_plain


def test_a_constant_output_becomes_a_copy() -> None:
    b = GraphBuilder()
    b.input("x", 2)
    k = b.constant(2, 3)
    graph = InsertCopies().run(b.graph(k))
    assert [node.output for node in graph.nodes] == [k]
    assert list(graph.constants) == [f"{k}@stored"]


def test_new_names_avoid_those_taken() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 3, 8, 8)
    b.input("x@stored", 1)
    graph = InsertCopies().run(b.graph(b.mean(b.conv(x, 16, k=3, pad=1))))
    assert graph.nodes[0].output == "x@stored.1"


def test_windows_whose_lanes_lie_apart_in_an_input_read_a_copy() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 16, 8, 8)
    graph = InsertCopies().run(b.graph(b.mean(b.conv(b.pool(x, 3, 2, 1), 16, k=3))))
    copy, pool = graph.nodes[:2]
    assert (copy.output, copy.compute.kind) == ("x@stored", ComputeKind.MOVEMENT)
    assert pool.compute.reads == ("x@stored",)
    assert assign_layouts(graph)["x@stored"].order == (0, 2, 3, 1)


@pytest.mark.parametrize(("size", "channels"), [(32, 64), (28, 64), (32, 8)])
def test_a_contraction_reads_a_copy_of_channels_that_are_pages_apart(size: int, channels: int) -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, channels, size, size), 32, k=3)
    layouts = assign_layouts(InsertCopies().run(b.graph(b.mean(first))))
    assert ("x@stored" in layouts) is ((size, channels) == (32, 64))
    assert layouts[first].order == (0, 2, 3, 1)


def test_a_product_at_each_place_reads_a_copy_where_its_result_lies_otherwise() -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, 64, 28, 28), 32)
    layouts = assign_layouts(InsertCopies().run(b.graph(b.mean(b.conv(first, 32, k=3)))))
    assert layouts["x@stored"].order == layouts[first].order == (0, 2, 3, 1)


def test_windows_that_run_along_the_rows_of_an_input_read_it() -> None:
    b = GraphBuilder()
    graph = b.graph(b.relu(b.pool(b.input("x", 1, 16, 8, 8), 3, 2, 1)))
    assert InsertCopies().run(graph) is graph


def test_of_what_is_read_with_a_stride_the_copy_has_what_is_read() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 64, 27, 28)
    first = b.conv(x, 32, stride=2)
    before = DropUnitReductions().run(b.graph(b.mean(b.conv(first, 32, k=3))))
    graph = InsertCopies().run(before)
    types, reads = graph.types(), graph.producers()[first].compute
    assert types["x@stored"].sizes == (1, 64, 14, 14)
    read = next(load for load in loads(reads.body) if load.buffer == "x@stored")
    assert read.indices[2:] == (index("a2"), index("a3"))
    inputs = {"x": np.random.default_rng(0).standard_normal((1, 64, 27, 28))}
    for value, wanted in evaluate_graph(before, inputs).items():
        np.testing.assert_allclose(evaluate_graph(graph, inputs)[value], wanted)


def test_readers_with_other_strides_read_all_of_it() -> None:
    b = GraphBuilder()
    x = b.input("x", 1, 64, 27, 28)
    once, twice = b.conv(x, 32), b.conv(x, 32, stride=2)
    ends = b.mean(b.conv(once, 32, k=3)), b.mean(b.conv(twice, 32, k=3))
    graph = InsertCopies().run(DropUnitReductions().run(b.graph(*ends)))
    assert graph.types()["x@stored"].sizes == (1, 64, 27, 28)


def test_windows_of_several_places_read_all_of_it() -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, 64, 32, 32), 32, k=3, stride=2)
    graph = InsertCopies().run(b.graph(b.mean(first)))
    assert graph.types()["x@stored"].sizes == (1, 64, 32, 32)


def test_so_it_has_where_places_fill_the_lanes() -> None:
    b = GraphBuilder()
    first = b.conv(b.input("x", 1, 64, 60, 64), 8, stride=2)
    graph = InsertCopies().run(DropUnitReductions().run(b.graph(b.relu(first))))
    assert graph.types()["x@stored"].sizes == (1, 64, 30, 32)
    assert assign_layouts(graph)["x@stored"].is_plain
