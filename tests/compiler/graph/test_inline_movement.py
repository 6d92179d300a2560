import math

from compiler.graph.dce import EliminateDeadCode
from compiler.graph.inline_movement import InlineMovements
from compiler.graph.ir import ComputeKind, Graph
from compiler.index import Index
from compiler.scalar import Const, apply
from tests.compiler.graph.building import assert_same_values, graph, load, node, within

A0, A1, R0 = Index.of("a0"), Index.of("a1"), Index.of("r0")
ZERO = Const(0.0)
PADDED = within(load("x", A0 - 1), ZERO, (A0 - 1, 0, 6))


def inlined(before: Graph) -> Graph:
    """Run the pass, check that nothing changed its value, and remove what is left over."""
    after = InlineMovements().run(before)
    assert_same_values(before, after)
    assert InlineMovements().run(after) is after
    return EliminateDeadCode().run(after)


def test_chains_of_transposes_slices_and_flat_views_vanish() -> None:
    after = inlined(
        graph(
            {"x": (4, 6, 1)},
            [
                node("t", (1, 6, 4), load("x", "a2", "a1", "a0")),
                node("s", (1, 3, 4), load("t", "a0", A1 * 2, "a2")),
                node("f", (3, 4), load("s", 0, "a0", "a1")),
                node("y", (3, 4), apply("neg", load("f", "a0", "a1"))),
            ],
        )
    )
    (only,) = after.nodes
    assert only.compute.body == apply("neg", load("x", "a1", A0 * 2, 0))


def test_quotients_that_the_reader_would_get_keep_the_movement() -> None:
    before = graph(
        {"x": (4, 6)},
        [
            node("f", (24,), load("x", A0 // 6, A0 % 6)),
            node("y", (24,), apply("neg", load("f", "a0"))),
        ],
    )
    assert InlineMovements().run(before) is before


def test_quotients_that_cancel_do_not_count() -> None:
    after = inlined(
        graph(
            {"x": (4, 6)},
            [
                node("f", (24,), load("x", A0 // 6, A0 % 6)),
                node("y", (4, 6), apply("neg", load("f", A0 * 6 + "a1"))),
            ],
        )
    )
    assert after.nodes[-1].compute.body == apply("neg", load("x", "a0", "a1"))


def test_padding_goes_into_the_contraction_that_reads_it() -> None:
    product = apply("mul", load("p", A0 + R0), load("w", "r0"))
    after = inlined(
        graph({"x": (6,)}, [node("p", (8,), PADDED), node("y", (6,), product, (3,))], constants={"w": (3,)})
    )
    (only,) = after.nodes
    assert only.compute.kind is ComputeKind.CONTRACTION
    shifted = A0 + R0 - 1
    assert only.compute.body == apply(
        "mul", within(load("x", shifted), ZERO, (shifted, 0, 6)), load("w", "r0")
    )


def test_padding_of_padding_becomes_one_test() -> None:
    outer = within(load("p", A0 + R0 - 1), ZERO, (A0 + R0 - 1, 0, 8))
    before = graph(
        {"x": (6,)},
        [node("p", (8,), PADDED), node("y", (8,), apply("mul", outer, load("w", "r0")), (3,))],
        constants={"w": (3,)},
    )
    (only,) = inlined(before).nodes
    shifted = A0 + R0 - 2
    guard = only.compute.body.args[0]  # type: ignore[union-attr]
    assert guard == within(load("x", shifted), ZERO, (shifted, 0, 6))


def test_padding_with_another_value_is_not_mixed() -> None:
    outer = within(load("p", A0 + R0 - 1), Const(-math.inf), (A0 + R0 - 1, 0, 8))
    before = graph({"x": (6,)}, [node("p", (8,), PADDED), node("y", (8,), outer, (3,), "max")])
    assert InlineMovements().run(before) is before


def test_no_test_enters_a_map() -> None:
    before = graph({"x": (6,)}, [node("p", (8,), PADDED), node("y", (8,), apply("neg", load("p", "a0")))])
    assert InlineMovements().run(before) is before


def test_a_contraction_stays_one() -> None:
    joined = within(load("x", "a0"), load("z", A0 - 6), ("a0", 0, 6))
    before = graph(
        {"x": (6,), "z": (2,)},
        [node("c", (8,), joined), node("y", (), apply("mul", load("c", "r0"), load("w", "r0")), (8,))],
        constants={"w": (8,)},
    )
    assert InlineMovements().run(before) is before


def test_an_output_stays_computed_and_its_readers_go_around_it() -> None:
    before = graph(
        {"x": (4, 6)},
        [
            node("t", (6, 4), load("x", "a1", "a0")),
            node("y", (6, 4), apply("neg", load("t", "a0", "a1"))),
        ],
        ("t", "y"),
    )
    after = inlined(before)
    assert [n.compute.reads for n in after.nodes] == [("x",), ("x",)]


def test_reductions_over_what_a_reshape_merged_are_split() -> None:
    flat = node("f", (2, 24), load("x", "a0", A1 // 12, (A1 % 12) // 3, A1 % 3))
    (only,) = inlined(graph({"x": (2, 2, 4, 3)}, [flat, node("y", (2,), load("f", "a0", "r0"), (24,))])).nodes
    assert only.compute.body == load("x", "a0", "r0", "r1", "r2")
    assert [a.size for a in only.compute.reduce_axes] == [2, 4, 3]


def test_reductions_stay_whole_where_another_reader_keeps_the_reshape() -> None:
    flat = node("f", (2, 24), load("x", "a0", A1 // 12, A1 % 12))
    total = node("t", (2,), load("f", "a0", "r0"), (24,))
    rest = node("y", (2, 24), apply("sub", load("f", "a0", "a1"), load("t", "a0")))
    before = graph({"x": (2, 2, 12)}, [flat, total, rest])
    assert InlineMovements().run(before) is before
    kept = graph({"x": (2, 2, 12)}, [flat, total], ("f", "t"))
    assert InlineMovements().run(kept) is kept


def test_contractions_with_what_is_flat_stay_whole() -> None:
    flat = node("f", (24,), load("x", A0 // 12, A0 % 12))
    product = apply("mul", load("f", "r0"), load("w", "r0", "a0"))
    before = graph({"x": (2, 12)}, [flat, node("y", (5,), product, (24,))], constants={"w": (24, 5)})
    assert InlineMovements().run(before) is before


def test_steps_that_are_no_digits_of_the_extent_stay() -> None:
    flat = node("f", (24,), load("x", A0 // 7, A0 % 7))
    before = graph({"x": (4, 7)}, [flat, node("y", (), load("f", "r0"), (24,))])
    assert InlineMovements().run(before) is before
