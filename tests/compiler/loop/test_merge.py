"""Loops that share what they store: which become one, and that the result stays the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.index import Index
from compiler.loop.ir import (
    Block,
    Buffer,
    Extent,
    For,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    walk_statements,
)
from compiler.loop.merge import merge
from compiler.loop.simplify import simplify
from compiler.pipeline import build_nest
from compiler.scalar import Const, Expr, Load, apply
from compiler.schedule.lower import lower
from compiler.schedule.primitives import replay
from compiler.space.rules import build_space
from compiler.target import PRESETS
from compiler.workload.ir import Workload
from tests.compiler.execute import relative_error, run_interpreted, run_native
from tests.compiler.workloads import at, layer_norm, random_operands, softmax

LANES = 8
V3 = PRESETS["x86-64-v3"]


def loops(stmt: Stmt) -> list[For]:
    return [s for s in walk_statements(stmt) if isinstance(s, For) and s.kind is LoopKind.SERIAL]


def over(name: str, *stores: Stmt, size: int = 4, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(name, Extent(size), kind, block(*stores))


def vector(name: str, store: Stmt) -> For:
    return over(name, store, size=LANES, kind=LoopKind.VECTOR)


def place(loop: str, lane: str, shift: int = 0) -> Index:
    return Index.of(loop) * LANES + lane + shift


def store(buffer: str, index: Index | str | int, value: Expr) -> Store:
    return Store(buffer, at(index), value)


DOUBLED = over(
    "v", vector("i", store("t", place("v", "i"), apply("add", *[Load("x", (place("v", "i"),))] * 2)))
)
CLEARED = vector("z", store("s", "z", Const(0.0)))


def summed(read: Index, buffer: str = "t", size: int = 4) -> For:
    total = apply("add", Load("s", at("j")), Load(buffer, (read,)))
    return over("w", vector("j", store("s", "j", total)), size=size)


def nest(*statements: Stmt) -> LoopNest:
    sizes = {"x": 40, "t": 40, "s": LANES, "m": LANES}
    buffers = tuple(Buffer(n, (size,), DType.F32, "local") for n, size in sizes.items())
    return LoopNest("nest", buffers, block(*statements))


def test_a_loop_that_reads_what_the_one_before_stored_joins_it() -> None:
    merged = merge(nest(DOUBLED, CLEARED, summed(place("w", "j"))))
    (loop,) = loops(merged.body)
    assert isinstance(merged.body, Block)
    assert merged.body.statements[0] == CLEARED
    assert isinstance(loop.body, Block)
    assert [s.buffer for s in walk_statements(loop.body) if isinstance(s, Store)] == ["t", "s"]


def test_loops_of_one_variable_length_join_and_others_do_not() -> None:
    def ended(loop: For, bound: Index) -> For:
        return replace(loop, extent=Extent(4, bound))

    end = Index.of("b") * -4 + 6
    total = summed(place("w", "j"))
    around = over("b", ended(DOUBLED, end), CLEARED, ended(total, end), size=2)
    assert len(loops(merge(nest(around)).body)) == 2
    apart = nest(over("b", ended(DOUBLED, end), CLEARED, ended(total, end - 1), size=2))
    assert merge(apart) is apart


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param((DOUBLED, CLEARED, summed(place("w", "j", LANES))), id="what the next one stores"),
        pytest.param((DOUBLED, CLEARED, summed(place("w", "j", 1))), id="part of what the next one stores"),
        pytest.param((DOUBLED, CLEARED, summed(Index.of("j"))), id="what the first one stored"),
        pytest.param((DOUBLED, CLEARED, summed(Index.of("w") * 4 + "j")), id="slices that overlap"),
        pytest.param((DOUBLED, CLEARED, summed(place("w", "j"), size=3)), id="another extent"),
        pytest.param((DOUBLED, CLEARED, summed(place("w", "j"), buffer="x")), id="nothing that is stored"),
        pytest.param(
            (DOUBLED, vector("z", store("s", "z", Load("t", at("z")))), summed(place("w", "j"))),
            id="what stands between needs the first",
        ),
        pytest.param(
            (DOUBLED, vector("z", store("x", "z", Const(0.0))), summed(place("w", "j"))),
            id="what stands between is in the way of the first",
        ),
        pytest.param(
            (DOUBLED, over("w", vector("j", store("x", place("w", "j"), Load("t", (place("w", "j"),)))))),
            id="the second changes what the first reads",
        ),
        pytest.param((DOUBLED, CLEARED, over("o", summed(place("w", "j")), size=1)), id="no innermost loop"),
    ],
)
def test_others_stay_apart(statements: tuple[Stmt, ...]) -> None:
    given = nest(*statements)
    assert merge(given) is given


def largest(loop: str, *, size: int = 4, kind: LoopKind = LoopKind.VECTOR) -> For:
    """Of what `summed` adds up."""
    found = apply("max", Load("m", at("l")), Load("x", (Index.of(loop) * LANES + "l",)))
    return over(loop, For("l", Extent(LANES), kind, store("m", "l", found)), size=size)


SUM = summed(place("w", "j"), buffer="x")
ENDED = vector("z", store("t", "z", Load("s", at("z"))))
BEGUN = vector("z", store("m", "z", Const(0.0)))


def test_sums_of_the_same_vectors_are_one_loop() -> None:
    """What ends the first is done after both, what begins the second before both."""
    merged = merge(nest(SUM, ENDED, BEGUN, largest("v"), CLEARED))
    assert isinstance(merged.body, Block)
    begun, both, ended, cleared = merged.body.statements
    assert (begun, ended, cleared) == (BEGUN, ENDED, CLEARED)
    assert [s.buffer for s in walk_statements(both) if isinstance(s, Store)] == ["s", "m"]


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param((SUM, largest("v", size=3)), id="another extent"),
        pytest.param((SUM, largest("v", kind=LoopKind.UNROLLED)), id="a tile"),
        pytest.param((summed(place("w", "j", 1), buffer="x"), largest("v")), id="other vectors"),
        pytest.param(
            (SUM, ENDED, vector("z", store("m", "z", Load("t", at("z")))), largest("v")),
            id="the second begins with what the first made",
        ),
        pytest.param(
            (over("v", vector("j", store("s", "j", Load("x", at("j"))))), largest("v")), id="no sum"
        ),
    ],
)
def test_other_sums_stay_apart(statements: tuple[Stmt, ...]) -> None:
    given = nest(*statements)
    assert merge(given) is given


def before_merging(workload: Workload) -> LoopNest:
    space = build_space(workload, V3, 1)
    together = space.build({**space.values(space.default), "sweep": 1, "accumulators": 2, "unroll": 2})
    return simplify(lower(replay(workload, together), "nest"))


@pytest.mark.parametrize(
    ("workload", "fewer"),
    [
        pytest.param(softmax(24, 96), 1, id="softmax: powers and their sum"),
        pytest.param(layer_norm(8, 96), 0, id="layer norm: each pass needs the one before"),
    ],
)
def test_rows_that_are_stored_and_summed_are_gone_through_once(workload: Workload, fewer: int) -> None:
    given = before_merging(workload)
    assert len(loops(given.body)) - len(loops(merge(given).body)) == fewer


@pytest.mark.parametrize("columns", [5, 45, 96, 128])
def test_what_is_computed_stays_the_same(columns: int) -> None:
    workload = softmax(9, columns)
    operands, space = random_operands(workload), build_space(workload, V3, 1)
    expected = reference_outputs(workload, operands)["y0"]
    for assignment in (space.default, *list(space.enumerate(12))):
        schedule = space.schedule(assignment)
        build_nest(workload, schedule)
        assert relative_error(run_native(workload, schedule, operands, target=V3), expected) < 1e-5
    assert relative_error(run_interpreted(workload, schedule, operands), expected) < 1e-5
