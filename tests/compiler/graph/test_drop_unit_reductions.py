from __future__ import annotations

import pytest

from compiler.graph.drop_unit_reductions import DropUnitReductions
from compiler.graph.ir import ComputeKind
from compiler.scalar import apply
from tests.compiler.workload.graphs import GraphBuilder, load


@pytest.mark.parametrize(("size", "kind"), [(1, ComputeKind.MAP), (2, ComputeKind.CONTRACTION)])
def test_a_sum_over_one_element_is_a_map(size: int, kind: ComputeKind) -> None:
    b = GraphBuilder()
    y = b.matmul(b.input("x", 3, size), 4)
    assert DropUnitReductions().run(b.graph(y)).nodes[0].compute.kind is kind


def test_unit_axes_go_where_others_stay() -> None:
    b = GraphBuilder()
    graph = DropUnitReductions().run(b.graph(b.conv(b.input("x", 1, 4, 5, 5), 6)))
    compute = graph.nodes[0].compute
    assert [a.size for a in compute.reduce_axes] == [4]
    assert compute.kind is ComputeKind.CONTRACTION
    assert DropUnitReductions().run(graph) is graph


def test_a_unit_maximum_is_a_map() -> None:
    b = GraphBuilder()
    y = b.node((3,), load(b.input("x", 3, 1), "a0", "r0"), (1,), "max")
    assert DropUnitReductions().run(b.graph(y)).nodes[0].compute.reducer is None


def test_products_of_one_element_keep_their_body() -> None:
    b = GraphBuilder()
    x = b.input("x", 3, 1)
    y = b.node((3,), apply("abs", load(x, "a0", "r0")), (1,), "sum")
    assert DropUnitReductions().run(b.graph(y)).nodes[0].compute.body == apply("abs", load(x, "a0", 0))
