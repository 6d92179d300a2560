"""Models whose sizes depend on values: segments, branches, loops, sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper

import luthier
from compiler.errors import InputError, UnsupportedOperator
from compiler.frontend.segment import checked_model
from compiler.graph.ir import Graph
from compiler.pipeline import Importing, compile_program, lower, lower_for_all
from compiler.runtime.module import Module
from compiler.schedule.source import NoSource
from compiler.symbol import Symbol
from compiler.target import native_target
from compiler.workload.generalise import Values
from luthier.dynamic import DynamicModule

Shape = list[int | str | None] | None


def compiled(graph: Graph) -> Module:
    return compile_program(lower(graph), native_target(), 1, NoSource())


def compiled_for_all(symbols: tuple[Symbol, ...], points: Sequence[Values], imported: Importing) -> Module:
    return compile_program(lower_for_all(symbols, points, imported), native_target(), 1, NoSource())


def tensor(name: str, shape: Shape, kind: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name: str) -> ValueInfoProto:
    inner: TypeProto = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    return helper.make_value_info(name, helper.make_sequence_type_proto(inner))


def module(graph: GraphProto, most: int = 64, patience_s: float = 0.0) -> DynamicModule:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    return DynamicModule(checked_model(model), compiled, compiled_for_all, most, patience_s=patience_s)


def run(graph: GraphProto, **inputs: Any) -> list[Any]:
    found = module(graph).run(inputs)
    return [found[output.name] for output in graph.output]


def reshaping() -> GraphProto:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    inputs = [tensor("x", [2, 6]), tensor("shape", [2], TensorProto.INT64)]
    return helper.make_graph(nodes, "g", inputs, [tensor("y", None)])


def test_a_shape_that_is_an_input() -> None:
    found = module(reshaping())
    x = np.random.default_rng(0).standard_normal((2, 6), np.float32)
    for shape in ((3, 4), (12, 1), (3, 4)):
        got = found.run({"x": x, "shape": np.array(shape, np.int64)})["y"]
        np.testing.assert_array_equal(got, np.maximum(x, 0).reshape(shape))
    assert found.segments == 2


def branching() -> GraphProto:
    small = helper.make_graph([helper.make_node("Neg", ["x"], ["a"])], "then", [], [tensor("a", None)])
    large = helper.make_graph([helper.make_node("Abs", ["h"], ["b"])], "else", [], [tensor("b", None)])
    nodes = [
        helper.make_node("Add", ["x", "x"], ["h"]),
        helper.make_node("ReduceMax", ["h"], ["top"], keepdims=0),
        helper.make_node("Cast", ["top"], ["whole"], to=TensorProto.INT64),
        helper.make_node("Cast", ["whole"], ["flag"], to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["c"], then_branch=small, else_branch=large),
        helper.make_node("Add", ["c", "h"], ["y"]),
    ]
    return helper.make_graph(nodes, "g", [tensor("x", [4])], [tensor("y", None)])


@pytest.mark.parametrize("top", [0.0, 3.0])
def test_a_branch_that_a_computed_value_chooses(top: float) -> None:
    x = np.array([-1, -2, -0.25, top], np.float32)
    (got,) = run(branching(), x=x)
    np.testing.assert_array_equal(got, (-x if top else np.abs(2 * x)) + 2 * x)


def counting(limit: str, condition: str) -> GraphProto:
    """state, squares = for i in range(n): state += x[i]; keep state * state."""
    body = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "i"], ["v"]),
            helper.make_node("Add", ["s", "v"], ["t"]),
            helper.make_node("Mul", ["t", "t"], ["q"]),
            helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL), tensor("s", [2])],
        [tensor("again", [], TensorProto.BOOL), tensor("t", [2]), tensor("q", [2])],
    )
    start = helper.make_tensor("start", TensorProto.FLOAT, [2], [0, 0])
    nodes = [helper.make_node("Loop", [limit, condition, "start"], ["y", "squares"], body=body)]
    inputs = [tensor("x", [100, 2])]
    constants = [start]
    if limit == "n":
        inputs.append(tensor("n", [], TensorProto.INT64))
    else:
        constants.append(helper.make_tensor(limit, TensorProto.INT64, [], [int(limit)]))
    return helper.make_graph(nodes, "g", inputs, [tensor("y", [2]), tensor("squares", [None, 2])], constants)


@pytest.mark.parametrize("count", [0, 1, 7, 90])
@pytest.mark.parametrize("known", [True, False])
def test_loops(count: int, *, known: bool) -> None:
    x = np.random.default_rng(count).standard_normal((100, 2), np.float32)
    given = {} if known else {"n": np.array(count)}
    state, squares = run(counting(str(count) if known else "n", ""), x=x, **given)
    wanted = np.cumsum(x[:count].astype(np.float64), axis=0)
    np.testing.assert_allclose(state, wanted[-1] if count else [0, 0], atol=1e-5)
    np.testing.assert_allclose(squares, wanted**2, atol=1e-3)
    assert squares.shape == (count, 2)


def test_a_long_loop_compiles_its_body_once() -> None:
    found = module(counting("n", ""))
    x = np.ones((100, 2), np.float32)
    found.run({"x": x, "n": np.array(80)})
    assert found.segments <= 4
    # What comes after the loop is another segment, since it collects more.
    state = found.run({"x": x, "n": np.array(99)})["y"]
    assert found.segments <= 5
    np.testing.assert_array_equal(state, [99, 99])


def test_a_loop_that_its_body_ends_makes_no_step_too_many() -> None:
    graph = counting("n", "")
    (loop,) = graph.node
    body = next(a.g for a in loop.attribute if a.name == "body")
    del body.node[-1]
    body.node.append(helper.make_node("Less", ["i", "last"], ["again"]))
    graph.initializer.append(helper.make_tensor("last", TensorProto.INT64, [], [70]))
    state, squares = run(graph, x=np.ones((100, 2), np.float32), n=np.array(100))
    np.testing.assert_array_equal(state, [71, 71])
    assert squares.shape == (71, 2)


def test_a_loop_that_ends_after_its_first_iteration_makes_one() -> None:
    """Its condition is the same in every iteration, so that only the first one has to be asked."""
    graph = counting("n", "")
    (loop,) = graph.node
    body = next(a.g for a in loop.attribute if a.name == "body")
    del body.node[-1]
    never = helper.make_tensor("never", TensorProto.BOOL, [], [0])
    body.node.append(helper.make_node("Constant", [], ["again"], value=never))
    found = module(graph)
    given = {"x": np.ones((100, 2), np.float32), "n": np.array(90)}
    for _ in range(2):
        assert found.run(given)["squares"].shape == (1, 2)


def looping(nodes: list[NodeProto], states: dict[str, tuple[Shape, str]], scanned: list[str]) -> GraphProto:
    """A loop of n iterations. `states`: of each its shape, and what it becomes."""
    inside = [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL)]
    inside += [tensor(name, shape) for name, (shape, _) in states.items()]
    results = [tensor("go_on", [], TensorProto.BOOL), *(tensor(new, shape) for shape, new in states.values())]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), *nodes],
        "body",
        inside,
        [*results, *(tensor(name, None) for name in scanned)],
    )
    outputs = [f"last_{name}" for name in states] + [f"all_{name}" for name in scanned]
    node = helper.make_node("Loop", ["n", "", *(f"first_{name}" for name in states)], outputs, body=body)
    inputs = [tensor("n", [], TensorProto.INT64), tensor("x", [3])]
    inputs += [tensor(f"first_{name}", shape) for name, (shape, _) in states.items()]
    return helper.make_graph([node], "g", inputs, [tensor(name, None) for name in outputs])


@pytest.mark.parametrize("count", [1, 2, 100])
def test_states_that_change_places(count: int) -> None:
    """What one state becomes is the other one, so that runs cannot simply follow each other."""
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("Identity", ["b"], ["d"])]
    graph = looping(nodes, {"a": ([3], "d"), "b": ([3], "c")}, ["c"])
    a, b = np.array([0, 1, 2], np.float64), np.array([1, 1, 0], np.float64)
    found = run(
        graph,
        n=np.array(count),
        x=np.zeros(3, np.float32),
        first_a=a.astype(np.float32),
        first_b=b.astype(np.float32),
    )
    sums = []
    for _ in range(count):
        a, b = b, a + b
        sums.append(b)
    for got, wanted in zip(found, (a, b, np.array(sums)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("count", [1, 70])
def test_states_that_stay_and_states_that_are_not_read(count: int) -> None:
    nodes = [
        helper.make_node("Add", ["x", "stays"], ["y"]),
        helper.make_node("Cast", ["i"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["y", "number"], ["z"]),
    ]
    graph = looping(nodes, {"stays": ([3], "stays_"), "unread": ([3], "z")}, ["z"])
    (loop,) = graph.node
    body = next(a.g for a in loop.attribute if a.name == "body")
    body.node.append(helper.make_node("Identity", ["stays"], ["stays_"]))
    x, stays = np.ones(3, np.float32), np.array([1, 2, 3], np.float32)
    last, unread, products = run(graph, n=np.array(count), x=x, first_stays=stays, first_unread=x)
    wanted = np.arange(count)[:, None] * (1 + stays)
    np.testing.assert_array_equal(last, stays)
    np.testing.assert_allclose(products, wanted)
    np.testing.assert_allclose(unread, wanted[-1])


def test_states_that_grow() -> None:
    nodes = [helper.make_node("Concat", ["s", "x"], ["t"], axis=0)]
    graph = looping(nodes, {"s": ([None], "t")}, [])
    x = np.array([1, 2, 3], np.float32)
    (got,) = run(graph, n=np.array(12), x=x, first_s=x[:2])
    np.testing.assert_array_equal(got, np.concatenate([x[:2], np.tile(x, 12)]))


@pytest.mark.parametrize("backwards", [0, 1])
def test_scan(backwards: int) -> None:
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "v"], ["t"]), helper.make_node("Identity", ["t"], ["u"])],
        "body",
        [tensor("s", [3]), tensor("v", [3])],
        [tensor("t", [3]), tensor("u", [3])],
    )
    node = helper.make_node(
        "Scan",
        ["start", "x"],
        ["last", "sums"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[backwards],
        scan_output_axes=[-1],
        scan_output_directions=[backwards],
    )
    graph = helper.make_graph(
        [node], "g", [tensor("start", [3]), tensor("x", [3, 5])], [tensor("last", None), tensor("sums", None)]
    )
    x = np.random.default_rng(1).standard_normal((3, 5), np.float32)
    last, sums = run(graph, start=np.ones(3, np.float32), x=x)
    turned = x[:, ::-1] if backwards else x
    wanted = 1 + np.cumsum(turned, axis=1)
    np.testing.assert_allclose(last, wanted[:, -1], rtol=1e-5)
    np.testing.assert_allclose(sums, wanted[:, ::-1] if backwards else wanted, rtol=1e-4, atol=1e-5)


def test_sequences_and_optionals() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x", "sizes"], ["parts"], axis=0),
        helper.make_node("SequenceInsert", ["parts", "x", "first"], ["more"]),
        helper.make_node("SequenceErase", ["more", "second"], ["fewer"]),
        helper.make_node("ConcatFromSequence", ["fewer"], ["y"], axis=0),
        helper.make_node("SequenceLength", ["fewer"], ["length"]),
        helper.make_node("OptionalHasElement", ["nothing"], ["there"]),
    ]
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    inputs = [
        tensor("x", ["n", 2]),
        tensor("first", [], TensorProto.INT64),
        helper.make_value_info("nothing", kind),
    ]
    outputs = [
        tensor("y", None),
        sequence("fewer"),
        tensor("length", [], TensorProto.INT64),
        tensor("there", [], TensorProto.BOOL),
    ]
    constants = [
        helper.make_tensor("sizes", TensorProto.INT64, [2], [1, 3]),
        helper.make_tensor("second", TensorProto.INT64, [], [1]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    x = np.random.default_rng(2).standard_normal((4, 2), np.float32)
    y, fewer, length, there = run(graph, x=x, first=np.array(0), nothing=None)
    np.testing.assert_array_equal(y, np.concatenate([x, x[1:]]))
    assert [part.shape for part in fewer] == [(4, 2), (3, 2)]
    assert int(length) == 2
    assert not there


def test_nothing_at_all() -> None:
    """Empty inputs, parts and sums."""
    nodes = [
        helper.make_node("Concat", ["x", "e"], ["c"], axis=0),
        helper.make_node("ReduceSum", ["e", "axes"], ["zero"], keepdims=0),
        helper.make_node("Slice", ["c", "from", "to", "axes"], ["none"]),
    ]
    constants = [
        helper.make_tensor("axes", TensorProto.INT64, [1], [0]),
        helper.make_tensor("from", TensorProto.INT64, [1], [2]),
        helper.make_tensor("to", TensorProto.INT64, [1], [2]),
    ]
    outputs = [tensor("c", None), tensor("zero", None), tensor("none", None)]
    graph = helper.make_graph(nodes, "g", [tensor("x", [3, 2]), tensor("e", ["n", 2])], outputs, constants)
    x = np.ones((3, 2), np.float32)
    c, zero, none = run(graph, x=x, e=np.zeros((0, 2), np.float32))
    np.testing.assert_array_equal(c, x)
    np.testing.assert_array_equal(zero, [0, 0])
    assert none.shape == (0, 2)


def test_compile_gives_a_module_that_is_compiled_as_it_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mean over two open sizes has no form for all of them."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["m"]), helper.make_node("Sub", ["x", "m"], ["y"])]
    shape: list[str | int] = [1, 8, "height", "width"]
    graph = helper.make_graph(nodes, "g", [tensor("x", shape)], [tensor("y", shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    found = luthier.compile(model, threads=1, database=f"sqlite:///{tmp_path}/log.sqlite")
    assert isinstance(found, DynamicModule)
    assert "cannot be compiled once for all sizes of 'height' and 'width'" in caplog.text
    for size in ((1, 7), (9, 3), (5, 5)):
        x = np.random.default_rng(0).standard_normal((1, 8, *size), np.float32)
        wanted = x - x.mean((2, 3), keepdims=True)
        np.testing.assert_allclose(found.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)
    found.close()


def test_what_comes_back_is_the_callers_own() -> None:
    """An output that is an input, a constant, or another output."""
    nodes = [helper.make_node("Relu", ["x"], ["r"])]
    nodes += [
        helper.make_node("Identity", [v], [o]) for v, o in (("x", "a"), ("k", "b"), ("r", "c"), ("r", "d"))
    ]
    constant = helper.make_tensor("k", TensorProto.FLOAT, [2], [1, 2])
    graph = helper.make_graph(
        nodes, "g", [tensor("x", ["n"])], [tensor(name, None) for name in "abcd"], [constant]
    )
    found, x = module(graph), np.array([-1, 3], np.float32)
    for _ in range(2):
        outputs = found.run({"x": x})
        for name, wanted in {"a": [-1, 3], "b": [1, 2], "c": [0, 3], "d": [0, 3]}.items():
            np.testing.assert_array_equal(outputs[name], wanted)
            outputs[name][:] = 7
        np.testing.assert_array_equal(x, [-1, 3])


def test_misuse_is_refused() -> None:
    found = module(reshaping())
    x = np.ones((2, 6), np.float32)
    with pytest.raises(InputError, match="'shape' is missing"):
        found.run({"x": x})
    with pytest.raises(InputError, match="'z' is unknown"):
        found.run({"x": x, "shape": np.array([12]), "z": x})


def test_a_node_without_a_lowering_is_named_when_it_is_reached() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("ImageDecoder", ["bytes"], ["y"], name="culprit"),
    ]
    inputs = [
        tensor("x", [2, 6]),
        tensor("shape", [2], TensorProto.INT64),
        tensor("bytes", [4], TensorProto.UINT8),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [tensor("y", None, TensorProto.UINT8), tensor("r", None)])
    with pytest.raises(UnsupportedOperator, match="ImageDecoder of opset 20 at node 'culprit'"):
        run(graph, x=np.ones((2, 6), np.float32), shape=np.array([12, 1]), bytes=np.ones(4, np.uint8))
