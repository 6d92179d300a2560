import pytest

from compiler.graph.factor_reductions import FactorReductions
from compiler.graph.ir import Graph
from compiler.index import Index
from compiler.scalar import Const, apply
from tests.compiler.graph.building import assert_same_values, graph, load, node, within

A1, R0, R1 = Index.of("a1"), Index.of("r0"), Index.of("r1")
GROUPED = load("x", "a0", "r1", A1 * 4 + "r0")


def factored(before: Graph) -> Graph:
    after = FactorReductions().run(before)
    assert_same_values(before, after, rtol=1e-5)
    assert FactorReductions().run(after) is after
    return after


@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
def test_channels_of_a_group_are_reduced_by_themselves_first(reducer: str) -> None:
    before = graph({"x": (2, 100, 12)}, [node("y", (2, 3), GROUPED, (4, 100), reducer)])
    first, second = factored(before).nodes
    assert first.compute.body == load("x", "a0", "r0", "a1")
    assert first.compute.type.sizes == (2, 12)
    assert second.compute.body == load(first.output, "a0", A1 * 4 + "r0")
    assert {first.compute.reducer, second.compute.reducer} == {reducer}


def test_what_belongs_to_the_group_is_read_by_its_number() -> None:
    away = apply("sub", GROUPED, load("mean", "a0", "a1"))
    before = graph(
        {"x": (2, 100, 12), "mean": (2, 3)}, [node("y", (2, 3), apply("mul", away, away), (4, 100))]
    )
    first, _ = factored(before).nodes
    one = apply("sub", load("x", "a0", "r0", "a1"), load("mean", "a0", A1 // 4))
    assert first.compute.body == apply("mul", one, one)


def test_small_parts_and_windows_stay() -> None:
    small = graph({"x": (2, 9, 12)}, [node("y", (2, 3), GROUPED, (4, 9))])
    pooled = load("x", "a0", A1 * 2 + "r0", Index.of("a2") * 2 + "r1")
    window = graph({"x": (2, 12, 12)}, [node("y", (2, 6, 6), pooled, (2, 2))])
    overlapping = graph(
        {"x": (2, 100, 12)}, [node("y", (2, 3), load("x", "a0", "r1", A1 * 3 + "r0"), (4, 100))]
    )
    for before in (small, window, overlapping):
        assert FactorReductions().run(before) is before


def test_parts_that_lie_one_behind_the_other_stay() -> None:
    before = graph({"x": (2, 12, 100)}, [node("y", (2, 3), load("x", "a0", A1 * 4 + "r0", "r1"), (4, 100))])
    assert FactorReductions().run(before) is before


def test_other_places_of_the_group_stay() -> None:
    """Next to its first channel, and where a test asks for the place within it."""
    beside = apply("mul", GROUPED, load("z", A1 * 2))
    before = graph({"x": (2, 100, 12), "z": (6,)}, [node("y", (2, 3), beside, (4, 100))])
    assert FactorReductions().run(before) is before
    tested = within(GROUPED, Const(0.0), ("r0", 0, 3))
    before = graph({"x": (2, 100, 12)}, [node("y", (2, 3), tested, (4, 100))])
    assert FactorReductions().run(before) is before


def test_a_test_of_the_channel_goes_with_it() -> None:
    tested = within(GROUPED, Const(0.0), (A1 * 4 + "r0", 0, 7))
    first, _ = factored(graph({"x": (2, 100, 12)}, [node("y", (2, 3), tested, (4, 100))])).nodes
    assert first.compute.body == within(load("x", "a0", "r0", "a1"), Const(0.0), ("a1", 0, 7))


def test_weights_within_a_group_stay() -> None:
    """Then it is a contraction whose parts are no longer one."""
    product = apply("mul", GROUPED, load("w", "r0", "r1"))
    before = graph({"x": (2, 100, 12), "w": (4, 100)}, [node("y", (2, 3), product, (4, 100))])
    assert FactorReductions().run(before) is before
