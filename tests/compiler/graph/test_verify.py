from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.errors import CompileError
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.graph.verify import GraphVerifier, verify_graph
from compiler.index import Index
from compiler.scalar import Apply, Const, Expr
from compiler.symbol import Symbol, axis
from tests.compiler.graph.building import Shape, graph, load, node, within

A0 = Index.of("a0")


def broken(made: Node, *more: Node, outputs: tuple[str, ...] = ("y",)) -> Graph:
    x = TensorType((Index.of(4), Index.of(3)), DType.F32)
    return Graph({"x": x}, outputs, {"w": np.zeros(3, np.float32)}, (made, *more))


def y(body: Expr, shape: Shape = (4,), reduce: Shape = (), reducer: str = "sum") -> Node:
    return node("y", shape, body, reduce, reducer)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (broken(y(load("z", "a0"))), "reads 'z' before it is defined"),
        (broken(y(load("t", "a0")), node("t", (4,), Const(1.0))), "reads 't' before it is defined"),
        (broken(y(Const(1.0)), y(Const(2.0))), "defines 'y', which is defined already"),
        (broken(node("x", (4,), Const(1.0))), "defines 'x', which is defined already"),
        (broken(y(Const(1.0)), outputs=("z",)), "output 'z' of the graph is defined by no node"),
        (broken(y(load("x", "a0"))), "reads 'x' with 1 indices"),
        (broken(y(load("x", "a0", "a1"))), "uses 'a1', which is no axis"),
        (broken(y(load("x", A0 + 1, 0))), "reads 'x' at a0 \\+ 1 in 1..4 of 4"),
        (broken(y(load("x", A0 - 1, 0))), "reads 'x' at a0 - 1 in -1..2 of 4"),
        (broken(y(load("x", 0, "a0"))), "in 0..3 of 3"),
        (broken(y(within(load("x", A0 + 1, 0), Const(0.0), (A0 + 1, 0, 5)))), "in 1..4 of 4"),
        (broken(y(within(load("x", A0, 3), Const(0.0), (A0, 0, 2)))), "reads 'x' at 3 in 3..3 of 3"),
        (broken(y(Apply("cbrt", (Const(1.0),)))), "applies 'cbrt' to 1 arguments"),
        (broken(y(Apply("add", (Const(1.0),)))), "applies 'add' to 1 arguments"),
        (broken(y(load("x", "a0", "r0"), (4,), (3,), "median")), "unknown reducer 'median'"),
        (broken(y(Const(1.0), (4, 0))), "has an empty axis"),
    ],
)
def test_names_the_node_and_what_is_wrong(bad: Graph, problem: str) -> None:
    with pytest.raises(CompileError, match=problem) as caught:
        verify_graph(bad)
    if "output 'z'" not in problem:
        assert "node 'make_" in str(caught.value)


def test_reduction_axes_and_reducer_belong_together() -> None:
    made = y(load("x", "a0", "r0"), (4,), (3,))
    without = replace(made, compute=replace(made.compute, reducer=None))
    with pytest.raises(CompileError, match="without a reducer"):
        verify_graph(broken(without))


def test_axes_are_distinct() -> None:
    made = Node("n", "y", Compute((axis("a", 2), axis("a", 2)), (), None, Const(1.0)))
    with pytest.raises(CompileError, match="not distinct"):
        verify_graph(broken(made))


def test_a_constant_has_a_name_of_its_own() -> None:
    x = TensorType((Index.of(3),), DType.F32)
    with pytest.raises(CompileError, match="'x' is an input and a constant"):
        verify_graph(Graph({"x": x}, (), {"x": np.zeros(3, np.float32)}, ()))


def test_guards_protect_loads_on_both_sides() -> None:
    body = within(load("x", "a0"), load("z", A0 - 4), ("a0", 0, 4))
    graph({"x": (4,), "z": (2,)}, [node("y", (6,), body)])
    three = within(load("x", "a0"), within(load("z", A0 - 4), load("x", A0 - 6), ("a0", 4, 6)), ("a0", 0, 4))
    graph({"x": (4,), "z": (2,)}, [node("y", (10,), three)])


def test_a_symbolic_shape_is_valid() -> None:
    n = Index.of("n")
    x = TensorType((n, Index.of(3)), DType.F32)
    compute = Compute((axis("a0", n), axis("a1", 3)), (), None, load("x", "a0", "a1"))
    verify_graph(Graph({"x": x}, ("y",), {}, (Node("", "y", compute),), (Symbol("n"),)))


def test_a_node_that_stayed_is_looked_at_again_where_what_it_reads_changed() -> None:
    reader = Node("r", "y", Compute((axis("a0", 4),), (), None, load("v", "a0")))
    x = TensorType((Index.of(9),), DType.F32)

    def graph(size: int) -> Graph:
        writer = Node("w", "v", Compute((axis("a0", size),), (), None, load("x", "a0")))
        return Graph({"x": x}, ("y",), {}, (writer, reader))

    verifier = GraphVerifier()
    verifier(graph(4))
    verifier(graph(5))
    with pytest.raises(CompileError, match=r"in 0\.\.3 of 3"):
        verifier(graph(3))
