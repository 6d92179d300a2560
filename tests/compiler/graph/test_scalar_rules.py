import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.evaluate import evaluate_compute
from compiler.graph.ir import Compute
from compiler.graph.scalar_rules import interval, simplified
from compiler.index import Index
from compiler.scalar import Const, Expr, apply
from compiler.scalar_ops import OPS, Signature
from compiler.symbol import axis
from tests.compiler.graph.building import load, within

X, Y = load("x", "a0"), load("y", "a0")
ZERO, ONE = Const(0.0), Const(1.0)
A0 = Index.of("a0")


def relu(x: Expr) -> Expr:
    return apply("max", x, ZERO)


def neg(x: Expr) -> Expr:
    return apply("neg", x)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (apply("mul", X, ONE), X),
        (apply("mul", ONE, X), X),
        (apply("add", X, ZERO), X),
        (apply("add", ZERO, X), X),
        (apply("sub", X, ZERO), X),
        (apply("div", X, ONE), X),
        (apply("mul", X, ZERO), None),
        (apply("sub", X, X), None),
        (apply("div", X, X), None),
        (apply("mul", X, Const(-1.0)), neg(X)),
        (neg(neg(X)), X),
        (apply("add", X, neg(Y)), apply("sub", X, Y)),
        (apply("sub", X, neg(Y)), apply("add", X, Y)),
        (apply("div", X, Const(4.0)), apply("mul", X, Const(0.25))),
        (apply("div", X, Const(3.0)), None),
        (apply("abs", neg(X)), apply("abs", X)),
        (apply("floor", apply("ceil", X)), apply("ceil", X)),
        (apply("round", apply("floor", X)), apply("floor", X)),
        (apply("pow", X, ONE), X),
        (apply("pow", X, ZERO), ONE),
        (apply("pow", X, Const(2.0)), apply("mul", X, X)),
        (apply("pow", X, Const(-1.0)), apply("div", ONE, X)),
        (apply("pow", X, Const(3.0)), None),
        (apply("select", apply("less", ZERO, ONE), X, Y), X),
        (apply("select", apply("less", ZERO, Const(math.nan)), X, Y), Y),
        (apply("select", apply("less", X, Y), ONE, ONE), ONE),
        (
            apply("select", apply("not", apply("less", X, Y)), X, Y),
            apply("select", apply("less", X, Y), Y, X),
        ),
        (relu(apply("exp", X)), apply("exp", X)),
        (apply("min", apply("tanh", X), ONE), apply("tanh", X)),
        (relu(apply("sigmoid", X)), apply("sigmoid", X)),
        (apply("max", X, X), X),
        (relu(relu(X)), relu(X)),
        (relu(apply("abs", X)), apply("abs", X)),
        (apply("max", apply("max", X, ONE), Const(3.0)), apply("max", X, Const(3.0))),
        (apply("min", apply("min", X, ONE), Const(3.0)), apply("min", X, ONE)),
        (relu(apply("min", relu(X), Const(6.0))), apply("min", relu(X), Const(6.0))),
        (apply("min", apply("max", X, Const(2.0)), ONE), None),
        (apply("add", Const(1.5), Const(0.25)), Const(1.75)),
        (apply("sub", Const(math.inf), Const(math.inf)), None),
        (within(X, ZERO, ("a0", 0, 8)), X),
        (within(X, ZERO, ("a0", 9, 12)), ZERO),
        (within(X, X, ("a0", 0, 3)), X),
        (within(within(X, ZERO, ("a0", 2, 9)), ZERO, ("a0", 0, 5)), within(X, ZERO, ("a0", 2, 5))),
        (within(within(X, ONE, ("a0", 2, 9)), ZERO, ("a0", 0, 5)), None),
        (within(X, ZERO, ("a0", 1, 5), (A0 + 2, 0, 6)), within(X, ZERO, ("a0", 1, 4))),
        (load("x", A0 % 8), X),
        (load("x", A0 % 4), None),
        (load("x", A0 // 8), load("x", 0)),
    ],
)
def test_rules(before: Expr, after: Expr | None) -> None:
    ranges = {"a0": 8}
    if after is None:
        assert simplified(before, ranges, {}) is before
    else:
        assert simplified(before, ranges, {}) == after


def test_literals_are_computed_in_single_precision() -> None:
    result = simplified(apply("add", ONE, Const(1e-9)), {}, {})
    assert result == ONE


def test_what_is_known_of_a_buffer_counts() -> None:
    assert simplified(relu(X), {"a0": 8}, {"x": (0.0, 6.0)}) is X
    assert simplified(apply("min", X, Const(6.0)), {"a0": 8}, {"x": (0.0, 6.0)}) is X


REAL = [name for name, op in OPS.items() if op.signature in (Signature.NUMBERS, Signature.FLOATS)]
UNARY, BINARY = ([name for name in REAL if OPS[name].arity == arity] for arity in (1, 2))


def expressions() -> st.SearchStrategy[Expr]:
    literals = st.sampled_from((0.0, 1.0, -1.0, 2.0, 6.0, 0.5, -3.0, math.inf)).map(Const)
    leaves = st.one_of(st.sampled_from((X, Y)), literals)

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        unary = st.builds(apply, st.sampled_from(UNARY), inner)
        binary = st.builds(apply, st.sampled_from(BINARY), inner, inner)
        guard = st.builds(
            lambda a, b, low, high: within(a, b, (A0 - 1, low, high)),
            inner,
            inner,
            st.integers(-2, 4),
            st.integers(3, 9),
        )
        chosen = st.builds(lambda a, b: apply("select", apply("less", b, a), b, a), inner, inner)
        return st.one_of(unary, binary, guard, chosen)

    return st.recursive(leaves, grow, max_leaves=8)


def test_the_bounds_of_an_exponential() -> None:
    low, high = interval(apply("exp", apply("min", X, ZERO)), {})
    assert low == 0.0
    assert 1.0 <= high < 1.02
    assert (
        interval(apply("exp", X), {})
        == interval(apply("exp", apply("min", X, Const(100.0))), {})
        == (0.0, math.inf)
    )


SPECIAL = np.array([0.0, 1.0, -1.0, 2.5, -7.0, math.inf, -math.inf, math.nan], np.float32)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_simplifying_changes_no_value_and_a_second_time_nothing(expr: Expr) -> None:
    ranges = {"a0": 8}
    small = simplified(expr, ranges, {})
    assert simplified(small, ranges, {}) is small
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), np.float32)
    for x, y in (pairs.T.reshape(2, -1, 8)).transpose(1, 0, 2):
        buffers = {"x": x, "y": y}
        expected, actual = (
            evaluate_compute(Compute((axis("a0", 8),), (), None, e), buffers, np.float32)
            for e in (expr, small)
        )
        # Equal, so that zeros of both signs are; a quotient or a power of zero tells them apart and is left out.
        if "div" not in str(expr) and "pow" not in str(expr):
            np.testing.assert_array_equal(actual, expected)
