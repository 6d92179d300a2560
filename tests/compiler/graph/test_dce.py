from compiler.graph.dce import EliminateDeadCode
from compiler.scalar import apply
from tests.compiler.graph.building import assert_same_values, graph, load, node


def test_what_no_output_needs_goes() -> None:
    before = graph(
        {"x": (3,), "unused": (2,)},
        [
            node("dead", (3,), apply("neg", load("x", "a0"))),
            node("deader", (3,), apply("add", load("dead", "a0"), load("c", "a0"))),
            node("t", (3,), apply("abs", load("x", "a0"))),
            node("y", (3,), apply("mul", load("t", "a0"), load("d", "a0"))),
        ],
        constants={"c": (3,), "d": (3,)},
    )
    after = EliminateDeadCode().run(before)
    assert [n.output for n in after.nodes] == ["t", "y"]
    assert list(after.constants) == ["d"]
    assert list(after.inputs) == ["x", "unused"]
    assert_same_values(before, after)
    assert EliminateDeadCode().run(after) is after
