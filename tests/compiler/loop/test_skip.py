"""Skip: padded taps are not computed, and nothing else changes."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from onnx import helper

from compiler.choice import default_schedule
from compiler.evaluate import reference_outputs
from compiler.frontend import import_model
from compiler.index import Index
from compiler.loop.ir import Extent, For, If, LoopKind, LoopNest, Stmt, Store, walk_statements
from compiler.loop.simplify import simplify
from compiler.loop.skip import skip
from compiler.pipeline import build_kernel
from compiler.pipeline import lower as lower_graph
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply, walk
from compiler.schedule.lower import lower
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.space.rules import build_space
from compiler.target import PRESETS
from tests.compiler.execute import relative_error, run_native
from tests.compiler.frontend.models import model
from tests.compiler.loop.test_loop_passes import run
from tests.compiler.workloads import convolution, padded_convolution, random_operands


def nest_of(value: Expr, **kinds: LoopKind) -> LoopNest:
    """`for i < 8: for r < 3: for c < 4: t[i] = value`; `kinds` of the loops that are not serial."""
    body: Stmt = Store("t", (Index.of("i"),), value)
    for name, size in (("c", 4), ("r", 3), ("i", 8)):
        body = For(name, Extent(size), kinds.get(name, LoopKind.SERIAL), body)
    return LoopNest("nest", (), body)


def summed(guard: Guard) -> Expr:
    return apply("add", Load("t", (Index.of("i"),)), apply("mul", guard, Load("k", (Index.of("r"),))))


def tap(low: int = -1, outside: float = 0.0) -> Guard:
    index = Index.of("i") + "r" + low
    return Guard((Bound(index, 0, 8),), Load("x", (index, Index.of("c"))), Const(outside))


def test_the_test_goes_around_the_loops_that_do_not_move_it() -> None:
    found = skip(nest_of(summed(tap()))).body
    assert isinstance(found, For)
    assert isinstance(found.body, For)
    assert isinstance(found.body.body, If)
    assert not [
        e
        for s in walk_statements(found)
        if isinstance(s, Store)
        for e in walk(s.value)
        if isinstance(e, Guard)
    ]


def test_what_is_compared_with_the_least_is_skipped_too() -> None:
    largest = apply("max", Load("t", (Index.of("i"),)), tap(outside=-inf))
    found = skip(nest_of(largest)).body
    assert any(isinstance(s, If) for s in walk_statements(found))


@pytest.mark.parametrize("kind", ["MaxPool", "LpPool"])
def test_large_windows_are_no_large_code(kind: str) -> None:
    """The borders of a window of 9 on both sides, in both dimensions: in turns for a maximum, at once for a norm."""
    node = helper.make_node(kind, ["x"], ["y"], kernel_shape=[9, 9], pads=[4] * 4)
    subgraphs = lower_graph(import_model(model([node], {"x": [1, 16, 20, 20]}))).subgraphs
    assert len(subgraphs) == {"MaxPool": 2, "LpPool": 1}[kind]
    for subgraph in subgraphs:
        for target in (PRESETS["x86-64-v3"], PRESETS["x86-64-v4"]):
            build_kernel(subgraph.workload, default_schedule(subgraph.workload, target, 1), target)


@pytest.mark.parametrize(
    "nest",
    [
        nest_of(summed(tap()), i=LoopKind.UNROLLED),
        nest_of(summed(tap()), r=LoopKind.VECTOR),
        nest_of(summed(tap(outside=1.0))),
        nest_of(summed(tap(low=0))),
        nest_of(apply("max", Load("t", (Index.of("i"),)), tap())),
    ],
    ids=["within a tile", "of each lane of a sum", "not zero", "at the end alone", "not a sum"],
)
def test_other_tests_stay_where_they_are(nest: LoopNest) -> None:
    assert skip(nest) is nest


@pytest.mark.parametrize("stride", [1, 2])
def test_the_result_is_kept(stride: int) -> None:
    workload = padded_convolution(6, 3, 4, 5, stride)
    nest = simplify(lower(replay(workload, Schedule(())), "nest"))
    skipped = skip(nest)
    assert any(isinstance(s, If) for s in walk_statements(skipped.body))
    assert skip(skipped) is skipped
    expected = reference_outputs(workload, random_operands(workload))["y0"]
    assert relative_error(run(skipped, workload), expected) < 1e-5


def test_without_padding_there_is_nothing_to_skip() -> None:
    nest = simplify(lower(replay(convolution(5, 3, 4, 3), Schedule(())), "nest"))
    assert skip(nest) is nest


def wide_nest(dilation: int, lanes: LoopKind = LoopKind.UNROLLED) -> LoopNest:
    """`for j < 4: for r < 3: for c < 4: for i < 4 unrolled: t[i] += x[i + 4 j + dilation r - dilation] k[r]`."""
    index = Index.of("i") + Index.of("j") * 4 + Index.of("r") * dilation - dilation
    guard = Guard((Bound(index, 0, 16),), Load("x", (index, Index.of("c"))), Const(0.0))
    body: Stmt = Store("t", (Index.of("i"),), summed(guard))
    for name, size in (("i", 4), ("c", 4), ("r", 3), ("j", 4)):
        body = For(name, Extent(size), lanes if name == "i" else LoopKind.SERIAL, body)
    return LoopNest("nest", (), body)


def test_taps_that_lie_outside_for_a_whole_tile_are_left_out() -> None:
    found = [s for s in walk_statements(skip(wide_nest(7)).body) if isinstance(s, If)]
    tap = Index.of("j") * 4 + Index.of("r") * 7 - 7
    assert [s.condition for s in found] == [Bound(tap, -3, 16), Bound(tap, 0, 13)]
    some, every = found
    assert isinstance(some.then, If)
    assert isinstance(every.then, For)  # the loop over c, without a test
    assert every.then.var == "c"
    assert every.otherwise != every.then


@pytest.mark.parametrize("nest", [wide_nest(3), wide_nest(7, LoopKind.VECTOR)], ids=["narrow", "lanes"])
def test_a_tile_that_is_never_outside_is_not_tested(nest: LoopNest) -> None:
    assert skip(nest) is nest


@pytest.mark.parametrize("dilation", [5, 8, 11])
def test_any_tile_of_a_wide_window_is_right(dilation: int) -> None:
    """Of tiles of few and of many places, of which some read the border alone."""
    node = helper.make_node("Conv", ["x", "k"], ["y"], dilations=[dilation] * 2, pads=[dilation] * 4)
    weights = np.random.default_rng(0).standard_normal((24, 20, 3, 3)).astype(np.float32)
    graph = import_model(model([node], {"x": [1, 20, 13, 17]}, {"k": weights}))
    workload = next(s.workload for s in lower_graph(graph).subgraphs if s.workload.stages[0].reducer == "sum")
    operands, target = random_operands(workload), PRESETS["x86-64-v3"]
    expected = reference_outputs(workload, operands)["y0"]
    space = build_space(workload, target, 1)
    for rows in (1, 2, 3, 5, 8):
        values = {**space.values(space.default), "rows": rows, "vectors": 1}
        got = run_native(workload, space.build(values), operands, target=target)
        assert relative_error(got, expected) < 1e-5
