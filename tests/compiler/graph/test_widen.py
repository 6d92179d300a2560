"""Widening: the same numbers, without conversions where products are made."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.ir import ComputeKind, Graph, Node, TensorType
from compiler.graph.verify import verify_graph
from compiler.graph.widen import Widen
from compiler.index import Index
from compiler.scalar import Cast, Const, Expr, apply, walk
from tests.compiler.graph.building import load, node, within

ROWS, INNER, COLUMNS = 16, 8, 12


def wide(expr: Expr) -> Expr:
    return Cast(expr, DType.F32)


def narrow(output: str, shape: tuple[int, ...], body: Expr, dtype: DType = DType.F16) -> Node:
    made = node(output, shape, body)
    return replace(made, compute=replace(made.compute, dtype=dtype))


def example(
    *nodes: Node, outputs: tuple[str, ...] = ("y",), dtype: DType = DType.F16, rows: int = ROWS
) -> Graph:
    random = np.random.default_rng(0)
    types = {"x": TensorType((Index.of(rows), Index.of(INNER)), dtype)}
    constants = {"w": random.standard_normal((INNER, COLUMNS)).astype(dtype.numpy)}
    built = Graph(types, outputs, constants, nodes, name="example")
    verify_graph(built)
    return built


def product(x: Expr, rows: int = ROWS) -> Node:
    return node("y", (rows, COLUMNS), apply("mul", wide(x), wide(load("w", "r0", "a1"))), (INNER,))


HALF = narrow("h", (ROWS, INNER), Cast(apply("mul", wide(load("x", "a0", "a1")), Const(1.7)), DType.F16))
MOVED = narrow("m", (INNER, ROWS), load("h", "a1", "a0"))
EDGED = within(load("h", "a0", "r0"), Const(0.0, DType.F16), ("r0", 2, INNER))


def conversions(graph: Graph) -> int:
    products = [n for n in graph.nodes if n.compute.kind is ComputeKind.CONTRACTION]
    return sum(isinstance(e, Cast) for n in products for e in walk(n.compute.body))


def assert_same(before: Graph, after: Graph) -> None:
    verify_graph(after)
    x = np.random.default_rng(1).standard_normal(before.inputs["x"].sizes)
    feeds = {"x": x.astype(before.inputs["x"].dtype.numpy)}
    for a, b in zip(evaluate_graph(before, feeds), evaluate_graph(after, feeds), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "graph",
    [
        example(product(load("x", "a0", "r0"))),
        example(HALF, product(load("h", "a0", "r0"))),
        example(HALF, MOVED, product(load("m", "r0", "a0"))),
        example(HALF, product(EDGED)),
        example(HALF, product(load("h", "a0", "r0")), outputs=("y", "h")),
    ],
    ids=["input", "value", "moved", "edges", "also an output"],
)
def test_products_convert_nothing_and_no_number_changes(graph: Graph) -> None:
    after = Widen().run(graph)
    assert conversions(graph) == 2
    assert conversions(after) == 0
    assert_same(graph, after)


def test_all_who_convert_a_value_read_the_wide_one() -> None:
    also = node("z", (ROWS, INNER), apply("add", wide(load("h", "a0", "a1")), Const(1.0)))
    after = Widen().run(example(HALF, product(load("h", "a0", "r0")), also, outputs=("y", "z")))
    assert [n.output for n in after.nodes if "h" in n.compute.reads] == ["h.wide"]


def test_a_movement_on_the_way_moves_what_is_wide() -> None:
    after = Widen().run(example(HALF, MOVED, product(load("m", "r0", "a0"))))
    moved = after.producers()["m.wide"].compute
    assert (moved.kind, moved.reads, moved.dtype) == (ComputeKind.MOVEMENT, ("h.wide",), DType.F32)


def test_constants_that_few_rows_read_stay_as_short_as_they_are() -> None:
    after = Widen().run(example(product(load("x", "a0", "r0"), rows=2), rows=2))
    (made,) = (n for n in after.nodes if n.output == "y")
    assert set(made.compute.reads) == {"x.wide", "w"}


def test_types_with_an_instruction_of_their_own_stay() -> None:
    graph = example(product(load("x", "a0", "r0")), dtype=DType.BF16)
    assert Widen().run(graph) is graph
