"""Loops beside each other as one, each behind those whose sums it reads; the interpreter is the judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.interpreter import interpret
from compiler.loop.ir import (
    Block,
    Buffer,
    Extent,
    For,
    If,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    walk_statements,
)
from compiler.loop.software_pipeline import software_pipeline
from compiler.scalar import Const, Expr, Load, apply

ROWS, COLUMNS = 8, 5
EACH = Extent(ROWS)


def pipelined(var: str, *body: Stmt, extent: Extent = EACH) -> For:
    return For(var, extent, LoopKind.PIPELINED, block(*body))


def over(var: str, *body: Stmt) -> For:
    return For(var, Extent(COLUMNS), LoopKind.SERIAL, block(*body))


def at(name: str, *indices: Index | str | int) -> Load:
    return Load(name, tuple(Index.of(i) for i in indices))


def store(place: Load, value: Expr) -> Store:
    return Store(place.buffer, place.indices, value)


def nest(*statements: Stmt) -> LoopNest:
    """x → y through a sum and a product of each row, `t`, the elements less the sum, and `s`, their sum of squares."""
    buffers = (
        Buffer("x", (ROWS, COLUMNS), DType.F64, "global", "input"),
        Buffer("y", (ROWS, COLUMNS), DType.F64, "global", "output"),
        *(Buffer(name, (ROWS,), DType.F64, "local") for name in ("m", "s")),
        Buffer("t", (ROWS, COLUMNS), DType.F64, "local"),
    )
    return LoopNest("n", buffers, block(*statements))


def summed(var: str, total: str, value: Expr) -> tuple[Stmt, Stmt]:
    place = at(total, var)
    return store(place, Const(0.0)), over("j", store(place, apply("add", place, value)))


def stages(extent: Extent = EACH) -> list[For]:
    less, square = at("t", "b", "j"), apply("mul", at("t", "c", "j"), at("t", "c", "j"))
    return [
        pipelined("a", *summed("a", "m", at("x", "a", "j")), extent=extent),
        pipelined("b", over("j", store(less, apply("sub", at("x", "b", "j"), at("m", "b")))), extent=extent),
        pipelined("c", *summed("c", "s", square), extent=extent),
        pipelined(
            "d",
            over("j", store(at("y", "d", "j"), apply("mul", at("t", "d", "j"), at("s", "d")))),
            extent=extent,
        ),
    ]


def result(given: LoopNest) -> np.ndarray:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(ROWS, COLUMNS)), "y": np.full((ROWS, COLUMNS), np.nan)}
    interpret(given, arrays)
    return arrays["y"]


def loops(given: LoopNest) -> list[For]:
    return [s for s in walk_statements(given.body) if isinstance(s, For)]


def test_stages_are_turns_apart_where_they_read_sums() -> None:
    given = nest(*stages())
    made = software_pipeline(given)
    (outer,) = [loop for loop in loops(made) if loop.var == "d.turn"]
    assert outer.kind is LoopKind.SERIAL
    assert outer.extent == Extent(ROWS + 2)
    tests = [s.condition.index for s in walk_statements(made.body) if isinstance(s, If)]
    # What is less the sum, and the sum of its squares, are in the same turn: a map is there at once.
    assert tests == [Index.of("d.turn"), Index.of("d.turn") - 1, Index.of("d.turn") - 2]
    np.testing.assert_array_equal(result(made), result(given))


def test_what_is_kept_is_as_long_as_stages_are_apart() -> None:
    made = software_pipeline(nest(*stages())).by_name
    assert [made[name].shape for name in ("m", "t", "s")] == [(2,), (2, COLUMNS), (2,)]
    whole = [replace(b, scope="global") if b.scope == "local" else b for b in nest(*stages()).buffers]
    other = software_pipeline(replace(nest(*stages()), buffers=tuple(whole)))
    assert [b.shape for b in other.buffers] == [b.shape for b in whole]


def test_what_is_read_later_is_kept_whole() -> None:
    """By what stands behind, in loops of another kind."""
    first, second, third, last = stages()
    between = over("j", store(at("t", 0, "j"), apply("add", at("t", 0, "j"), Const(1.0))))
    given = nest(first, second, third, between, last)
    made = software_pipeline(given)
    assert [made.by_name[name].shape for name in ("m", "t", "s")] == [(2,), (ROWS, COLUMNS), (ROWS,)]
    np.testing.assert_array_equal(result(made), result(given))


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_any_number_of_turns_is_right(rows: int) -> None:
    """A bound that is known to the loop around alone, as that of the last rows."""
    bounded = [
        For(
            "o",
            Extent(1),
            LoopKind.SERIAL,
            block(*stages(Extent(ROWS, Index.of(rows) - Index.of("o") * ROWS))),
        )
    ]
    made = software_pipeline(nest(*bounded))
    assert [loop.extent.limit for loop in loops(made) if loop.var == "d.turn"] == [ROWS + 2]
    got, wanted = result(made), result(nest(*stages()))
    np.testing.assert_array_equal(got[:rows], wanted[:rows])
    assert np.isnan(got[rows:]).all()


def test_a_loop_with_none_beside_it_is_serial() -> None:
    first, *_, last = stages()
    between = store(at("s", 0), Const(1.0))
    made = software_pipeline(nest(first, between, last))
    assert [loop.kind for loop in loops(made) if loop.var in "ad"] == [LoopKind.SERIAL] * 2
    alone = software_pipeline(nest(pipelined("a", *summed("a", "m", at("x", "a", "j")))))
    assert alone.body == replace(alone.body, kind=LoopKind.SERIAL)


def test_a_nest_without_such_loops_is_left_alone() -> None:
    given = nest(over("j", store(at("y", 0, "j"), at("x", 0, "j"))))
    assert software_pipeline(given) is given


@pytest.mark.parametrize(
    "read",
    [
        pytest.param((Index.of("d") + 1, "j"), id="of the next iteration"),
        pytest.param((Index.of(0), "j"), id="of the first iteration"),
        pytest.param((Index.of("d") * -1 + ROWS - 1, "j"), id="in reverse"),
    ],
)
def test_what_another_iteration_stores_cannot_be_read(read: Sequence[Index | str]) -> None:
    first, second, *_ = stages()
    later = pipelined("d", over("j", store(at("y", "d", "j"), at("t", *read))))
    with pytest.raises(ScheduleError, match="t is not read at the iteration alone that stores it"):
        software_pipeline(nest(first, second, later))


def test_a_block_of_rows_is_an_iteration() -> None:
    def rows(var: str) -> Index:
        return Index.of(var) * 2 + "i"

    def each(*body: Stmt) -> For:
        return For("i", Extent(2), LoopKind.UNROLLED, block(*body))

    half, total = Extent(ROWS // 2), at("m", rows("a"))
    parts: list[Stmt] = [
        pipelined(
            "a",
            each(
                store(total, Const(0.0)),
                over("j", store(total, apply("add", total, at("x", rows("a"), "j")))),
            ),
            extent=half,
        ),
        pipelined("d", each(over("j", store(at("y", rows("d"), "j"), at("m", rows("d"))))), extent=half),
    ]
    made = software_pipeline(nest(*parts))
    assert made.by_name["m"].shape == (4,)
    np.testing.assert_array_equal(result(made), result(nest(*parts)))
    assert isinstance(made.body, For)
    assert isinstance(made.body.body, Block)
