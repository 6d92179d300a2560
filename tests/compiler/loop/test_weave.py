"""Loops of stages that are turns apart as one loop; the interpreter is the judge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import (
    Block,
    Buffer,
    Extent,
    For,
    If,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    walk_statements,
)
from compiler.loop.simplify import substitute_statement
from compiler.loop.software_pipeline import software_pipeline
from compiler.loop.weave import weave
from compiler.pipeline import build_nest
from compiler.scalar import Bound, Const, Expr, Load, apply
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_native
from tests.compiler.workloads import layer_norm, random_operands, softmax

ROWS, COLUMNS = 8, 5
EACH = Extent(ROWS)
V3 = PRESETS["x86-64-v3"]


def over(var: str, *body: Stmt, size: int = COLUMNS, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, Extent(size), kind, block(*body))


def at(name: str, *indices: Index | str | int) -> Load:
    return Load(name, tuple(Index.of(i) for i in indices))


def store(place: Load, value: Expr) -> Store:
    return Store(place.buffer, place.indices, value)


def summed(row: str, total: str, value: Expr) -> tuple[Store, For]:
    place = at(total, row)
    return store(place, Const(0.0)), over(f"j{row}", store(place, apply("add", place, value)))


def nest(*statements: Stmt) -> LoopNest:
    buffers = (
        Buffer("x", (ROWS, COLUMNS), DType.F64, "global", "input"),
        Buffer("y", (ROWS, COLUMNS), DType.F64, "global", "output"),
        *(Buffer(name, (ROWS,), DType.F64, "local") for name in ("m", "s")),
    )
    return LoopNest("n", buffers, block(*statements))


def stages(extent: Extent = EACH) -> list[For]:
    """The sum of a row, that of squares less it, and the elements by both; `m` and `s` are read two turns later."""

    def less(row: str) -> Expr:
        return apply("sub", at("x", row, f"j{row}"), at("m", row))

    scaled = apply("mul", less("c"), at("s", "c"))
    bodies = {
        "a": summed("a", "m", at("x", "a", "ja")),
        "b": summed("b", "s", apply("mul", less("b"), less("b"))),
        "c": (over("jc", store(at("y", "c", "jc"), scaled)),),
    }
    return [For(row, extent, LoopKind.PIPELINED, block(*body)) for row, body in bodies.items()]


def result(given: LoopNest) -> np.ndarray:
    arrays = {
        "x": np.random.default_rng(0).normal(size=(ROWS, COLUMNS)),
        "y": np.full((ROWS, COLUMNS), np.nan),
    }
    interpret(given, arrays)
    return arrays["y"]


def inner(stmt: Stmt) -> list[str]:
    return [s.var for s in walk_statements(stmt) if isinstance(s, For)]


def woven(made: LoopNest) -> If:
    """What is done in turns with all stages, before what is done in the others."""
    return next(s for s in walk_statements(made.body) if isinstance(s, If) and s.otherwise != Block(()))


def test_stages_of_a_turn_are_one_loop() -> None:
    given = software_pipeline(nest(*stages()))
    made = weave(given)
    test = woven(made)
    assert (test.condition.low, test.condition.high) == (2, ROWS)
    assert inner(test.then) == ["ja"]
    assert inner(test.otherwise) == ["ja", "jb", "jc"]
    np.testing.assert_array_equal(result(made), result(given))
    assert weave(nest()).body == nest().body


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
def test_a_bound_on_the_rows_is_one_on_turns_with_all_stages(rows: int) -> None:
    extent = Extent(ROWS, Index.of(rows) - Index.of("o") * ROWS)
    given = software_pipeline(nest(over("o", *stages(extent), size=1)))
    made = weave(given)
    test = woven(made)
    assert isinstance(test.then, If)
    assert inner(test.then.then) == ["ja"]
    np.testing.assert_array_equal(result(made), result(given))


def test_fewer_rows_than_stages_are_left_alone() -> None:
    """No turn has all stages: a test that never holds would have been one of numbers below zero."""
    given = software_pipeline(nest(*stages(Extent(1))))
    assert weave(given) is given


def test_loops_in_loops_are_woven_too() -> None:
    """Rows of a block go through a stage one after the other."""
    double = [replace(loop, extent=Extent(ROWS // 2), body=rows_of(loop.var, loop.body)) for loop in stages()]
    given = software_pipeline(nest(*double))
    made = weave(given)
    assert inner(woven(made).then) == ["ia", "ja"]
    np.testing.assert_array_equal(result(made), result(given))


def rows_of(row: str, body: Stmt) -> Stmt:
    return over(f"i{row}", substitute_statement(body, {row: Index.of(row) * 2 + f"i{row}"}), size=2)


def turns(*parts: Stmt) -> LoopNest:
    """Parts that are a turn apart, each inside of a name for its iteration."""
    found = []
    for late, body in enumerate(parts):
        place = Index.of("t") - late
        named = Let(f"s{late}", place, ROWS, body)
        found.append(If(Bound(place, 0, ROWS), named, Block(())))
    return nest(over("t", *found, size=ROWS + len(parts) - 1))


def test_stages_beside_one_of_another_length_are_woven() -> None:
    first, *rest = stages()
    zero, loop = summed("a", "m", at("x", "a", "ja"))
    few = replace(first, body=block(zero, replace(loop, extent=Extent(3))))
    given = software_pipeline(nest(few, *rest))
    made = weave(given)
    assert inner(woven(made).then) == ["jb"]
    assert inner(made.body) == [*inner(given.body)[:2], "jb", "jb", "jc"]
    np.testing.assert_array_equal(result(made), result(given))


READ = over("j", store(at("y", "s0", "j"), at("x", "s0", "j")))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(over("k", store(at("y", "s1", "k"), at("x", "s1", "k")), size=4), id="another length"),
        pytest.param(
            over("k", store(at("y", "s1", 0), at("y", Index.of("s1") + 1, "k"))), id="reads what it stores"
        ),
        pytest.param(over("k", store(at("y", Index.of("s1") + 1, "k"), Const(0.0))), id="stores over it"),
        pytest.param(
            over("k", store(at("y", Index.of("s1") % 3, "k"), Const(0.0))), id="stores where nobody knows"
        ),
        pytest.param(store(at("m", "s1"), Const(0.0)), id="no loop"),
        pytest.param(
            over("k", over("u", store(at("m", "s1"), at("x", "s1", "k")), size=2, kind=LoopKind.UNROLLED)),
            id="a tile",
        ),
    ],
)
def test_other_stages_stay_apart(other: Stmt) -> None:
    given = turns(READ, other)
    assert weave(given) is given


@pytest.mark.parametrize(("first", "second", "differ"), [(0, 1, True), (0, 3, False), (2, 0, True)])
def test_remainders_of_turns_that_differ_are_apart(first: int, second: int, *, differ: bool) -> None:
    """Two parts of a ring of three rows."""

    def part(late: int, shift: int) -> Stmt:
        ring = (Index.of(f"s{late}") + late + shift) % 3
        return over(f"j{late}", store(at("y", ring, f"j{late}"), at("x", f"s{late}", f"j{late}")))

    given = turns(part(0, first), part(1, second))
    assert (weave(given) is not given) == differ


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(softmax(64, 131), id="softmax"),
        pytest.param(layer_norm(80, 200), id="layer norm"),
        pytest.param(layer_norm(37, 517), id="layer norm of long rows"),
        pytest.param(softmax(100, 256), id="rows left over"),
    ],
)
def test_rows_of_many_vectors_are_woven_and_right(workload: Workload) -> None:
    space = build_space(workload, V3, 1)
    operands = random_operands(workload)
    expected = reference_outputs(workload, operands)["y0"]
    schedule = space.schedule(space.default)
    assert space.values(space.default)["sweep"] != 1
    assert woven(build_nest(workload, schedule))
    assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 3e-6
