"""The interpreter runs nests that are deeper than Python's own limits, and refuses what lies outside of an array."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.index import Index, LookedUp
from compiler.loop.interpreter import interpret
from compiler.loop.ir import Buffer, Extent, For, LoopKind, LoopNest, Stmt, Store
from compiler.scalar import Const, Expr, Load, Lookup, apply

ZERO = (Index(),)


def nest(body: Stmt, sizes: dict[str, int]) -> LoopNest:
    buffers = tuple(
        Buffer(name, (size,), DType.F32, role="output" if name == "y" else "input")
        for name, size in sizes.items()
    )
    return LoopNest("n", buffers, body)


def run(body: Stmt, **arrays: list[float]) -> list[float]:
    memory = {name: np.array(values, np.float32) for name, values in arrays.items()}
    interpret(nest(body, {name: len(values) for name, values in arrays.items()}), memory)
    return [float(value) for value in memory["y"]]


def test_more_loops_than_a_function_takes() -> None:
    added: Stmt = Store("y", ZERO, apply("add", Load("y", ZERO), Const(1.0)))
    body = reduce(
        lambda inner, i: For(f"i{i}", Extent(1 + (i < 3)), LoopKind.SERIAL, inner), range(40), added
    )
    assert run(body, y=[0.0]) == [8.0]


def test_more_parentheses_than_an_expression_takes() -> None:
    start: Expr = Load("y", ZERO)
    deep = reduce(lambda total, _: apply("add", total, Load("x", ZERO)), range(300), start)
    assert run(Store("y", ZERO, deep), y=[1.0], x=[2.0]) == [601.0]


def test_what_is_looked_up_is_known_in_all_of_a_deep_expression() -> None:
    found = LookedUp("v", 3)
    start: Expr = Const(0.0)
    deep = reduce(lambda total, _: apply("add", total, Load("x", (Index.of(found),))), range(100), start)
    looked_up: Expr = Lookup(found, Load("i", ZERO), deep)
    outer = reduce(lambda total, _: apply("add", total, Const(1.0)), range(100), looked_up)
    assert run(Store("y", ZERO, outer), y=[0.0], x=[1.0, 2.0, 3.0], i=[-1.0]) == [400.0]


@pytest.mark.parametrize("at", [-1, 2])
def test_an_access_outside_is_refused(at: int) -> None:
    place = (Index.of("i") * 3 + at,)
    for body in (Store("y", place, Const(1.0)), Store("y", ZERO, Load("x", place))):
        loop = For("i", Extent(1), LoopKind.SERIAL, body)
        with pytest.raises(IndexError, match="access at"):
            run(loop, y=[0.0, 0.0], x=[1.0, 2.0])
