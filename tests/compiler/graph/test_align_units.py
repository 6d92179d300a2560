from __future__ import annotations

from compiler.graph.align_units import AlignUnits
from compiler.graph.ir import Graph
from compiler.graph.verify import verify_graph
from compiler.index import Index
from compiler.pipeline import lower
from compiler.scalar import Load, apply
from tests.compiler.workload.graphs import GraphBuilder, load


def shapes(graph: Graph) -> list[list[int]]:
    return [[a.size for a in node.compute.axes] for node in graph.nodes]


def test_a_product_takes_the_unit_dimension_of_the_map_after_it() -> None:
    b = GraphBuilder()
    t = b.matmul(b.input("x", 5, 6), 7)
    graph = b.graph(b.node((1, 5, 7), apply("tanh", load(t, "a1", "a2"))))
    found = AlignUnits().run(graph)
    verify_graph(found)
    assert shapes(found) == [[1, 5, 7], [1, 5, 7]]
    assert len(lower(graph).subgraphs) == 1


def test_a_unit_dimension_goes_where_the_map_has_none() -> None:
    b = GraphBuilder()
    t = b.node((5, 1), load(b.input("x", 5, 6), "a0", "r0"), (6,), "sum")
    found = AlignUnits().run(b.graph(b.node((5,), apply("tanh", load(t, "a0", 0)))))
    verify_graph(found)
    assert shapes(found) == [[5], [5]]


def test_blocks_are_along_an_axis_too() -> None:
    b = GraphBuilder()
    t = b.matmul(b.input("x", 5, 6), 8)
    halves = [Load(t, (Index.of("a1"), Index.of("a2") + first)) for first in (0, 4)]
    graph = b.graph(b.node((1, 5, 4), apply("mul", halves[0], apply("sigmoid", halves[1]))))
    assert shapes(AlignUnits().run(graph)) == [[1, 5, 8], [1, 5, 4]]
    assert len(lower(graph).subgraphs) == 1


def test_other_readers_follow() -> None:
    b = GraphBuilder()
    t = b.matmul(b.input("x", 5, 6), 7)
    y = b.node((1, 5, 7), apply("tanh", load(t, "a1", "a2")))
    z = b.node((7,), load(t, "r0", "a0"), (5,), "max")
    found = AlignUnits().run(b.graph(y, z))
    verify_graph(found)
    assert shapes(found) == [[1, 5, 7], [1, 5, 7], [7]]


def test_what_is_no_unit_dimension_stays() -> None:
    b = GraphBuilder()
    t = b.matmul(b.input("x", 5, 6), 7)
    for y in (
        b.node((2, 5, 7), apply("tanh", load(t, "a1", "a2"))),
        b.node((7, 5), apply("tanh", load(t, "a1", "a0"))),
        b.node((5, 7), apply("tanh", load(t, "a0", "a1"))),
    ):
        graph = b.graph(y)
        assert AlignUnits().run(graph) is graph


def test_dimensions_of_one_element_on_both_sides_stay() -> None:
    b = GraphBuilder()
    t = b.node((1, 5, 1), load(b.input("x", 1, 5, 6), "a0", "a1", "r0"), (6,), "sum")
    graph = b.graph(b.node((1, 5, 1), apply("tanh", load(t, 0, "a1", 0))))
    assert AlignUnits().run(graph) is graph


def test_outputs_of_the_model_keep_their_shape() -> None:
    b = GraphBuilder()
    t = b.matmul(b.input("x", 5, 6), 7)
    graph = b.graph(t, b.node((1, 5, 7), apply("tanh", load(t, "a1", "a2"))))
    assert AlignUnits().run(graph) is graph
