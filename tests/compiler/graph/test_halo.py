from __future__ import annotations

import pytest

from compiler.graph.halo import drop_guards, zero_halos, zero_padded
from compiler.graph.layout import Layout
from compiler.index import Index
from compiler.scalar import Bound, Const, Guard
from tests.compiler.workload.graphs import GraphBuilder, load

ROW = Index.of("a0") + "r0" - 1


def _types() -> GraphBuilder:
    b = GraphBuilder()
    b.input("x", 8)
    return b


@pytest.mark.parametrize(
    ("bound", "outside", "padded"),
    [
        (Bound(ROW, 0, 8), 0.0, True),
        (Bound(ROW, 0, 7), 0.0, False),
        (Bound(ROW, 1, 8), 0.0, False),
        (Bound(ROW + 1, 0, 8), 0.0, False),
        (Bound(ROW, 0, 8), float("-inf"), False),
    ],
)
def test_only_exact_extents_and_zero_count_as_padding(bound: Bound, outside: float, padded: bool) -> None:  # noqa: FBT001
    guard = Guard((bound,), load("x", ROW), Const(outside))
    assert (zero_padded(guard, _types().inputs) is not None) == padded


@pytest.mark.parametrize(
    ("before", "after", "drops"), [(1, 1, True), (2, 3, True), (0, 1, False), (1, 0, False)]
)
def test_a_guard_goes_where_the_halo_covers_it(before: int, after: int, drops: bool) -> None:  # noqa: FBT001
    guard = Guard((Bound(ROW, 0, 8),), load("x", ROW), Const(0.0))
    layouts = {"x": Layout((0,), (before,), (after,))}
    kept = drop_guards(guard, _types().inputs, layouts, {"a0": 8, "r0": 3})
    assert kept == (guard.inside if drops else guard)


def test_the_tests_of_a_dimension_without_halo_stay() -> None:
    b = GraphBuilder()
    b.input("x", 8, 8)
    column = Index.of("a1") + "r1" - 1
    guard = Guard((Bound(ROW, 0, 8), Bound(column, 0, 8)), load("x", ROW, column), Const(0.0))
    layouts = {"x": Layout((0, 1), (0, 1), (0, 1))}
    kept = drop_guards(guard, b.inputs, layouts, {"a0": 8, "r0": 3, "a1": 8, "r1": 3})
    assert kept == Guard((Bound(ROW, 0, 8),), guard.inside, Const(0.0))


def test_the_test_of_an_index_stays_where_one_of_its_dimensions_has_no_halo() -> None:
    b = GraphBuilder()
    b.input("x", 8, 8)
    guard = Guard((Bound(ROW, 0, 8),), load("x", ROW, ROW), Const(0.0))
    layouts = {"x": Layout((0, 1), (0, 1), (0, 1))}
    assert drop_guards(guard, b.inputs, layouts, {"a0": 8, "r0": 3}) == guard


def test_padding_that_is_never_reached_needs_no_halo() -> None:
    b = GraphBuilder()
    x = b.relu(b.input("x", 1, 2, 5, 5))
    body = Guard((Bound(Index.of("a2"), 0, 5),), load(x, "a0", "r0", "a2", "a3"), Const(0.0))
    b.node((1, 1, 5, 5), body, (2,), "sum")
    assert zero_halos(b.graph("v1")) == {}
