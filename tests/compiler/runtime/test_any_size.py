"""Models with open sizes: compiled once, right for every size, against float64 and against static compilation."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.choice import choose_schedules, default_schedule
from compiler.errors import CompileError, InputError, ModelError, NotStatic
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import compile_program, load_graph, lower, lower_any_size
from compiler.runtime.module import Module, load_module
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import TASK_ERROR_BUDGET, Found, NoSource
from compiler.schedule.steps import Split
from compiler.target import Target, native_target
from compiler.workload.ir import Workload, workload_from_json, workload_json
from tests.onnx_runtime import expected_outputs
from tests.slow import THREADS, slow

SIZES = (1, 2, 7, 32, 3)
Dim = int | str | None


def built(
    nodes: list[Any], inputs: dict[str, list[Dim]], outputs: dict[str, list[Dim]], constants: dict[str, Any]
) -> onnx.ModelProto:
    def info(name: str, shape: list[Dim]) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    rng = np.random.default_rng(0)
    tensors = {
        name: np.array(value, np.int64)
        if isinstance(value, list)
        else rng.uniform(0.1, 1, value).astype(np.float32) - (0.5 if name.startswith("w") else 0)
        for name, value in constants.items()
    }
    graph = helper.make_graph(
        nodes,
        "open",
        [info(name, shape) for name, shape in inputs.items()],
        [info(name, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def mlp(batch: Dim = "batch") -> onnx.ModelProto:
    nodes = [
        node("Gemm", "x w0 b0", "a", transB=1),
        node("Relu", "a", "b"),
        node("Gemm", "b w1 b1", "c"),
        node("Softmax", "c", "y", axis=-1),
    ]
    constants = {"w0": (70, 37), "b0": (70,), "w1": (70, 100), "b1": (100,)}
    return built(nodes, {"x": [batch, 37]}, {"y": [batch, 100]}, constants)


def convolutions(batch: Dim = "batch") -> onnx.ModelProto:
    """Padding (halos), normalisation, a residual, depthwise, both pools, shape arithmetic, softmax."""
    nodes = [
        node("Conv", "x w0", "a", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "a scale bias mean var", "b"),
        node("Relu", "b", "c"),
        node("Conv", "c w1", "d", pads=[1, 1, 1, 1], group=12),
        node("Add", "d c", "e"),
        node("Conv", "e w4", "e4", pads=[1, 1, 1, 1]),
        node("MaxPool", "e4", "f", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "f w2", "g"),
        node("GlobalAveragePool", "g", "h"),
        node("Shape", "h", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Concat", "n rest", "wanted", axis=0),
        node("Reshape", "h wanted", "i"),
        node("Gemm", "i w3 b3", "j"),
        node("Softmax", "j", "y", axis=1),
    ]
    channels = dict.fromkeys(("scale", "bias", "mean", "var"), (12,))
    constants = {
        **{"w0": (12, 3, 3, 3), "w1": (12, 1, 3, 3), "w2": (20, 12, 1, 1), "w3": (20, 7), "b3": (7,)},
        **{"w4": (12, 12, 3, 3), "zero": [0], "rest": [-1]},
        **channels,
    }
    outputs: dict[str, list[Dim]] = {"y": [batch, 7], "e": [batch, 12, 10, 10]}
    return built(nodes, {"x": [batch, 3, 10, 10]}, outputs, constants)


MODELS = {"mlp": mlp, "convolutions": convolutions}


def inputs_of(module: Module, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    values = {symbol.name: n for symbol in module.symbols}
    return {s.name: rng.standard_normal(s.sizes(values)).astype(np.float32) for s in module.inputs}


def worst(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> float:
    assert {name: a.shape for name, a in got.items()} == {name: a.shape for name, a in wanted.items()}
    return max(float(np.max(np.abs(got[k] - wanted[k])) / np.max(np.abs(wanted[k]))) for k in wanted)


def compiled(model: onnx.ModelProto, threads: int = 1) -> Module:
    return compile_program(lower_any_size(model), native_target(), threads, NoSource())


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", MODELS)
def test_one_module_is_right_for_every_size(name: str, threads: int) -> None:
    model = MODELS[name]()
    module = load_module(compiled(model, threads).to_bytes())
    assert [s.name for s in module.symbols] == ["batch"]
    for n in SIZES:
        inputs = inputs_of(module, n)
        graph = load_graph(model, {k: v.shape for k, v in inputs.items()})
        static = compile_program(lower(graph), native_target(), 1, NoSource())
        got = module.run(inputs)
        assert worst(got, evaluate_graph(graph, inputs, np.float64)) < 1e-5
        assert worst(got, static.run(inputs)) < 1e-5
        static.close()
    module.close()


def test_memory_follows_the_sizes_of_each_call() -> None:
    """Halos stay zero when memory that a larger batch wrote is used for a smaller one, and the other way round."""
    module = compiled(convolutions())
    fresh = {n: compiled(convolutions()).run(inputs_of(module, n)) for n in (1, 9)}
    for n in (9, 1, 9, 1, 1, 9):
        assert worst(module.run(inputs_of(module, n)), fresh[n]) == 0
    module.close()


def test_calls_with_other_sizes_run_at_the_same_time() -> None:
    module = compiled(convolutions())
    wanted = {n: module.run(inputs_of(module, n)) for n in range(1, 7)}
    errors: list[float] = []

    def call(n: int) -> None:
        errors.extend(worst(module.run(inputs_of(module, n)), wanted[n]) for _ in range(20))

    threads = [threading.Thread(target=call, args=(n,)) for n in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 20 * len(wanted)
    assert max(errors) == 0
    module.close()


def test_outputs_that_are_given_must_have_the_size_of_the_inputs() -> None:
    module = compiled(mlp())
    inputs = inputs_of(module, 3)
    out = {"y": np.empty((3, 100), np.float32)}
    module.run_into(inputs, out)
    assert worst(out, module.run(inputs)) == 0
    with pytest.raises(
        InputError, match=r"output 'y' is float32 of shape \[4, 100\]; give float32 of shape \[3, 100\]"
    ):
        module.run_into(inputs, {"y": np.empty((4, 100), np.float32)})
    module.close()


def two_inputs(second: Dim) -> onnx.ModelProto:
    nodes = [node("Add", "x z", "y")]
    return built(nodes, {"x": ["n", 4], "z": [second, 4]}, {"y": [None, 4]}, {})


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (2, 4), "z": (3, 4)}, "input 'z' has n = 3, and input 'x' has 2; give all inputs the same"),
        ({"x": (2, 5), "z": (2, 4)}, "input 'x' is float32 of shape [2, 5]; give float32 of shape [2, 4]"),
        ({"x": (2,), "z": (2, 4)}, "input 'x' is float32 of shape [2]; give float32 of shape [2, 4]"),
        ({"x": (2,), "z": (4,)}, "input 'x' is float32 of shape [2]; give float32 of shape [n, 4]"),
        ({"x": (0, 4), "z": (0, 4)}, "input 'x' has n = 0; give a size from 1 to 1048576"),
        ({"x": (2, 4)}, "input 'z' is missing; give an array, float32 of shape [2, 4]"),
    ],
)
def test_sizes_that_do_not_fit_are_one_clear_error(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    module = compiled(two_inputs("n"))
    with pytest.raises(InputError) as caught:
        module.run({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    assert str(caught.value) == message
    module.close()


@pytest.mark.parametrize("name", ["s0", "r0", "n0", "x0", "o0", "y0", "seq length + 1"])
def test_a_size_may_be_called_like_anything_of_ours(name: str) -> None:
    nodes = [node("Softmax", "x", "a"), node("MatMul", "a w", "y")]
    model = built(nodes, {"x": [name, 7, 16]}, {"y": [name, 7, 8]}, {"w": (16, 8)})
    weight = numpy_helper.to_array(model.graph.initializer[0]).astype(np.float64)
    module = compile_program(lower_any_size(model), native_target(), 1, NoSource())
    assert [symbol.name for symbol in module.symbols] == [name]
    for size in SIZES:
        x = np.random.default_rng(size).standard_normal((size, 7, 16), np.float32)
        powers = np.exp(x.astype(np.float64))
        wanted = powers / powers.sum(-1, keepdims=True) @ weight
        np.testing.assert_allclose(module.run({"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_places_in_an_open_dimension_are_looked_up(threads: int) -> None:
    """From the front and from the end; what is out of range is the first or the last, and never out of bounds."""
    kind = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("Gather", "x i", "y", axis=1), node("GatherElements", "x j", "z", axis=1)],
        "open",
        [
            kind("x", TensorProto.FLOAT, [2, "n", 5]),
            kind("i", TensorProto.INT64, ["m"]),
            kind("j", TensorProto.INT32, [2, "m", 5]),
        ],
        [kind("y", TensorProto.FLOAT, [2, "m", 5]), kind("z", TensorProto.FLOAT, [2, "m", 5])],
    )
    program = lower_any_size(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    for subgraph in program.subgraphs:
        assert workload_from_json(workload_json(subgraph.workload)) == subgraph.workload
    module = compile_program(program, native_target(), threads, NoSource())
    rng = np.random.default_rng(0)
    for n, m in ((1, 3), (9, 40), (300, 2), (64, 64)):
        x = rng.standard_normal((2, n, 5), np.float32)
        rows, places = rng.integers(-n - 3, n + 3, m), rng.integers(-n - 3, n + 3, (2, m, 5), np.int32)
        got = module.run({"x": x, "i": rows, "j": places})
        within = [np.clip(np.where(given < 0, given + n, given), 0, n - 1) for given in (rows, places)]
        np.testing.assert_array_equal(got["y"], x[:, within[0]])
        np.testing.assert_array_equal(got["z"], np.take_along_axis(x, within[1].astype(np.int64), 1))
    module.close()


OVER_A_SIZE = {
    "mean": (node("ReduceMean", "x axes", "y", keepdims=0), {"axes": [1]}),
    "mean of all": (node("ReduceMean", "x", "y"), {}),
    "instance norm": (node("InstanceNormalization", "t w w", "y"), {"w": (5,)}),
    "global pool": (node("GlobalAveragePool", "t", "y"), {}),
    "place of the largest": (node("ArgMax", "x", "y", axis=1), {}),
}


@pytest.mark.parametrize("name", OVER_A_SIZE)
def test_a_statistic_over_an_open_size(name: str) -> None:
    one, constants = OVER_A_SIZE[name]
    kind = TensorProto.INT64 if name.startswith("place") else TensorProto.FLOAT
    model = built([node("Transpose", "x", "t", perm=[0, 2, 1]), one], {"x": [2, "n", 5]}, {}, constants)
    model.graph.output.append(helper.make_tensor_value_info("y", kind, None))
    module = compiled(model)
    for n in (1, 2, 7, 100, 33, 5000):
        x = np.random.default_rng(n).standard_normal((2, n, 5), np.float32) + 3
        wanted = evaluate_graph(load_graph(model, {"x": (2, n, 5)}), {"x": x}, np.float64)
        np.testing.assert_allclose(module.run({"x": x})["y"], wanted["y"], rtol=1e-4, atol=1e-5)
    module.close()


def scattering(kind: str, reduction: str, count: int | str) -> onnx.ModelProto:
    """So many updates of a tensor with an open number of rows."""
    width, attributes = (3, {"axis": 0}) if kind == "ScatterElements" else (1, {})
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "i", "u"], ["y"], reduction=reduction, **attributes)],
        "open",
        [
            info("x", TensorProto.FLOAT, ["n", 3]),
            info("i", TensorProto.INT64, [count, width]),
            info("u", TensorProto.FLOAT, [count, 3]),
        ],
        [info("y", TensorProto.FLOAT, ["n", 3])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def scattered(x: np.ndarray, i: np.ndarray, u: np.ndarray, reduction: str) -> np.ndarray:
    wanted = x.copy()
    for row, column in np.ndindex(u.shape):
        place = (i[row, column % i.shape[1]], column)
        match reduction:
            case "none":
                wanted[place] = u[row, column]
            case "add":
                wanted[place] += u[row, column]
            case _:
                wanted[place] = max(wanted[place], u[row, column])
    return wanted


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
def test_updates_of_a_tensor_of_open_size(kind: str, reduction: str) -> None:
    module = compiled(scattering(kind, reduction, 7))
    rng = np.random.default_rng(0)
    for n in (1, 40, 9, 3000):
        x, u = rng.standard_normal((n, 3), np.float32), rng.standard_normal((7, 3), np.float32)
        i = rng.integers(-n, n, (7, 3 if kind == "ScatterElements" else 1))
        got = module.run({"x": x, "i": i, "u": u})["y"]
        np.testing.assert_allclose(got, scattered(x, i, u, reduction), rtol=1e-5, atol=1e-5)
    module.close()


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
def test_updates_of_an_open_number(kind: str, reduction: str) -> None:
    module = compiled(scattering(kind, reduction, "m"))
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (40, 2), (9, 5), (30, 3000), (3000, 30)):
        x, u = rng.standard_normal((n, 3), np.float32), rng.standard_normal((m, 3), np.float32)
        i = rng.integers(-n, n, (m, 3 if kind == "ScatterElements" else 1))
        got = module.run({"x": x, "i": i, "u": u})["y"]
        np.testing.assert_allclose(got, scattered(x, i, u, reduction), rtol=1e-4, atol=1e-4)
    module.close()


@pytest.mark.parametrize(("exclusive", "reverse"), [(0, 0), (1, 1), slow(0, 1), slow(1, 0)])
def test_sums_up_to_each_element_of_an_axis_of_open_size(exclusive: int, reverse: int) -> None:
    scan = node("CumSum", "x axis", "y", exclusive=exclusive, reverse=reverse)
    module = compiled(built([scan], {"x": ["n", 3]}, {"y": ["n", 3]}, {"axis": [0]}))
    for n in (1, 2, 33, 1024, 1025, 40000):
        x = np.random.default_rng(n).standard_normal((n, 3), np.float32)
        turned = x[::-1] if reverse else x
        sums = np.cumsum(turned, 0, np.float64) - (turned if exclusive else 0)
        got = module.run({"x": x})["y"]
        np.testing.assert_allclose(got, sums[::-1] if reverse else sums, rtol=1e-5, atol=1e-4)
    module.close()


@pytest.mark.parametrize("groups", [1, 2])
def test_products_at_each_place_of_images_of_any_size(groups: int) -> None:
    """Whether places fill vectors, or lie pages apart, depends on the size: the order in memory must not."""
    nodes = [node("Conv", "x w", "a", group=groups), node("Relu", "a", "y")]
    shapes: dict[str, list[Dim]] = {"x": ["n", 32, "h", "w_"]}
    model = built(nodes, shapes, {"y": ["n", 96, "h", "w_"]}, {"w": (96, 32 // groups, 1, 1)})
    module = compiled(model)
    for n, h, w in ((1, 32, 32), (2, 5, 7), (1, 1, 1)):
        x = np.random.default_rng(h).standard_normal((n, 32, h, w)).astype(np.float32)
        expected = expected_outputs(model, {"x": x})["y"]
        np.testing.assert_allclose(module.run({"x": x})["y"], expected, rtol=1e-4, atol=1e-5)
    module.close()


def test_two_symbols() -> None:
    nodes = [node("Gemm", "x w", "y"), node("Relu", "z", "r")]
    model = built(nodes, {"x": ["n", 5], "z": ["m", 6]}, {"y": ["n", 3], "r": ["m", 6]}, {"w": (5, 3)})
    module = compiled(model)
    for n, m in ((1, 9), (8, 2), (17, 1)):
        x, z = np.ones((n, 5), np.float32), -np.ones((m, 6), np.float32)
        got = module.run({"x": x, "z": z})
        assert got["y"].shape == (n, 3)
        assert got["r"].shape == (m, 6)
        assert not got["r"].any()
    module.close()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            two_inputs("m"),
            "once for all sizes of 'n' and 'm' (with n = 8 and m = 11, node 'Add_0' (Add) has operands of shapes",
        ),
        (
            built([node("Add", "x w", "y")], {"x": ["n", 3]}, {"y": [None, 3]}, {"w": (8, 3)}),
            "(with n = 9, node",
        ),
        (
            built([node("GlobalAveragePool", "x", "y")], {"x": [1, 2, "n", "m"]}, {"y": [1, 2, 1, 1]}, {}),
            "cannot be compiled once for all sizes of 'n' and 'm' (stage epilogue",
        ),
        (
            built([node("Squeeze", "x", "y")], {"x": ["n", 3, 4]}, {"y": None}, {}),  # type: ignore[dict-item]
            "output 'y' has shape [3, 4] for n = 1, not [1, 3, 4]",
        ),
    ],
    ids=[
        "two sizes added",
        "broadcast of one size",
        "mean over two sizes",
        "squeezed at 1",
    ],
)
def test_models_that_have_no_form_for_all_sizes_are_refused(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        lower_any_size(model)
    assert message in str(caught.value)


def attention(batch: Dim, length: Dim, *, positions: bool = True) -> onnx.ModelProto:
    """A block of a transformer, as exporters write it; positions and a causal mask are parts of larger tables."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape one", "length"),
        node("Slice", "table zero length", "used"),
        node("Add", "x used", "placed") if positions else node("Identity", "x", "placed"),
        node("Slice", "mask zeros lengths axes", "causal"),
        node("Concat", "length length", "lengths", axis=0),
        node("LayerNormalization", "placed scale bias", "normal", axis=-1),
        node("Transpose", "k_heads", "k_turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q_heads k_turned", "scores"),
        node("Add", "scores causal", "masked"),
        node("Softmax", "masked", "weights", axis=-1),
        node("MatMul", "weights v_heads", "mixed"),
        node("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        node("Reshape", "back whole", "joined"),
        node("MatMul", "joined wo", "projected"),
        node("Add", "projected placed", "y"),
    ]
    for name in "qkv":
        nodes += [
            node("MatMul", f"normal w{name}", name),
            node("Reshape", f"{name} heads", f"{name}_split"),
            node("Transpose", f"{name}_split", f"{name}_heads", perm=[0, 2, 1, 3]),
        ]
    order = {n.output[0]: n for n in nodes}
    done = dict.fromkeys(
        ("x", "one", "zero", "zeros", "axes", "table", "mask", "scale", "bias", "heads", "whole")
    )
    done |= dict.fromkeys(("wq", "wk", "wv", "wo"))
    sorted_nodes = []
    while len(sorted_nodes) < len(nodes):
        for n in (n for n in order.values() if n.output[0] not in done and set(n.input) <= done.keys()):
            done[n.output[0]] = None
            sorted_nodes.append(n)
    constants = {
        **{
            "one": [1],
            "zero": [0],
            "zeros": [0, 0],
            "axes": [2, 3],
            "heads": [0, 0, 3, 8],
            "whole": [0, 0, -1],
        },
        **{"table": (64, 24), "mask": (1, 1, 72, 72), "scale": (24,), "bias": (24,)},
        **{f"w{name}": (24, 24) for name in "qkvo"},
    }
    return built(sorted_nodes, {"x": [batch, length, 24]}, {"y": [batch, length, 24]}, constants)


@pytest.mark.parametrize("threads", [1, 2])
def test_attention_over_an_open_length_and_batch(threads: int) -> None:
    """Strides and extents are products of both, sums and rows of the softmax are as long as the call says."""
    with closing(load_module(compiled(attention("batch", "length"), threads).to_bytes())) as module:
        assert [(s.name, s.high) for s in module.symbols] == [("batch", 1 << 20), ("length", 64)]
        for batch, length in ((1, 1), (2, 7), (3, 17), (1, 64), (2, 33)):
            x = np.random.default_rng(length).standard_normal((batch, length, 24)).astype(np.float32)
            graph = load_graph(attention("batch", "length"), {"x": x.shape})
            assert worst(module.run({"x": x}), evaluate_graph(graph, {"x": x}, np.float64)) < 1e-5
        with pytest.raises(InputError, match="length = 65; give a size from 1 to 64"):
            module.run({"x": np.zeros((1, 65, 24), np.float32)})


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (
            built([node("Add", "x b", "y")], {"x": [3, "n"]}, {"y": [3, None]}, {"b": (3, 1)}),
            {"x": [3, 0]},
        ),
        (
            built([node("MatMul", "x z", "y")], {"x": [2, 3], "z": [3, "n"]}, {"y": [2, None]}, {}),
            {"x": [2, 3], "z": [3, 0]},
        ),
        (
            built([node("MatMul", "x z", "y")], {"x": [5, "n"], "z": ["n", 9]}, {"y": [5, 9]}, {}),
            {"x": [5, 0], "z": [0, 9]},
        ),
        (
            built([node("Transpose", "x", "y", perm=[0, 2, 1])], {"x": [2, "n", 12]}, {"y": None}, {}),  # type: ignore[dict-item]
            {"x": [2, 0, 12]},
        ),
        (
            built([node("Softmax", "x", "y", axis=1)], {"x": [3, "n", 5]}, {"y": [3, None, 5]}, {}),
            {"x": [3, 0, 5]},
        ),
        (
            built([node("ReduceMax", "x axes", "y", keepdims=0)], {"x": ["n", 6]}, {"y": [6]}, {"axes": [0]}),
            {"x": [0, 6]},
        ),
        (
            built(
                [
                    node("Transpose", "x", "t", perm=[1, 0]),
                    node("MatMul", "x t", "s"),
                    node("Softmax", "s", "p"),
                    node("MatMul", "p x", "y"),
                ],
                {"x": ["n", 8]},
                {"y": ["n", 8]},
                {},
            ),
            {"x": [0, 8]},
        ),
        (
            built([node("Concat", "x b", "y", axis=0)], {"x": ["n", 6]}, {"y": [None, 6]}, {"b": (2, 6)}),
            {"x": [0, 6]},
        ),
        (
            built([node("Concat", "b x", "y", axis=0)], {"x": ["n", 6]}, {"y": [None, 6]}, {"b": (2, 6)}),
            {"x": [0, 6]},
        ),
        (
            built([node("Concat", "x b", "y", axis=1)], {"x": [3, "n"]}, {"y": [3, None]}, {"b": (3, 5)}),
            {"x": [3, 0]},
        ),
        (
            built(
                [node("Concat", "b x x", "t", axis=1), node("Neg", "t", "y")],
                {"x": [3, "n"]},
                {"y": [3, None]},
                {"b": (3, 5)},
            ),
            {"x": [3, 0]},
        ),
        (
            built(
                [node("Concat", "x z", "t", axis=1), node("MatMul", "q t", "y")],
                {"x": [4, "n"], "z": [4, 1], "q": [2, 4]},
                {"y": [2, None]},
                {},
            ),
            {"x": [4, 0], "z": [4, 1], "q": [2, 4]},
        ),
        (
            built([node("Pad", "x p", "y")], {"x": [3, "n"]}, {"y": [3, None]}, {"p": [0, 2, 0, 3]}),
            {"x": [3, 0]},
        ),
    ],
    ids=[
        "inner",
        "columns",
        "sum",
        "transposed",
        "softmax across",
        "largest of the batch",
        "with itself",
        "rows behind it",
        "rows before it",
        "columns behind it",
        "twice behind columns",
        "a step joined to those before",
        "with a border",
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_size_may_be_anywhere(
    model: onnx.ModelProto, inputs: dict[str, list[int]], threads: int
) -> None:
    with closing(compiled(model, threads)) as module:
        for n in SIZES:
            rng = np.random.default_rng(n)
            arrays = {
                name: rng.standard_normal([size or n for size in shape]).astype(np.float32)
                for name, shape in inputs.items()
            }
            graph = load_graph(model, {name: array.shape for name, array in arrays.items()})
            assert worst(module.run(arrays), evaluate_graph(graph, arrays, np.float64)) < 1e-5


def test_a_range_of_open_length_is_the_beginning_of_a_table() -> None:
    nodes = [
        node("Shape", "x", "shape"),
        node("Squeeze", "shape", "n"),
        node("Range", "first n step", "r"),
        node("Cast", "r", "f", to=TensorProto.FLOAT),
        node("Add", "x f", "y"),
    ]
    model = built(nodes, {"x": ["n"]}, {"y": ["n"]}, {})
    for name, value in (("first", 0), ("step", 1)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    with closing(compiled(model)) as module:
        assert module.symbols[0].high == 1 << 16
        for n in SIZES:
            x = np.ones(n, np.float32)
            np.testing.assert_array_equal(module.run({"x": x})["y"], 1 + np.arange(n))


def test_an_inner_size_is_fine_where_all_of_the_tensor_is_one_axis() -> None:
    module = compiled(built([node("Relu", "x", "y")], {"x": [3, "length"]}, {"y": [3, None]}, {}))
    for n in SIZES:
        inputs = inputs_of(module, n)
        assert worst(module.run(inputs), {"y": np.maximum(inputs["x"], 0)}) == 0
    module.close()


def test_a_softmax_whose_rows_end_in_dimensions_of_one() -> None:
    module = compiled(built([node("Softmax", "x", "y", axis=1)], {"x": ["n", 1000, 1, 1]}, {"y": None}, {}))  # type: ignore[dict-item]
    for n in SIZES:
        inputs = inputs_of(module, n)
        powers = np.exp(inputs["x"].astype(np.float64))
        assert worst(module.run(inputs), {"y": powers / powers.sum(axis=1, keepdims=True)}) < 1e-5
    module.close()


def test_given_shapes_specialise_and_static_models_have_no_symbols() -> None:
    assert lower_any_size(mlp(), {"x": (4, 37)}).symbols == ()
    static = compile_program(lower_any_size(mlp(4)), native_target(), 1, NoSource())
    assert static.symbols == ()
    assert [s.shape for s in static.outputs] == [(4, 100)]
    static.close()


class OneRecord:
    """Knows a schedule for one digest alone."""

    error_budget = TASK_ERROR_BUDGET

    def __init__(self, digest: str, schedule: Schedule) -> None:
        self._digest, self._schedule = digest, schedule

    def lookup(self, workloads: Sequence[Workload], target: Target, threads: int) -> list[Found | None]:
        return [Found(self._schedule, "exact") if w.digest == self._digest else None for w in workloads]


def test_a_record_for_the_nominal_size_serves_all_sizes_where_it_is_legal() -> None:
    program = lower_any_size(mlp())
    symbolic = program.subgraphs[0].workload
    static = lower(load_graph(mlp(), {"x": (8, 37)})).subgraphs[0].workload
    tuned = default_schedule(static, native_target(), 1)
    for schedule, lookup in ((tuned, "near"), (Schedule((Split("nothing", "s0", 2),)), "default")):
        source = OneRecord(static.digest, schedule)
        chosen = choose_schedules(program, native_target(), 1, source)
        assert chosen[symbolic.digest].found.lookup == lookup
    exact = choose_schedules(program, native_target(), 1, OneRecord(symbolic.digest, tuned))
    assert exact[symbolic.digest].found.lookup == "exact"


@pytest.mark.parametrize("channels", [3, 16])
def test_a_convolution_of_bytes_is_exact_for_every_size(channels: int) -> None:
    """The copy of its data, and the tiles of Winograd's algorithm, have an open first dimension."""
    rng = np.random.default_rng(channels)
    weights = numpy_helper.from_array(rng.integers(-128, 128, (16, channels, 3, 3)).astype(np.int8), "w")
    zero = numpy_helper.from_array(np.array(7, np.uint8), "z")
    graph = helper.make_graph(
        [node("ConvInteger", "x w z", "y", pads=[1, 1, 1, 1])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["batch", channels, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["batch", 16, 6, 6])],
        [weights, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with closing(compiled(model)) as module:
        for n in SIZES:
            inputs = {"x": rng.integers(0, 256, (n, channels, 6, 6)).astype(np.uint8)}
            wanted = evaluate_graph(load_graph(model, {"x": inputs["x"].shape}), inputs)
            np.testing.assert_array_equal(module.run(inputs)["y"], wanted["y"])


def test_a_schedule_that_is_not_found_is_said_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """`luthier.compile` then makes what is compiled as it runs."""

    def none(*_: object, **__: object) -> Schedule:
        msg = "workload has no schedule for all sizes"
        raise CompileError(msg)

    program = lower_any_size(mlp())
    monkeypatch.setattr("compiler.choice.default_schedule", none)
    with pytest.raises(NotStatic, match="once for all sizes of 'batch'"):
        compile_program(program, native_target(), 1, NoSource())
    with pytest.raises(CompileError, match="no schedule"):
        compile_program(lower_any_size(mlp(4)), native_target(), 1, NoSource())
