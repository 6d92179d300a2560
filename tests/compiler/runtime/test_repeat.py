"""Runs that follow each other: what each leaves to the next, what is kept of all of them, and when they end."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.pipeline import compile_program, load_graph, lower, lower_any_size
from compiler.runtime.module import Module
from compiler.runtime.repeat import Recurrence
from compiler.schedule.source import NoSource
from compiler.target import native_target

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def body(size: int | str = 5) -> onnx.ModelProto:
    """One step: new = 0.5 * state + x[i]; sum_ = sum + new; go = i < end."""
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
        helper.make_node("Mul", ["state", "half"], ["h"]),
        helper.make_node("Add", ["h", "row"], ["new"]),
        helper.make_node("Add", ["total", "new"], ["sum"]),
        helper.make_node("Less", ["i", "end"], ["go"]),
        helper.make_node("Neg", ["new"], ["negative"]),
    ]
    kind = helper.make_tensor_value_info
    inputs = [
        kind("i", INT64, []),
        kind("state", FLOAT, [size]),
        kind("total", FLOAT, [size]),
        kind("x", FLOAT, [300, size]),
        kind("end", INT64, []),
    ]
    outputs = [kind("go", BOOL, []), *(kind(name, FLOAT, [size]) for name in ("new", "sum", "negative"))]
    constants = [helper.make_tensor("half", FLOAT, [], [0.5])]
    graph = helper.make_graph(nodes, "body", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.fixture(scope="module", params=[1, 2])
def module(request: pytest.FixtureRequest) -> Iterator[Module]:
    made = compile_program(lower(load_graph(body())), native_target(), request.param, NoSource())
    yield made
    made.close()


def given(end: int, size: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    values = {"state": rng.standard_normal(size, np.float32), "total": np.zeros(size, np.float32)}
    x = rng.standard_normal((300, size), np.float32)
    return values | {"x": x, "i": np.asarray(0, np.int64), "end": np.asarray(end, np.int64)}


def expected(inputs: dict[str, np.ndarray], first: int, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """The states, and the total."""
    state, states = inputs["state"], []
    for i in range(first, first + runs):
        state = np.float32(0.5) * state + inputs["x"][i]
        states.append(state)
    return np.array(states), inputs["total"] + sum(states)


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize("most", [1, 2, 3, 63, 64, 65, 200])
def test_as_often_as_is_said(module: Module, first: int, most: int) -> None:
    """64 runs have the first block of memory, 128 the second."""
    recurrence = Recurrence("i", "", {"state": "new", "total": "sum"}, ("new", "sum"), ("new", "negative"))
    inputs = given(0)
    before = {name: array.copy() for name, array in inputs.items()}
    found = module.repeat(inputs, recurrence, first, most)
    states, total = expected(inputs, first, most)
    assert (found.runs, found.going) == (most, True)
    np.testing.assert_allclose(found.stacked["new"], states, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.stacked["negative"], -found.stacked["new"])
    np.testing.assert_array_equal(found.last["new"], found.stacked["new"][-1])
    np.testing.assert_allclose(found.last["sum"], total, rtol=1e-4, atol=1e-5)
    for name, array in before.items():
        np.testing.assert_array_equal(inputs[name], array)


@pytest.mark.parametrize("stacked", [(), ("go",), ("new",)])
@pytest.mark.parametrize("end", [0, 1, 2, 63, 64, 65, 150])
def test_until_a_run_says_that_none_follows(module: Module, end: int, stacked: tuple[str, ...]) -> None:
    recurrence = Recurrence("i", "go", {"state": "new", "total": "sum"}, ("new", "sum"), stacked)
    inputs = given(end)
    found = module.repeat(inputs, recurrence, 0, 1 << 40)
    states, total = expected(inputs, 0, end + 1)
    assert (found.runs, found.going) == (end + 1, False)
    np.testing.assert_allclose(found.last["new"], states[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.last["sum"], total, rtol=1e-4, atol=1e-5)
    for array in found.stacked.values():
        assert len(array) == end + 1


def test_the_next_call_is_not_disturbed(module: Module) -> None:
    inputs = given(4)
    recurrence = Recurrence("i", "go", {"state": "new"}, ("new",), ())
    before = module.run(inputs)
    module.repeat(inputs, recurrence, 0, 9)
    after = module.run(inputs)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def test_a_module_for_all_sizes() -> None:
    made = compile_program(lower_any_size(body("n")), native_target(), 1, NoSource())
    recurrence = Recurrence("i", "", {"state": "new", "total": "sum"}, ("sum",), ("new",))
    for size in (3, 40, 8):
        inputs = given(0, size)
        found = made.repeat(inputs, recurrence, 0, 70)
        states, total = expected(inputs, 0, 70)
        np.testing.assert_allclose(found.stacked["new"], states, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.last["sum"], total, rtol=1e-4, atol=1e-5)
    made.close()
