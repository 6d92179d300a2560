from compiler.graph.simplify import Simplify
from compiler.scalar import Const, apply
from tests.compiler.graph.building import assert_same_values, graph, load, node

ZERO = Const(0.0)


def outputs(nodes: tuple) -> list[str]:  # type: ignore[type-arg]
    return [n.output for n in nodes]


def test_a_second_relu_goes() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("t", (3,), apply("max", load("x", "a0"), ZERO)),
            node("u", (3,), apply("max", load("t", "a0"), ZERO)),
            node("y", (3,), apply("neg", load("u", "a0"))),
        ],
    )
    after = Simplify().run(before)
    assert outputs(after.nodes) == ["t", "y"]
    assert after.nodes[1].compute.reads == ("t",)
    assert_same_values(before, after)
    assert Simplify().run(after) is after


def test_a_maximum_over_a_window_keeps_what_is_known() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("t", (3,), apply("abs", load("x", "a0"))),
            node("p", (1,), load("t", "r0"), (3,), "max"),
            node("y", (1,), apply("mul", apply("max", load("p", "a0"), ZERO), Const(2.0))),
        ],
    )
    after = Simplify().run(before)
    assert after.nodes[-1].compute.body == apply("mul", load("p", "a0"), Const(2.0))


def test_a_copy_that_is_an_output_takes_the_place_of_its_original() -> None:
    before = graph(
        {"x": (1, 3)},
        [
            node("t", (1, 3), apply("neg", load("x", "a0", "a1"))),
            node("y", (1, 3), load("t", 0, "a1")),
            node("z", (1, 3), apply("abs", load("t", "a0", "a1"))),
        ],
        ("y", "z"),
    )
    after = Simplify().run(before)
    assert outputs(after.nodes) == ["y", "z"]
    assert_same_values(before, after)


def test_copies_of_inputs_and_of_outputs_stay() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("y", (3,), load("x", "a0")),
            node("z", (3,), apply("neg", load("x", "a0"))),
            node("w", (3,), load("z", "a0")),
        ],
        ("y", "z", "w"),
    )
    assert Simplify().run(before) is before


def test_a_transpose_of_a_square_is_no_copy() -> None:
    before = graph({"x": (3, 3)}, [node("y", (3, 3), load("x", "a1", "a0"))])
    assert Simplify().run(before) is before


def test_uniform_values_become_literals() -> None:
    before = graph(
        {"x": (3,)},
        [
            node("c", (3,), Const(1.0)),
            node("y", (3,), apply("add", apply("mul", load("x", "a0"), load("c", "a0")), Const(2.0))),
        ],
    )
    after = Simplify().run(before)
    assert after.nodes[-1].compute.body == apply("add", load("x", "a0"), Const(2.0))
    assert_same_values(before, after)
