"""Vectors and elements of local memory in registers while a loop runs; the interpreter is the judge."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.index import Index
from compiler.loop.accumulate import accumulate
from compiler.loop.hoist import hoist
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Buffer, Extent, For, LoopKind, LoopNest, Stmt, Store, block, walk_statements
from compiler.loop.printer import print_nest
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply, walk

ROWS, COLUMNS, LANES = 3, 5, 4


def over(var: str, *body: Stmt, size: int, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, Extent(size), kind, block(*body))


def vector(var: str, buffer: str, indices: tuple[Index | str | int, ...], value: Expr) -> For:
    store = Store(buffer, tuple(Index.of(i) for i in indices), value)
    return over(var, store, size=LANES, kind=LoopKind.VECTOR)


def at(name: str, *indices: Index | str | int) -> Load:
    return Load(name, tuple(Index.of(i) for i in indices))


def nest(*statements: Stmt) -> LoopNest:
    buffers = (
        Buffer("x", (ROWS, COLUMNS, LANES), DType.F64, "global", "input"),
        Buffer("y", (ROWS, LANES), DType.F64, "global", "output"),
        Buffer("t", (ROWS, LANES), DType.F64, "local"),
        Buffer("m", (ROWS,), DType.F64, "local"),
    )
    return LoopNest("n", buffers, block(*statements))


def result(given: LoopNest) -> np.ndarray:
    arrays = {
        "x": np.random.default_rng(0).normal(size=(ROWS, COLUMNS, LANES)),
        "y": np.full((ROWS, LANES), np.nan),
    }
    interpret(given, arrays)
    return arrays["y"]


CLEARED = vector("a", "t", ("s", "a"), Const(0.0))
KEPT = over("r", vector("b", "y", ("r", "b"), at("t", "r", "b")), size=ROWS)


def added(place: Load, lane: str = "l") -> Stmt:
    return over(
        "v", vector(lane, "t", place.indices, apply("add", place, at("x", "s", "v", lane))), size=COLUMNS
    )


def touched_in_loop(given: LoopNest) -> set[str]:
    (loop,) = [s for s in walk_statements(given.body) if isinstance(s, For) and s.var == "v"]
    return {s.buffer for s in walk_statements(loop) if isinstance(s, Store)}


def test_a_vector_is_in_a_register_while_it_is_added_to() -> None:
    given = nest(over("s", CLEARED, added(at("t", "s", "l")), size=ROWS), KEPT)
    made = accumulate(given)
    assert touched_in_loop(made) == {"t.sum4"}
    assert made.by_name["t.sum4"].shape == (LANES,)
    np.testing.assert_array_equal(result(made), result(given))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param((added(at("t", "s", "l")),), id="it begins with what was there"),
        pytest.param((CLEARED, added(at("t", 0, "l"))), id="another vector"),
        pytest.param((CLEARED, added(at("t", "s", Index.of("v") % LANES))), id="an element of it"),
        pytest.param(
            (CLEARED, added(at("t", "s", "l")), Store("m", (Index.of("s"),), at("t", "s", 0))),
            id="an element is read",
        ),
        pytest.param(
            (vector("a", "t", (0, "a"), Const(0.0)), added(at("t", 0, "l"))), id="the same one for all rows"
        ),
        pytest.param((CLEARED, vector("l", "t", ("s", "l"), Const(1.0))), id="no loop adds to it"),
    ],
)
def test_other_vectors_stay_in_memory(body: tuple[Stmt, ...]) -> None:
    given = nest(over("s", *body, size=ROWS), KEPT)
    assert accumulate(given) is given


def scaled(value: Expr) -> For:
    return over("v", vector("l", "y", ("s", "l"), apply("mul", at("x", "s", "v", "l"), value)), size=COLUMNS)


MEAN = Store("m", (Index.of("s"),), at("x", "s", 0, 0))


def test_an_element_is_read_once_before_the_loop() -> None:
    given = nest(over("s", MEAN, scaled(at("m", "s")), size=ROWS))
    made = hoist(given)
    (loop,) = [s for s in walk_statements(made.body) if isinstance(s, For) and s.var == "v"]
    (store,) = [s for s in walk_statements(loop) if isinstance(s, Store)]
    assert at("m.r", 0) in walk(store.value)
    np.testing.assert_array_equal(result(made), result(given))


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(scaled(at("x", "s", 0, 0)), id="not local"),
        pytest.param(scaled(at("m", Index.of("v") % ROWS)), id="another one each time"),
        pytest.param(
            scaled(Guard((Bound(Index.of("s"), 1, ROWS),), at("m", "s"), Const(0.0))), id="not read by all"
        ),
        pytest.param(
            over("v", Store("m", (Index.of("s"),), apply("add", at("m", "s"), Const(1.0))), size=COLUMNS),
            id="it changes",
        ),
    ],
)
def test_others_are_read_in_the_loop(loop: For) -> None:
    given = nest(over("s", MEAN, loop, size=ROWS))
    assert hoist(given) is given


def centred(*others: Expr) -> For:
    """The elements of a row less its mean, and other terms."""
    value = apply("sub", at("x", "s", "v", "l"), at("m", "s"))
    for other in others:
        value = apply("add", value, other)
    return over("v", vector("l", "y", ("s", "l"), value), size=COLUMNS)


def test_what_is_subtracted_from_memory_is_negated_once() -> None:
    given = nest(over("s", MEAN, centred(), size=ROWS))
    made = hoist(given)
    text = print_nest(made)
    assert "m.r[0] = neg(m[s])" in text
    assert "add(x[s, v, l], m.r[0])" in text
    np.testing.assert_array_equal(result(made), result(given))


def test_what_has_other_uses_is_not_negated() -> None:
    given = nest(over("s", MEAN, centred(at("m", "s")), size=ROWS))
    made = hoist(given)
    assert "neg" not in print_nest(made)
    np.testing.assert_array_equal(result(made), result(given))


def test_each_copy_of_a_row_has_a_register_of_its_own() -> None:
    """Two loops over columns that an unrolled loop over rows is inside of."""
    copies = over("s", centred().body, size=ROWS, kind=LoopKind.UNROLLED)
    given = nest(over("s", MEAN, size=ROWS), over("v", copies, size=COLUMNS))
    made = hoist(given)
    assert made.by_name["m.r"].shape == (ROWS,)
    assert "add(x[s, v, l], m.r[s])" in print_nest(made)
    np.testing.assert_array_equal(result(made), result(given))
