"""Numbers that differ from call to call: which are one symbol, what stays as it is, and code for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from compiler.dtype import DType
from compiler.frontend.segment import Given, Known, TensorKind
from compiler.graph.ir import Compute, Graph, Node, TensorType
from compiler.index import Index
from compiler.scalar import Load, apply
from compiler.symbol import axis
from luthier.dynamic import DynamicModule
from luthier.evaluated import is_cheap
from luthier.values import Value
from luthier.varying import MOST_SYMBOLS, Pattern, Seen, Shape, pattern_of, shape_of
from tests.compiler.runtime.test_any_size import scattered, scattering
from tests.luthier.test_dynamic import module, tensor

NOTHING: frozenset[Given] = frozenset()


def values(*shapes: tuple[int, ...], **known: list[int]) -> dict[str, Value]:
    tensors: dict[str, Value] = {f"v{i}": np.zeros(shape, np.float32) for i, shape in enumerate(shapes)}
    return tensors | {name: Known(np.array(array)) for name, array in known.items()}


def pattern(*calls: dict[str, Value], needed: frozenset[Given] = NOTHING) -> Pattern | None:
    shapes = [shape_of(call, needed) for call in calls]
    assert len({shape.structure for shape in shapes}) == 1
    return pattern_of(shapes[0].structure, needed, [shape.numbers for shape in shapes])


def test_numbers_that_are_always_equal_are_one_symbol() -> None:
    found = pattern(values((48, 4), (48,), k=[48, 7]), values((52, 4), (52,), k=[52, 7]))
    assert found is not None
    (symbol,) = found.symbols
    assert symbol.nominal == 52
    assert found.sizes(values((60, 4), (60,), k=[60, 7]), found.symbols) == {symbol.name: 60}
    for other in (
        values((60, 4), (61,), k=[60, 7]),
        values((60, 5), (60,), k=[60, 7]),
        values((60, 4), (60,), k=[60, 8]),
        values((1, 4), (1,), k=[1, 7]),
        values((0, 4), (0,), k=[0, 7]),
    ):
        assert found.sizes(other, found.symbols) is None


def test_values_of_other_sizes_can_be_made() -> None:
    calls = [values((n, 4, 1), (m,), k=[n, -1]) for n, m in ((5, 9), (6, 9), (6, 3))]
    found = pattern(*calls)
    assert found is not None
    assert len(found.symbols) == 2
    kinds = found.kinds(calls[0], dict(zip((s.name for s in found.symbols), (20, 30), strict=True)))
    assert kinds["v0"] == TensorKind((20, 4, 1), np.dtype(np.float32))
    assert kinds["v1"] == TensorKind((30,), np.dtype(np.float32))
    np.testing.assert_array_equal(kinds["k"], [20, -1])


def calls_of(*sizes: int) -> list[Shape]:
    return [shape_of(values((n, 4)), NOTHING) for n in sizes]


def test_code_for_all_sizes_is_for_the_third() -> None:
    seen = Seen()
    *few, third, fourth = calls_of(40, 50, 45, 60)
    assert [pattern_after(seen, shape) for shape in few] == [None, None]
    found = pattern_after(seen, third)
    assert found is not None
    assert [symbol.nominal for symbol in found.symbols] == [50]
    seen.has_none(found)
    assert pattern_after(seen, fourth) is None


def test_small_sizes_are_tried_again_with_larger_ones() -> None:
    seen = Seen()
    found = [pattern_after(seen, shape) for shape in calls_of(4, 5, 6)]
    assert found[-1] is not None
    seen.has_none(found[-1])
    small, large = calls_of(9, 40)
    assert pattern_after(seen, small) is None
    assert pattern_after(seen, large) is not None


def pattern_after(seen: Seen, shape: Shape) -> Pattern | None:
    seen.add(shape)
    return seen.pattern(shape, NOTHING)


def test_ones_and_zeros_are_no_sizes_like_others() -> None:
    structures = {shape_of(values((n, 4)), NOTHING).structure for n in (0, 1, 2)}
    assert len(structures) == 3
    assert shape_of(values((2, 4)), NOTHING).structure == shape_of(values((3, 4)), NOTHING).structure


def test_values_that_must_be_known_are_numbers_only_where_they_are_whole_and_few() -> None:
    for array, same in (
        (np.array([3, 4]), True),
        (np.array([3.0, 4.0]), False),
        (np.arange(100), False),
    ):
        shapes = [shape_of({"v": array + add}, frozenset({Given("v")})) for add in (0, 1)]
        assert (shapes[0].structure == shapes[1].structure) == same


def test_numbers_that_go_too_many_ways_have_no_pattern() -> None:
    rng = np.random.default_rng(0)
    count = MOST_SYMBOLS + 1
    calls = [values(*((int(n),) for n in rng.integers(2, 99, count))) for _ in range(3)]
    assert pattern(*calls) is None
    assert pattern(calls[0], calls[0]) is None


def chosen(patience_s: float = 0.0) -> DynamicModule:
    """Rows above zero, twice: those of x whose first element is, and of these those whose last element is."""

    def rows(source: str, column: str, result: str) -> list[NodeProto]:
        return [
            helper.make_node("Gather", [source, column], [f"{result}.c"], axis=1),
            helper.make_node("Greater", [f"{result}.c", "zero"], [f"{result}.f"]),
            helper.make_node("NonZero", [f"{result}.f"], [f"{result}.z"]),
            helper.make_node("Squeeze", [f"{result}.z", "axis"], [f"{result}.i"]),
            helper.make_node("Gather", [source, f"{result}.i"], [result], axis=0),
        ]

    nodes = [
        *rows("x", "first", "a"),
        helper.make_node("MatMul", ["a", "w"], ["p"]),
        *rows("p", "last", "b"),
        helper.make_node("Shape", ["b"], ["s"]),
        helper.make_node("Reshape", ["b", "flat"], ["y"]),
    ]
    integers = {"first": 0, "last": 4, "axis": [0], "flat": [-1]}
    constants = [
        helper.make_tensor(name, TensorProto.INT64, np.shape(value), np.ravel(value))
        for name, value in integers.items()
    ]
    constants.append(helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0]))
    constants.append(helper.make_tensor("w", TensorProto.FLOAT, [5, 5], WEIGHT.ravel()))
    outputs = [tensor("y", None), tensor("s", None, TensorProto.INT64)]
    graph = helper.make_graph(nodes, "g", [tensor("x", ["n", 5])], outputs, constants)
    return module(graph, patience_s=patience_s)


WEIGHT = np.random.default_rng(9).standard_normal((5, 5)).astype(np.float32)


def expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a = x[x[:, 0] > 0] @ WEIGHT
    return np.asarray(a[a[:, 4] > 0])


def test_counts_that_differ_in_every_call_share_code() -> None:
    found = chosen()
    rng = np.random.default_rng(0)
    few = 0
    for call in range(24):
        x = rng.standard_normal((40, 5)).astype(np.float32)
        if call in (9, 10, 11):  # none, one, and none of the second kind
            x[:, 0] = -1
            x[: call - 9, 0] = 1
        got, wanted = found.run({"x": x}), expected(x)
        np.testing.assert_array_equal(got["s"], wanted.shape)
        np.testing.assert_allclose(got["y"], wanted.ravel(), rtol=1e-4, atol=1e-5)
        if call == 14:
            few = found.segments
    assert found.segments == few
    found.close()


def test_code_for_all_sizes_is_made_when_evaluating_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """With patience, nothing is compiled before that, nor more in one run than a few seconds allow."""
    found, rng = chosen(patience_s=1e9), np.random.default_rng(0)

    def run(rows: int) -> int:
        x = rng.standard_normal((rows, 5)).astype(np.float32)
        np.testing.assert_allclose(found.run({"x": x})["y"], expected(x).ravel(), rtol=1e-4, atol=1e-5)
        return found.segments

    assert [run(rows) for rows in (50, 31, 44, 70)] == [0] * 4
    found._patience_s = 1e-9
    monkeypatch.setattr("luthier.dynamic._MOST_MAKING_S", 0.0)
    one = run(64)
    assert 0 < one < run(57)
    counts = [run(rows) for rows in (90, 27, 41, 33, 80)]
    assert counts[-1] == counts[-2]
    found.close()


def test_values_that_come_back_get_code_for_all_sizes() -> None:
    found, rng = chosen(patience_s=1e9), np.random.default_rng(0)
    given = [rng.standard_normal((rows, 5)).astype(np.float32) for rows in (50, 61, 44, 70)]
    counts = []
    for x in [*given, *given, *given]:
        np.testing.assert_allclose(found.run({"x": x})["y"], expected(x).ravel(), rtol=1e-4, atol=1e-5)
        counts.append(found.segments)
        if len(counts) == len(given):
            assert found.evaluated > 0
    assert counts[3] == 0
    assert counts[4] == counts[-1] > 0
    found.close()


def test_what_is_prepared_is_compiled() -> None:
    found = chosen(patience_s=1e9)
    found.prepare({"x": TensorKind((40, 5), np.dtype(np.float32))})
    assert found.segments == 1
    found.close()


def test_sizes_of_inputs_that_differ_share_code_as_well() -> None:
    found = chosen()
    rng = np.random.default_rng(1)
    counts = []
    for n in (50, 31, 44, 70, 23, 64, 36, 57, 90, 27, 41, 33):
        x = rng.standard_normal((n, 5)).astype(np.float32)
        np.testing.assert_allclose(found.run({"x": x})["y"], expected(x).ravel(), rtol=1e-4, atol=1e-5)
        counts.append(found.segments)
    assert counts[-1] == counts[-4]
    found.close()


def test_numbers_that_were_equal_by_chance_are_told_apart_later() -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["a"]),
        helper.make_node("NonZero", ["z"], ["b"]),
        helper.make_node("Transpose", ["a"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["y"]),
    ]
    found = module(helper.make_graph(nodes, "g", [tensor("x", [90]), tensor("z", [90])], [tensor("y", None)]))
    counts = []
    for n, m in ((9, 9), (12, 12), (17, 17), (20, 20), (21, 30), (40, 8), (33, 50), (60, 25)):
        x, z = np.zeros(90, np.float32), np.zeros(90, np.float32)
        x[90 - n :], z[:m] = 1, 1
        got = found.run({"x": x, "z": z})["y"]
        np.testing.assert_array_equal(got, np.arange(90 - n, 90)[:, None] + np.arange(m))
        counts.append(found.segments)
    assert counts[-1] == counts[-3]
    found.close()


@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_numbers_of_updates(kind: str, reduction: str) -> None:
    model = scattering(kind, reduction, "m")
    found, rng, counts = module(model.graph), np.random.default_rng(0), []
    for n, m in ((90, 40), (70, 50), (80, 47), (60, 35), (90, 3), (300, 200), (50, 2500), (90, 64), (2, 38)):
        x, u = rng.standard_normal((n, 3), np.float32), rng.standard_normal((m, 3), np.float32)
        i = rng.integers(-n, n, (m, 3 if kind == "ScatterElements" else 1))
        got = found.run({"x": x, "i": i, "u": u})["y"]
        np.testing.assert_allclose(got, scattered(x, i, u, reduction), rtol=1e-4, atol=1e-4)
        counts.append(found.segments)
    assert counts[-1] == counts[2]
    found.close()


@pytest.mark.parametrize("most", [3, 40])
def test_the_first_of_an_order_of_any_length(most: int) -> None:
    nodes = [
        helper.make_node("NonZero", ["f"], ["z"]),
        helper.make_node("Squeeze", ["z", "axis"], ["i"]),
        helper.make_node("Gather", ["x", "i"], ["a"]),
        helper.make_node("TopK", ["a", "k"], ["y", "p"], axis=0),
    ]
    integers = {"axis": 0, "k": most}
    constants = [helper.make_tensor(n, TensorProto.INT64, [1], [value]) for n, value in integers.items()]
    outputs = [tensor("y", None), tensor("p", None, TensorProto.INT64)]
    found = module(
        helper.make_graph(nodes, "g", [tensor("x", [300]), tensor("f", [300])], outputs, constants)
    )
    rng, counts = np.random.default_rng(0), []
    for count in (200, 150, 190, 300, 64, 40, 120, 77):
        x, f = rng.integers(0, 20, 300).astype(np.float32), np.zeros(300, np.float32)
        f[rng.permutation(300)[:count]] = 1
        chosen = x[f > 0]
        order = np.argsort(-chosen, kind="stable")[:most]
        got = found.run({"x": x, "f": f})
        np.testing.assert_array_equal(got["p"], order)
        np.testing.assert_array_equal(got["y"], chosen[order])
        counts.append(found.segments)
    assert counts[-1] == counts[2]
    found.close()


@pytest.mark.parametrize("least", [3, 200])
def test_what_has_no_common_form_is_made_for_each_size(least: int) -> None:
    """Sums up to each place are taken in blocks, as many as there have to be."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["z"]),
        helper.make_node("Cast", ["z"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("CumSum", ["f", "axis"], ["y"]),
    ]
    last = helper.make_tensor("axis", TensorProto.INT64, [], [1])
    found = module(helper.make_graph(nodes, "g", [tensor("x", [400])], [tensor("y", None)], [last]))
    for count in range(least, least + 6):
        x = np.zeros(400, np.float32)
        x[:count] = 1
        np.testing.assert_allclose(found.run({"x": x})["y"], [np.arange(count).cumsum()], rtol=1e-6)
    found.close()


def test_code_is_made_for_sizes_that_come_back() -> None:
    """There is none for so many that go their own ways: NumPy evaluates what is met once."""
    names = [f"x{place}" for place in range(MOST_SYMBOLS + 1)]
    nodes = [helper.make_node("NonZero", [name], [f"z{name}"]) for name in names]
    nodes += [
        helper.make_node("Concat", [f"z{name}" for name in names], ["z"], axis=1),
        helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = [tensor(name, [50]) for name in names]
    found, counts = module(helper.make_graph(nodes, "g", inputs, [tensor("y", None)])), []
    for call in (0, 1, 2, 3, 4, 5, 4, 4, 3):
        sizes = [10 + (call * step) % 7 for step in range(1, len(names) + 1)]
        given = {name: (np.arange(50) < n).astype(np.float32) for name, n in zip(names, sizes, strict=True)}
        y = found.run(given)["y"]
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y[0], np.concatenate([np.arange(n) for n in sizes]))
        counts.append(found.segments)
    assert counts[5] == counts[4] == counts[3] == counts[2]
    assert counts[5] < counts[6] == counts[7] < counts[8]
    found.close()


@pytest.mark.parametrize(("rows", "cheap"), [(1 << 10, True), (1 << 12, False)])
def test_what_takes_long_is_compiled_at_once(rows: int, cheap: bool) -> None:  # noqa: FBT001
    axes = (axis("i", rows), axis("j", 1 << 10))
    load = Load("x", (Index.of("i"), Index.of("j")))
    compute = Compute(axes, (), None, apply("add", load, load))
    inputs = {"x": TensorType(compute.type.shape, DType.F32)}
    assert is_cheap(Graph(inputs, ("y",), {}, (Node("n", "y", compute),))) == cheap
