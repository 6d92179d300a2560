"""Nodes of the first operator sets."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.errors import UnsupportedOperator
from compiler.frontend import import_model
from tests.compiler.frontend.cases import STATISTICS, ints, run_one, weights
from tests.compiler.frontend.models import model

X = weights(2, 3, 4, 5)


def run(op: str, opset: int, *constants: np.ndarray, x: np.ndarray = X, **attributes: Any) -> np.ndarray:
    names = [f"c{place}" for place in range(len(constants))]
    node = helper.make_node(op, ["x", *names], ["y"], **attributes)
    return run_one(node, x, dict(zip(names, constants, strict=True)), opset)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_second_operand_begins_at_an_axis(op: str) -> None:
    b = weights(3, 4) + 3
    numpy = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[op]
    actual = run(op, 6, b, broadcast=1, axis=1)
    np.testing.assert_allclose(actual, numpy(X, b[:, :, None]), rtol=1e-6)


def test_broadcast_without_an_axis_ends_at_the_last() -> None:
    b = weights(4, 5)
    np.testing.assert_allclose(run("Add", 6, b, broadcast=1), X + b, rtol=1e-6)


def test_what_is_computed_begins_at_an_axis_too() -> None:
    nodes = [
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"], broadcast=1, axis=-3),
    ]
    graph = import_model(model(nodes, {"x": [2, 3, 4], "b": [2]}, opset=6))
    assert graph.types()["y"].sizes == (2, 3, 4)


def test_slope_per_channel() -> None:
    slope = weights(3)
    wanted = np.where(X > 0, X, X * slope[:, None, None])
    np.testing.assert_allclose(run("PRelu", 6, slope), wanted, rtol=1e-6)


def test_batch_norm_says_that_it_is_no_training() -> None:
    x, (g, o, m, v) = weights(2, 4), STATISTICS
    actual = run("BatchNormalization", 6, g, o, m, v, x=x, is_test=1, epsilon=0.01)
    np.testing.assert_allclose(actual, (x - m) / np.sqrt(v + 0.01) * g + o, rtol=1e-5)
    with pytest.raises(UnsupportedOperator, match="is_test"):
        run("BatchNormalization", 6, g, o, m, v, x=x)


def test_attributes_that_became_inputs() -> None:
    assert run("Reshape", 1, shape=[6, -1]).shape == (6, 20)
    assert run("Cast", 1, to="INT32").dtype == np.int32
    np.testing.assert_array_equal(
        run("Pad", 1, paddings=[0, 0, 0, 1] + [0] * 4), np.pad(X, [(0, 0)] * 3 + [(1, 0)])
    )
    tiled = run("Tile", 1, np.array(2, np.float32), np.array(1, np.float32))
    np.testing.assert_array_equal(tiled, np.tile(X, (1, 2, 1, 1)))
    assert run("Dropout", 6, is_test=1).shape == X.shape


def test_tile_of_opset_6_repeats_all_dimensions() -> None:
    np.testing.assert_array_equal(run("Tile", 6, ints(1, 2, 1, 3)), np.tile(X, (1, 2, 1, 3)))


def test_joins_along_the_second_axis() -> None:
    assert run("Concat", 1, weights(2, 1, 4, 5)).shape == (2, 4, 4, 5)
