"""Promote: which local buffers become registers, and how those that stay are laid out."""

from __future__ import annotations

import pytest

from compiler.dtype import DType
from compiler.index import Index
from compiler.loop.ir import Buffer, Extent, For, Let, LoopKind, LoopNest, Stmt, Store, block
from compiler.loop.promote import local_bytes, promote
from compiler.scalar import Const, Expr, Load
from tests.compiler.workloads import at

SERIAL, UNROLLED, VECTOR = LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.VECTOR


def nest(body: Stmt, *shape: int) -> LoopNest:
    buffers = (
        Buffer("y", (8, 64), DType.F32, "global", "output"),
        Buffer("t", shape, DType.F32, "local"),
    )
    return LoopNest("n", buffers, body)


def loop(name: str, count: int, kind: LoopKind, body: Stmt) -> Stmt:
    return For(name, Extent(count), kind, body)


def store(*indices: str | int | Index, value: Expr | None = None) -> Store:
    return Store("t", at(*indices), value or Const(0.0))


def read(*indices: str | int | Index) -> Store:
    return Store("y", at(0, 0), Load("t", at(*indices)))


TILE = loop("i", 2, UNROLLED, loop("v", 8, VECTOR, store("i", "v")))

CASES: dict[str, tuple[Stmt, tuple[int, ...], str]] = {
    "vectors of an unrolled tile": (TILE, (2, 8), "register"),
    "the same vectors read": (
        block(TILE, loop("j", 2, UNROLLED, loop("w", 8, VECTOR, read("j", "w")))),
        (2, 8),
        "register",
    ),
    "one element": (block(store(0), read(0)), (1,), "register"),
    "read element by element": (block(TILE, loop("k", 8, UNROLLED, read(0, "k"))), (2, 8), "local"),
    "vectors of two lengths": (block(TILE, loop("w", 4, VECTOR, read(0, "w"))), (2, 8), "local"),
    "vectors that overlap": (
        loop("i", 2, UNROLLED, loop("v", 8, VECTOR, store(Index.of("i") * 4 + "v"))),
        (16,),
        "local",
    ),
    "moved by a loop that runs": (
        loop("i", 2, SERIAL, loop("v", 8, VECTOR, store("i", "v"))),
        (2, 8),
        "local",
    ),
    "moved by part of an unrolled loop": (
        loop("f", 4, UNROLLED, Let("p", Index.of("f") // 2, 2, store("p"))),
        (2,),
        "register",
    ),
    "lanes apart": (loop("v", 8, VECTOR, store(Index.of("v") * 2)), (16,), "local"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_buffer_is_a_register_where_no_access_moves(case: str) -> None:
    body, shape, scope = CASES[case]
    before = nest(body, *shape)
    after = promote(before)
    assert after.by_name["t"].scope == scope
    assert after.by_name["y"] == before.by_name["y"]
    assert after.body is body


def test_what_stays_in_memory_is_padded_to_whole_vectors() -> None:
    body = loop("i", 3, SERIAL, loop("v", 8, VECTOR, store("i", "v")))
    after = promote(nest(body, 3, 5))
    assert after.by_name["t"].shape == (3, 8)
    assert local_bytes(after) == 3 * 8 * 4


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        pytest.param((36, 16, 64), 17, id="parts of 4 KiB"),
        pytest.param((36, 15, 64), 15, id="parts that lie apart"),
        pytest.param((36, 4, 256), 4, id="room of a quarter"),
        pytest.param((8, 16, 64), 16, id="few parts"),
        pytest.param((16, 1, 64), 1, id="no rows"),
    ],
)
def test_many_parts_have_room_behind_their_rows(shape: tuple[int, ...], rows: int) -> None:
    body = loop(
        "e", shape[0], SERIAL, loop("i", shape[1], SERIAL, loop("v", 16, VECTOR, store("e", "i", "v")))
    )
    (_, buffer) = promote(nest(body, *shape)).buffers
    assert buffer.shape == (shape[0], rows, shape[2])


def test_a_nest_without_local_buffers_comes_back_as_it_is() -> None:
    plain = LoopNest(
        "n", (Buffer("y", (8, 64), DType.F32, "global", "output"),), Store("y", at(0, 0), Const(0.0))
    )
    assert promote(plain) is plain
