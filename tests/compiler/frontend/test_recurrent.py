"""RNN, GRU and LSTM against the equations of their definitions, in float64 and a step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from compiler.errors import ModelError, UnsupportedOperator
from compiler.frontend import import_model
from compiler.pipeline import compile_program, lower
from compiler.schedule.source import NoSource
from compiler.target import native_target
from tests.compiler.frontend.models import model
from tests.slow import slow

STEPS, BATCH, INPUTS, UNITS = 4, 3, 5, 6
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
Arrays = dict[str, np.ndarray[Any, Any]]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def arrays(kind: str, directions: int, lengths: list[int] | None) -> Arrays:
    rng = np.random.default_rng(7)
    width = GATES[kind] * UNITS
    shapes = {
        "x": (STEPS, BATCH, INPUTS),
        "w": (directions, width, INPUTS),
        "r": (directions, width, UNITS),
        "b": (directions, 2 * width),
        "h": (directions, BATCH, UNITS),
    }
    if kind == "LSTM":
        shapes |= {"c": (directions, BATCH, UNITS), "p": (directions, 3 * UNITS)}
    found: Arrays = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    if lengths is not None:
        found["lens"] = np.array(lengths, np.int32)
    return found


def step(kind: str, d: int, a: Arrays, x: Any, h: Any, c: Any, *, after: bool) -> tuple[Any, Any]:
    """One step of some sequences, by the equations of the operator's definition."""
    w, r, b = (a[name][d].astype(np.float64) for name in "wrb")
    n = GATES[kind] * UNITS
    e = np.split(x @ w.T + b[:n], GATES[kind], axis=-1)
    if kind == "RNN":
        return np.tanh(e[0] + h @ r.T + b[n:]), c
    parts, biases = np.split(r, GATES[kind]), np.split(b[n:], GATES[kind])
    z = [h @ part.T + bias for part, bias in zip(parts, biases, strict=True)]
    if kind == "GRU":
        update, reset = sigmoid(e[0] + z[0]), sigmoid(e[1] + z[1])
        inner = reset * z[2] if after else (reset * h) @ parts[2].T + biases[2]
        return (1 - update) * np.tanh(e[2] + inner) + update * h, c
    p = np.split(a["p"][d].astype(np.float64), 3)
    i, f = sigmoid(e[0] + z[0] + p[0] * c), sigmoid(e[2] + z[2] + p[2] * c)
    c = f * c + i * np.tanh(e[3] + z[3])
    return sigmoid(e[1] + z[1] + p[1] * c) * np.tanh(c), c


def wanted(kind: str, directions: list[bool], a: Arrays, *, after: bool) -> tuple[Any, Any]:
    y = np.zeros((STEPS, len(directions), BATCH, UNITS))
    last = np.zeros((len(directions), BATCH, UNITS))
    lengths = a.get("lens", np.full(BATCH, STEPS))
    for d, backwards in enumerate(directions):
        for row in range(BATCH):
            h = a["h"][d, row].astype(np.float64)
            c = a["c"][d, row].astype(np.float64) if "c" in a else None
            steps = range(int(lengths[row]))
            for t in reversed(steps) if backwards else steps:
                h, c = step(kind, d, a, a["x"][t, row].astype(np.float64), h, c, after=after)
                y[t, d, row] = h
            last[d, row] = h
    return y, last


@pytest.mark.parametrize("kind", list(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [slow(None), [4, 2, 3]])
@pytest.mark.parametrize("turned", [0, 1])
def test_recurrent_operators(kind: str, direction: str, lengths: list[int] | None, turned: int) -> None:
    """`turned`: batches first, and a GRU's gate after the product."""
    if turned and kind == "GRU":
        attributes: dict[str, Any] = {"linear_before_reset": 1}
    else:
        attributes = {"layout": turned} if turned else {}
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    a = arrays(kind, len(backwards), lengths)
    y, last = wanted(kind, backwards, a, after="linear_before_reset" in attributes)
    by_batch = attributes.get("layout") == 1
    given = dict(a)
    if by_batch:
        given |= {name: np.ascontiguousarray(a[name].swapaxes(0, 1)) for name in ("x", "h", "c") if name in a}
    names = ["x", "w", "r", "b", "lens" if lengths else "", "h"] + (["c", "p"] if kind == "LSTM" else [])
    node = helper.make_node(kind, names, ["y", "last"], hidden_size=UNITS, direction=direction, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in given.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "last")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    got = compile_program(lower(import_model(model)), native_target(), 1, NoSource()).run(given)
    np.testing.assert_allclose(got["y"], y.transpose(2, 0, 1, 3) if by_batch else y, atol=1e-5)
    np.testing.assert_allclose(got["last"], last.swapaxes(0, 1) if by_batch else last, atol=1e-5)


def test_an_activation_that_is_not_known_is_refused() -> None:
    node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=2, activations=["Cosine"], name="odd")
    shapes = {"x": [1, 1, 3], "w": [1, 2, 3], "r": [1, 2, 2]}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(UnsupportedOperator, match="activation Cosine"):
        import_model(model)


@pytest.mark.parametrize("state", ["h", "c"])
def test_a_first_state_of_another_batch_is_refused(state: str) -> None:
    """As exporters write it that take the batch of an example for granted."""
    given = arrays("LSTM", 1, None) | {state: np.zeros((1, 1, UNITS), np.float32)}
    node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["y"], hidden_size=UNITS)
    constants = {name: array for name, array in given.items() if name in "wrbhc"}
    with pytest.raises(ModelError, match=r"first state of shape \[1, 1, 6\] instead of \[1, 3, 6\]"):
        import_model(model([node], {"x": [STEPS, BATCH, INPUTS]}, constants))
