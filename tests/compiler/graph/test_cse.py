import numpy as np

from compiler.graph.cse import EliminateCommonSubexpressions
from compiler.graph.ir import Compute, Node
from compiler.scalar import apply
from compiler.symbol import axis
from tests.compiler.graph.building import assert_same_values, graph, load, node

CSE = EliminateCommonSubexpressions()


def test_equal_computes_are_computed_once_whatever_their_axes_are_called() -> None:
    renamed = Compute((axis("i", 3),), (axis("k", 4),), "sum", load("x", "i", "k"))
    before = graph(
        {"x": (3, 4)},
        [
            node("s", (3,), load("x", "a0", "r0"), (4,)),
            Node("other", "t", renamed),
            node("y", (3,), apply("mul", load("s", "a0"), load("t", "a0"))),
        ],
    )
    after = CSE.run(before)
    assert [n.output for n in after.nodes] == ["s", "y"]
    assert after.nodes[-1].compute.reads == ("s",)
    assert_same_values(before, after)
    assert CSE.run(after) is after


def test_computes_over_repeated_values_are_equal_too() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("a", (3,), apply("neg", load("x", "a0"))),
            node("b", (3,), apply("neg", load("x", "a0"))),
            node("c", (3,), apply("abs", load("a", "a0"))),
            node("d", (3,), apply("abs", load("b", "a0"))),
            node("y", (3,), apply("add", load("c", "a0"), load("d", "a0"))),
        ],
    )
    assert [n.output for n in CSE.run(before).nodes] == ["a", "c", "y"]


def test_outputs_stay_computed() -> None:
    nodes = [node(n, (3,), apply("neg", load("x", "a0"))) for n in ("y", "z")]
    before = graph({"x": (3,)}, nodes, ("y", "z"))
    assert CSE.run(before) is before


def test_equal_constants_are_kept_once() -> None:
    constants = {
        "a": np.arange(3, dtype=np.float32),
        "b": np.arange(3, dtype=np.float32),
        "c": np.array([0, 1, 3], np.float32),
        "zero": np.zeros(2, np.float32),
        "minus_zero": -np.zeros(2, np.float32),
    }
    total = apply("add", load("b", "a0"), apply("add", load("c", "a0"), load("a", "a0")))
    zeros = apply("add", load("zero", 0), load("minus_zero", 0))
    before = graph({}, [node("y", (3,), apply("add", total, zeros))], constants=constants)
    after = CSE.run(before)
    assert list(after.constants) == ["a", "c", "zero", "minus_zero"]
    assert_same_values(before, after)
