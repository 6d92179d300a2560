from compiler.graph.cancel_movements import CancelMovements
from compiler.graph.dce import EliminateDeadCode
from compiler.graph.inline_movement import InlineMovements
from compiler.graph.ir import Graph, Node
from compiler.index import Index
from compiler.scalar import Expr, apply
from tests.compiler.graph.building import assert_same_values, graph, load, node

A0, A1 = Index.of("a0"), Index.of("a1")
GROUPS = node("t", (2, 36), load("x", A0 * 4 + A1 // 9, A1 % 9))
BACK = load("m", A0 // 4, A0 % 4 * 9 + "a1")
SHAPES = {"x": (8, 9), "mean": (2,)}


def between(body: Expr) -> list[Node]:
    return [GROUPS, node("m", (2, 36), body), node("y", (8, 9), BACK)]


def cancelled(before: Graph) -> Graph:
    after = InlineMovements().run(EliminateDeadCode().run(CancelMovements().run(before)))
    assert_same_values(before, after)
    return EliminateDeadCode().run(after)


def test_a_map_between_a_reshape_and_the_one_back_is_computed_outside() -> None:
    (only,) = cancelled(graph(SHAPES, between(apply("sub", load("t", "a0", "a1"), load("mean", "a0"))))).nodes
    assert only.compute.body == apply("sub", load("x", "a0", "a1"), load("mean", A0 // 4))


def test_without_a_reshape_in_front_nothing_cancels() -> None:
    nodes = [
        node("m", (2, 36), apply("neg", load("t", "a0", "a1"))),
        node("y", (8, 9), BACK),
    ]
    before = graph({"t": (2, 36)}, nodes)
    assert CancelMovements().run(before) is before


def test_what_is_large_is_not_read_by_quotients() -> None:
    body = apply("sub", load("t", "a0", "a1"), load("other", "a0", "a1"))
    before = graph({"x": (8, 9), "other": (2, 36)}, between(body))
    assert CancelMovements().run(before) is before


def test_a_map_that_others_read_stays() -> None:
    nodes = [
        *between(apply("sub", load("t", "a0", "a1"), load("mean", "a0"))),
        node("z", (2, 36), apply("neg", load("m", "a0", "a1"))),
    ]
    for outputs in (("y", "z"), ("y", "m", "z")):
        before = graph(SHAPES, nodes, outputs)
        assert CancelMovements().run(before) is before
    before = graph(SHAPES, nodes[:-1], ("y", "m"))
    assert CancelMovements().run(before) is before
