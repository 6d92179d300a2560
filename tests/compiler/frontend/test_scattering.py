"""Scatters, choices of elements and caches, with indices that are known and indices that are given."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.dtype import DType
from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.frontend.boxes import find_box
from compiler.frontend.builder import GraphBuilder
from compiler.frontend.spread import spread_dimensions
from compiler.graph.ir import Compute
from compiler.graph.pipeline import optimise
from compiler.index import Index
from compiler.scalar import Bound, Const, Guard, Load, apply
from compiler.symbol import axis
from tests.compiler.frontend.cases import (
    Case,
    case,
    compare,
    floats,
    ints,
    run_case,
    run_given,
    run_one,
    weights,
)
from tests.compiler.frontend.models import model
from tests.slow import slow

REDUCTIONS = ("none", "add", "mul", "max", "min")
DATA, UPDATES = weights(4, 5, 3), weights(3, 5, 2)
ROWS = np.array([[0, -1, 2, 2, 1], [3, 3, 0, -2, 1], [1, 0, 1, 2, -4]])[:, :, None].repeat(2, 2)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("known", [True, False])
def test_scatter_elements(reduction: str, known: bool) -> None:  # noqa: FBT001
    """A place that several updates have is in row 2, column 0."""
    if known:
        run_case(case("ScatterElements", (4, 5, 3), ROWS, UPDATES, reduction=reduction))
    else:
        run_given("ScatterElements", [DATA, ROWS, UPDATES], reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("known", [True, False])
def test_scatter_nd(reduction: str, known: bool) -> None:  # noqa: FBT001
    places = np.array([[[0, 1], [3, -1]], [[0, 1], [-4, 0]]])
    updates = weights(2, 2, 3)
    if known:
        run_case(case("ScatterND", (4, 5, 3), places, updates, reduction=reduction))
    else:
        run_given("ScatterND", [DATA, places, updates], reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("operator", ["ScatterElements", "ScatterND"])
def test_many_updates(operator: str, reduction: str, known: bool) -> None:  # noqa: FBT001
    """More than are compared with every place; most places have several, some none."""
    rng = np.random.default_rng(0)
    if operator == "ScatterND":
        places, updates = np.stack([rng.integers(-4, 4, 30), rng.integers(-3, 5, 30)], 1), weights(30, 3)
    else:
        places, updates = rng.integers(-4, 3, (30, 5, 2)), weights(30, 5, 2)
    if known:
        run_case(case(operator, (4, 5, 3), places, updates, reduction=reduction))
    else:
        run_given(operator, [DATA, places, updates], reduction=reduction)


def grid(*ranges: range, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Indices of all places of a box, its dimensions in another order where one is given."""
    places = np.stack(np.meshgrid(*[np.array(r) for r in ranges], indexing="ij"), -1)
    return places if order is None else places.transpose(*order, len(order))


BOXES = {
    "inside": grid(range(1, 3), range(2, 5)),
    "from the end": grid(range(-3, -1), range(1)),
    "all of a dimension": grid(range(4), range(1, 3)),
    "one place": grid(range(2, 3), range(-1, 0)),
    "dimensions that change places": grid(range(1, 3), range(2, 5), order=(1, 0)),
    "one of the dimensions": grid(range(1, 4)),
    "backwards, which is none": grid(range(2, 0, -1), range(2)),
    "steps of two, which is none": grid(range(0, 4, 2), range(3)),
    "a diagonal, which is none": np.array([[0, 0], [1, 1], [2, 2]]),
    "one place twice, which is none": np.array([[1, 1], [1, 1]]),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("box", BOXES)
def test_known_indices_of_a_box(box: str, reduction: str) -> None:
    places = BOXES[box]
    updates = weights(*places.shape[:-1], *(4, 5, 3)[places.shape[-1] :])
    run_case(case("ScatterND", (4, 5, 3), places, updates, reduction=reduction))


def test_boxes_need_no_search() -> None:
    found = {
        name: find_box(np.where(p < 0, p + (4, 5)[: p.shape[-1]], p), (4, 5)[: p.shape[-1]])
        for name, p in BOXES.items()
    }
    assert {name for name, box in found.items() if box is None} == {n for n in BOXES if n.endswith("none")}


def test_indices_that_are_spread_out_are_known() -> None:
    """As exported from `x[:, 1:, 1:] = u`, of more elements than are kept as a constant for themselves."""
    rows, columns = 300, 300
    builder = GraphBuilder(frozenset())
    builder.add_constant("row", np.arange(1, rows))
    axes = (axis("a0", rows - 1), axis("a1", columns))
    builder.add_compute("n", "spread", Compute(axes, (), None, Load("row", (Index.of("a0"),)), DType.I64))
    assert "spread" not in builder.constants
    known = builder.known("spread")
    assert known is not None
    assert (known == np.arange(1, rows)[:, None]).all()
    builder.add_input("x", (columns,), DType.I64)
    builder.add_compute(
        "m", "of an input", Compute((axes[1],), (), None, Load("x", (Index.of("a1"),)), DType.I64)
    )
    assert builder.known("of an input") is None
    assert builder.known("x") is None


def spread_scatter(rows: tuple[int, ...], axis: int, reduction: str) -> onnx.ModelProto:
    """`x[rows] = u`, as torch exports it: the rows' numbers are spread out along the other dimensions."""
    whole = (9, 9, 9)
    counts = tuple(whole[d] if n == 1 and d != axis else n for d, n in enumerate(rows))
    nodes = [
        helper.make_node("Expand", ["i", "shape"], ["spread"]),
        helper.make_node("ScatterElements", ["x", "spread", "u"], ["y"], axis=axis, reduction=reduction),
    ]
    proto = model(nodes, {"x": list(whole), "u": list(counts)}, {"shape": ints(*counts)}, ["y"])
    proto.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, rows))
    return proto


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("rows", "axis"),
    [((5, 1, 1), 0), ((1, 5, 1), 1), ((1, 1, 150), 2), ((150, 1, 4), 0), ((3, 150, 1), 1)],
    ids=str,
)
def test_indices_that_are_spread_out(rows: tuple[int, ...], axis: int, reduction: str) -> None:
    """Of 5 and of more than 128 updates; along one dimension or two; as far as the data goes or not."""
    proto = spread_scatter(rows, axis, reduction)
    rng = np.random.default_rng(0)
    u = next(i for i in proto.graph.input if i.name == "u")
    inputs = {
        "x": weights(9, 9, 9),
        "u": weights(*(d.dim_value for d in u.type.tensor_type.shape.dim)),
        "i": rng.integers(-9, 9, rows),
    }
    compare(proto, inputs)


def test_indices_that_are_spread_out_are_searched_once() -> None:
    """Not once for each element of the rows, which may be whole images."""
    graph = optimise(import_model(spread_scatter((150, 1, 1), 0, "none")))
    found = [node.compute for node in graph.nodes if node.compute.dtype.is_integer]
    assert found
    assert max(np.prod(compute.type.sizes) for compute in found) <= 150


def test_what_is_spread_out() -> None:
    builder = GraphBuilder(frozenset())
    builder.add_input("x", (3, 1, 4), DType.F32)
    i, j, k = axis("a0", 3), axis("a1", 5), axis("a2", 4)
    load = Load("x", (Index.of("a0"), Index(), Index.of("a2")))
    builder.add_compute("n", "spread", Compute((i, j, k), (), None, load))
    again = Load("spread", (Index.of("a0"), Index.of("a1"), Index.of("a2")))
    builder.add_compute("n", "twice", Compute((i, j, k), (), None, apply("add", again, again)))
    other = Load("spread", (Index.of("a0"), Index.of("a1"), Index.of("a1") - 1))
    bounded = Guard((Bound(Index.of("a1"), 1, 5),), other, Const(0.0))
    builder.add_compute("n", "bounded", Compute((i, j, k), (), None, bounded))
    builder.add_constant("known", np.array([[1, 1, 1], [2, 2, 2]]))
    builder.add_constant("empty", np.zeros((0, 3)))
    names = ("x", "spread", "twice", "bounded", "known", "empty")
    found = {value: spread_dimensions(builder, value) for value in names}
    assert found == {"x": set(), "spread": {1}, "twice": {1}, "bounded": {2}, "known": {1}, "empty": {0, 1}}


def test_scatter_along_the_last_axis() -> None:
    run_given("ScatterElements", [weights(3, 6), ints(5, 0, -2)[None].repeat(2, 0), weights(2, 3)], axis=-1)


def test_known_indices_out_of_range() -> None:
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"])
    with pytest.raises(ModelError, match="outside"):
        run_one(node, weights(3), {"i": ints(3), "u": floats(1)})


CASES = [
    case("TopK", (3, 7), ints(3), outputs=2),
    case("TopK", (3, 7, 2), ints(7), outputs=2, axis=1, largest=0),
    case("TopK", (3, 90), ints(4), outputs=2),
    case("TopK", (80, 2), ints(32), outputs=2, axis=0),
    case("TopK", (2, 80), ints(33), outputs=2),
    case("TopK", (2, 300), ints(40), outputs=2),
    case("TopK", (3, 257, 2), ints(100), outputs=2, axis=1, largest=0),
    case("TopK", (1, 700), ints(2), outputs=2, largest=0),
    case("Hardmax", (3, 7)),
    case("Hardmax", (3, 7, 2), axis=1),
]


@pytest.mark.parametrize("example", CASES, ids=str)
def test_ranks(example: Case) -> None:
    run_case(example)


def test_equal_elements_keep_their_order() -> None:
    x = floats(1, 3, 3, 2, 3)[None]
    nodes = helper.make_node("TopK", ["x", "k"], ["v", "y"])
    assert run_one(nodes, x, {"k": ints(4)}).tolist() == [[1, 2, 4, 3]]
    smallest = helper.make_node("TopK", ["x", "k"], ["v", "y"], largest=0)
    assert run_one(smallest, x, {"k": ints(4)}).tolist() == [[0, 3, 1, 2]]
    assert run_one(helper.make_node("Hardmax", ["x"], ["y"]), x, {}).tolist() == [[0, 1, 0, 0, 0]]


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int64, np.uint8])
def test_the_first_few_of_a_long_axis(kind: Any) -> None:
    """Many of them are equal."""
    x = np.random.default_rng(0).integers(0, 9, (2, 100)).astype(kind)
    places = run_one(helper.make_node("TopK", ["x", "k"], ["v", "y"]), x, {"k": ints(20)})
    np.testing.assert_array_equal(places, np.argsort(-x.astype(float), axis=1, kind="stable")[:, :20])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("size", [4000, 3999])
@pytest.mark.parametrize("values", [9, 300, 1 << 20])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_few_of_many_blocks(axis: int, values: int, size: int, largest: int) -> None:
    """Blocks have equal largest elements, and the last one may not be full."""
    x = np.random.default_rng(values).integers(0, values, (3, size)).astype(np.float32)
    x[0, -1], x[1, [1, size // 2]] = values if largest else -1, (np.inf, -np.inf)
    node = helper.make_node("TopK", ["x", "k"], ["v", "y"], largest=largest, axis=axis)
    places = run_one(node, x if axis else np.ascontiguousarray(x.T), {"k": ints(10)})
    order = np.argsort(-x.astype(float) if largest else x.astype(float), axis=1, kind="stable")[:, :10]
    np.testing.assert_array_equal(places if axis else places.T, order)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("size", [slow(4000), 3997])
@pytest.mark.parametrize("values", [1, 2, 300, 1 << 20])
@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_some_of_many_blocks(kind: Any, values: int, size: int, largest: int) -> None:
    """Blocks have equal largest elements, nothing is below most of them, and the last one may not be full."""
    limits = np.finfo(np.float32) if kind is np.float32 else np.iinfo(np.int32)
    end = (limits.min if largest else limits.max) if kind is np.int32 else np.inf * (-1 if largest else 1)
    x = np.random.default_rng(values).integers(0, values, (2, size)).astype(kind)
    x[0, : size - 60] = x[1, 5:-9] = end
    x[1, 5:-9:80] = 7
    node = helper.make_node("TopK", ["x", "k"], ["v", "y"], largest=largest)
    places = run_one(node, x, {"k": ints(120)})
    order = x.astype(np.float64) * (-1 if largest else 1)
    np.testing.assert_array_equal(places, np.argsort(order, axis=1, kind="stable")[:, :120])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64, np.int64, np.int32, np.uint8])
def test_some_of_a_long_axis(kind: Any, largest: int) -> None:
    """Many of them are equal, and those at the threshold too."""
    x = np.random.default_rng(0).integers(0, 9, (2, 600)).astype(kind)
    x[0, 7], x[1, 500] = (np.finfo if x.dtype.kind == "f" else np.iinfo)(x.dtype).max, 0
    node = helper.make_node("TopK", ["x", "k"], ["v", "y"], largest=largest)
    places = run_one(node, x, {"k": ints(150)})
    order = x.astype(object) * (-1 if largest else 1)
    np.testing.assert_array_equal(places, np.argsort(order, axis=1, kind="stable")[:, :150])


@pytest.mark.parametrize("largest", [0, 1])
def test_all_floats_have_their_place(largest: int) -> None:
    """Zeros are equal whatever their sign; what is not a number is the largest."""
    x = np.random.default_rng(0).standard_normal((1, 400)).astype(np.float32)
    x[0, [0, 9, 17, 30]], x[0, [3, 200]], x[0, 250:260] = np.nan, (np.inf, -np.inf), np.tile([0.0, -0.0], 5)
    x[0, 300:310] = np.float32(1e-45) * np.arange(-5, 5)
    missing, numbers = np.isnan(x), x.astype(float) + 0.0
    order = np.lexsort((-numbers, ~missing) if largest else (numbers, missing))
    for count in (3, 33, 200):
        node = helper.make_node("TopK", ["x", "k"], ["v", "y"], largest=largest)
        places = run_one(node, x, {"k": ints(count)})
        np.testing.assert_array_equal(places, order[:, :count])


def test_what_is_not_a_number_is_the_largest() -> None:
    x = np.zeros((1, 70), np.float32)
    x[0, [60, 3, 40, 5, 6]] = np.nan, np.inf, np.nan, 1.0, -np.inf
    nodes = helper.make_node("TopK", ["x", "k"], ["v", "y"])
    assert run_one(nodes, x, {"k": ints(6)}).tolist() == [[40, 60, 3, 5, 0, 1]]
    x[0, 6:] = -np.inf
    assert run_one(nodes, x, {"k": ints(7)}).tolist() == [[3, 5, 0, 1, 2, 4, 6]]


def test_hardmax_of_opset_11_flattens() -> None:
    x = weights(2, 3, 4)
    actual = run_one(helper.make_node("Hardmax", ["x"], ["y"], axis=1), x, {}, 11)
    wanted = np.zeros((2, 12))
    wanted[np.arange(2), x.reshape(2, 12).argmax(1)] = 1
    np.testing.assert_array_equal(actual, wanted.reshape(x.shape))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(axis: int) -> None:
    """Indices count from the end where they are negative, and stand for nothing where they are out of range."""
    x, values = np.array([[0, -1, 2], [3, 9, -4]]), floats(-0.5, 2)
    node = helper.make_node("OneHot", ["x", "d", "v"], ["y"], axis=axis)
    actual = run_one(node, x.astype(np.float32), {"d": np.array(4), "v": values})
    hits = np.where(x < 0, x + 4, x)[..., None] == np.arange(4)
    np.testing.assert_array_equal(actual, np.moveaxis(np.where(hits, 2, -0.5), -1, axis))


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_reverse_sequence(time: int, batch: int) -> None:
    lengths = ints(3, 1, 0, 4)
    data = weights(4, 4, 2)
    run_given("ReverseSequence", [data, lengths], time_axis=time, batch_axis=batch)


@pytest.mark.parametrize("options", [{}, {"mode": "circular"}, {"mode": "circular", "axis": 1}])
def test_cache(options: dict[str, Any]) -> None:
    cache = weights(2, 5, 5, 3)
    new = weights(2, 2, 5, 3) if options.get("axis") == 1 else weights(2, 5, 2, 3)
    first = ints(1, 4) if options else ints(1, 3)
    run_given("TensorScatter", [cache, new, first], 24, **options)
