from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.dtype import DType
from compiler.graph.evaluate import evaluate_graph
from compiler.graph.fold_constants import FoldConstants
from compiler.graph.fold_zero_points import FoldZeroPoints
from compiler.graph.ir import Graph, Node, TensorType
from compiler.graph.verify import verify_graph
from compiler.index import Index
from compiler.scalar import Cast, Const, Expr, Guard, Load, apply, loads, walk
from tests.compiler.graph.building import load, node, within

I32 = DType.I32
RNG = np.random.default_rng(0)


def wide(expr: Expr) -> Expr:
    return Cast(expr, I32)


def minus(expr: Expr, zero: Expr) -> Expr:
    return apply("sub", wide(expr), zero)


def product(x: Expr, w: Expr, shape: tuple[int, ...] = (3, 4), reduce: tuple[int, ...] = (5,)) -> Node:
    made = node("y", shape, apply("mul", x, w), reduce)
    return replace(made, compute=replace(made.compute, dtype=I32))


def example(body: Node, w: np.ndarray, **constants: np.ndarray) -> Graph:
    inputs = {
        "x": TensorType((Index.of(3), Index.of(5)), DType.U8),
        "signed": TensorType((Index.of(3), Index.of(5)), DType.I8),
        "zx": TensorType((), DType.U8),
        "rows": TensorType((Index.of(3),), DType.U8),
    }
    graph = Graph(inputs, ("y",), {"w": w, **constants}, (body,))
    verify_graph(graph)
    return graph


def folded(graph: Graph) -> Graph:
    after = FoldConstants().run(FoldZeroPoints().run(graph))
    verify_graph(after)
    operands = {
        "x": RNG.integers(0, 256, (3, 5)).astype(np.uint8),
        "signed": RNG.integers(-128, 128, (3, 5)).astype(np.int8),
        "zx": np.uint8(77),
        "rows": RNG.integers(0, 256, 3).astype(np.uint8),
    }
    before = evaluate_graph(graph, operands)["y"]
    np.testing.assert_array_equal(evaluate_graph(after, operands)["y"], before)
    return after


X, W = load("x", "a0", "r0"), load("w", "r0", "a1")
WEIGHTS = RNG.integers(-128, 128, (5, 4)).astype(np.int8)


@pytest.mark.parametrize("zero", [wide(load("zx")), wide(load("rows", "a0")), Const(9, I32)])
def test_the_product_becomes_plain_and_is_corrected_after_it(zero: Expr) -> None:
    after = folded(example(product(minus(X, zero), wide(W)), WEIGHTS))
    plain, corrected = after.nodes
    assert plain.compute.body == apply("mul", wide(X), wide(W))
    assert corrected.compute.reducer is None


def test_weights_lose_their_zero_point_in_the_narrowest_type() -> None:
    weights = RNG.integers(0, 256, (5, 4)).astype(np.uint8)
    after = folded(example(product(wide(X), minus(W, Const(128, I32))), weights))
    (only,) = after.nodes
    (new,) = (load.buffer for load in loads(only.compute.body) if load.buffer != "x")
    assert after.constants[new].dtype == np.int8


def test_a_zero_point_per_channel_of_the_weights() -> None:
    zeros = RNG.integers(-128, 128, 4).astype(np.int8)
    body = product(wide(X), minus(W, wide(load("zw", "a1"))))
    after = folded(example(body, WEIGHTS, zw=zeros))
    assert len(after.nodes) == 1


def test_padding_of_the_plain_product_is_the_zero_point() -> None:
    place = Index.of("a0") + "r0" - 1
    x = Load("x", (place, Index.of(2)))
    guarded = within(minus(x, Const(9, I32)), Const(0, I32), (place, 0, 3))
    after = folded(example(product(guarded, wide(W)), WEIGHTS))
    (inner,) = [n for n in after.nodes if n.compute.reducer == "sum"]
    assert inner.compute.body == apply("mul", wide(within(x, Const(9, DType.U8), (place, 0, 3))), wide(W))


def test_padding_that_is_not_known_yet_is_a_border_of_a_copy() -> None:
    place = Index.of("a0") + "r0" - 1
    x = Load("x", (place, Index.of(2)))
    guarded = within(minus(x, wide(load("zx"))), Const(0, I32), (place, 0, 3))
    after = folded(example(product(guarded, wide(W)), WEIGHTS))
    copy, *_ = after.nodes
    assert [a.size for a in copy.compute.axes] == [7, 5]
    (inner,) = [n for n in after.nodes if n.compute.reducer == "sum"]
    assert not any(isinstance(e, Guard) for e in walk(inner.compute.body))


def test_a_border_much_larger_than_the_image_is_not_made() -> None:
    place = Index.of("a0") + Index.of("r0") * 9
    x = Load("x", (place, Index.of(2)))
    guarded = within(minus(x, wide(load("zx"))), Const(0, I32), (place, 0, 3))
    before = example(product(guarded, wide(W)), WEIGHTS)
    assert FoldZeroPoints().run(before) is before


def test_weights_that_are_not_constant_stay() -> None:
    before = example(product(minus(X, Const(9, I32)), wide(load("rows", "a0"))), WEIGHTS)
    assert FoldZeroPoints().run(before) is before


def test_a_plain_product_stays_as_it_is() -> None:
    before = example(product(wide(X), wide(W)), WEIGHTS)
    assert FoldZeroPoints().run(before) is before


@pytest.mark.parametrize("zero", [None, Const(-128, I32), Const(5, I32)])
def test_signed_data_loses_its_sign(zero: Const | None) -> None:
    data = load("signed", "a0", "r0")
    after = folded(example(product(wide(data) if zero is None else minus(data, zero), wide(W)), WEIGHTS))
    (inner,) = [n for n in after.nodes if n.compute.reducer == "sum"]
    assert inner.compute.body == apply("mul", apply("add", wide(data), Const(128, I32)), wide(W))
    assert len(after.nodes) == (1 if zero == Const(-128, I32) else 2)
