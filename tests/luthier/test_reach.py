"""A form that was found from a few sizes is used as far as the model does the same, and no farther."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from compiler.errors import NotStatic
from compiler.pipeline import lower_any_size
from luthier.dynamic import DynamicModule
from tests.luthier.test_dynamic import module, tensor

LIMIT = 64
INTEGERS = {"front": [0], "limit": [LIMIT], "none": [0], "before": [0, 0], "first": 0}


def size() -> list[NodeProto]:
    return [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "front"], ["n"])]


def at_most() -> list[NodeProto]:
    """The first 64 rows, or all where there are fewer."""
    return [
        *size(),
        helper.make_node("Min", ["n", "limit"], ["k"]),
        helper.make_node("Slice", ["x", "front", "k", "front"], ["y"]),
    ]


def at_least() -> list[NodeProto]:
    """All rows, and zeros so that there are 64."""
    return [
        *size(),
        helper.make_node("Sub", ["limit", "n"], ["missing"]),
        helper.make_node("Max", ["missing", "none"], ["more"]),
        helper.make_node("Concat", ["before", "more", "none"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["y"]),
    ]


def either() -> list[NodeProto]:
    """Twice what there is, or half of it where there is much."""
    branches = {}
    for name, operator in (("then_branch", "Add"), ("else_branch", "Mul")):
        node = helper.make_node(operator, ["x", "x"] if operator == "Add" else ["x", "half"], [name])
        branches[name] = helper.make_graph([node], name, [], [tensor(name, None)])
    return [
        *size(),
        helper.make_node("Less", ["n", "limit"], ["few"]),
        helper.make_node("Squeeze", ["few", "front"], ["is_few"]),
        helper.make_node("If", ["is_few"], ["y"], **branches),
    ]


WANTED: dict[str, tuple[Callable[[], list[NodeProto]], Callable[[np.ndarray], np.ndarray]]] = {
    "at most": (at_most, lambda x: x[:LIMIT]),
    "at least": (at_least, lambda x: np.concatenate([x, np.zeros((max(0, LIMIT - len(x)), 3), np.float32)])),
    "either": (either, lambda x: x + x if len(x) < LIMIT else x * np.float32(0.5)),
}


def graph(name: str) -> onnx.GraphProto:
    constants = [
        helper.make_tensor(key, TensorProto.INT64, np.shape(value), np.ravel(value))
        for key, value in INTEGERS.items()
    ]
    constants.append(helper.make_tensor("half", TensorProto.FLOAT, [], [0.5]))
    return helper.make_graph(WANTED[name][0](), "g", [tensor("x", ["n", 3])], [tensor("y", None)], constants)


@pytest.mark.parametrize("name", WANTED)
def test_a_model_that_does_something_else_for_large_sizes_has_no_form_for_all(name: str) -> None:
    model = helper.make_model(graph(name), opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(NotStatic, match="where they are large"):
        lower_any_size(model)


def test_sizes_below_one_that_the_model_refuses_are_looked_at() -> None:
    """It takes at most 100 rows, for it adds a table to them, and does something else above 64."""
    made = graph("at most")
    made.initializer.append(helper.make_tensor("table", TensorProto.FLOAT, [100, 3], np.ones(300)))
    made.node.append(helper.make_node("Slice", ["table", "front", "n", "front"], ["rows"]))
    made.node.append(helper.make_node("Add", ["x", "rows"], ["z"]))
    made.output.append(tensor("z", None))
    with pytest.raises(NotStatic, match="where they are large"):
        lower_any_size(helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)]))


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("sizes", [(33, 35, 40), (70, 90, 80), (200, 300, 250), (500, 40, 90)])
def test_segments_are_for_the_sizes_that_are_alike(name: str, sizes: tuple[int, ...]) -> None:
    found: DynamicModule = module(graph(name))
    rng = np.random.default_rng(0)
    for n in (*sizes, 38, 85, 240, 1000, 5, 20, 63, 64, 65, 128, 37, 600, 90, 2, 1):
        x = rng.standard_normal((n, 3), np.float32)
        np.testing.assert_array_equal(found.run({"x": x})["y"], WANTED[name][1](x))
    found.close()
