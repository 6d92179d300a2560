"""Operators whose results have as many elements as the values say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from luthier.backend import prepare
from tests.slow import slow


def run(kind: str, *inputs: np.ndarray[Any, Any], outputs: int = 1, **attributes: Any) -> list[Any]:
    names = [f"x{place}" for place in range(len(inputs))]
    results = [f"y{place}" for place in range(outputs)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
    ]
    node = helper.make_node(kind, names, results, **attributes)
    found = [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in results]
    graph = helper.make_graph([node], "g", infos, found)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    return list(prepare(model).run(list(inputs)))


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("shape", [(5,), (700,), (3, 40, 7), ()])
def test_non_zero(share: float, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random(shape) < share).astype(np.float32) * rng.standard_normal(shape).astype(np.float32)
    x = np.asarray(x, np.float32)
    (got,) = run("NonZero", x)
    # A scalar has no dimension that an index could be in.
    wanted = np.stack(np.nonzero(x)) if shape else np.zeros((0, int(x != 0)), np.int64)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(axis: int | None) -> None:
    x = np.random.default_rng(1).standard_normal((5, 6), np.float32)
    chosen = np.array([0, 1, 1, 0, 1], np.bool_)
    given = {} if axis is None else {"axis": axis}
    (got,) = run("Compress", x, chosen, **given)
    np.testing.assert_array_equal(got, np.compress(chosen, x, axis))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_unique(axis: int | None, kind: Any) -> None:
    x = np.random.default_rng(2).integers(0, 2, (9, 3)).astype(kind)
    given = {} if axis is None else {"axis": axis}
    got = run("Unique", x, outputs=4, **given)
    for found, wanted in zip(got, np.unique(x, True, True, True, axis=axis), strict=True):
        np.testing.assert_array_equal(found, np.reshape(wanted, found.shape))


def test_unique_in_the_order_of_appearance() -> None:
    x = np.array([2, 1, 1, 3, 4, 3], np.float32)
    values, places, inverse, counts = run("Unique", x, outputs=4, sorted=0)
    np.testing.assert_array_equal(values, [2, 1, 3, 4])
    np.testing.assert_array_equal(places, [0, 1, 3, 4])
    np.testing.assert_array_equal(inverse, [0, 1, 1, 2, 3, 2])
    np.testing.assert_array_equal(counts, [1, 2, 2, 1])


def greedy(boxes: Any, scores: Any, most: int, overlap: float, threshold: float) -> list[list[int]]:
    found = []
    for b in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            kept: list[int] = []
            for i in np.argsort(-scores[b, c], kind="stable"):
                if scores[b, c, i] <= threshold or len(kept) == most:
                    break
                if all(share(boxes[b, i], boxes[b, k]) <= overlap for k in kept):
                    kept.append(int(i))
            found += [[b, c, i] for i in kept]
    return found


def share(a: Any, b: Any) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    common = float(np.prod(np.maximum(high - low, 0)))
    return common / float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


@pytest.mark.parametrize("most", [3, 100])
def test_suppression_takes_what_a_greedy_search_takes(most: int) -> None:
    """100: more than is unrolled, so a loop of the driver."""
    rng = np.random.default_rng(3)
    corners = rng.random((2, 80, 2), np.float32)
    boxes = np.concatenate([corners, corners + rng.uniform(0.05, 0.4, (2, 80, 2)).astype(np.float32)], 2)
    scores = rng.random((2, 2, 80), np.float32)
    (got,) = run(
        "NonMaxSuppression",
        boxes,
        scores,
        np.array([most]),
        np.array([0.3], np.float32),
        np.array([0.2], np.float32),
    )
    assert got.tolist() == greedy(boxes, scores, most, 0.3, 0.2)


@pytest.mark.parametrize("threshold", [slow(0.2), 0.97, 0.9984, 2.0, slow(0.0)])
@pytest.mark.parametrize("most", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_suppression_of_many_boxes_of_which_few_are_liked(most: int, threshold: float) -> None:
    """Few, one and none of 300, which are sorted out before; what is no number is not liked, and ends nothing."""
    rng = np.random.default_rng(6)
    corners = rng.random((2, 300, 2), np.float32)
    boxes = np.concatenate([corners, corners + rng.uniform(0.05, 0.4, (2, 300, 2)).astype(np.float32)], 2)
    scores = rng.random((2, 2, 300), np.float32)
    unknown = scores.copy()
    scores[0, 0, ::7] = 0
    unknown[0, 0, ::7] = np.nan
    limits = (np.array([most]), np.array([0.3], np.float32), np.array([threshold], np.float32))
    wanted = greedy(boxes, scores, most, 0.3, threshold)
    for given in (scores, unknown):
        (got,) = run("NonMaxSuppression", boxes, given, *limits)
        assert got.tolist() == wanted


@pytest.mark.parametrize("threshold", [slow(None), 0.2])
@pytest.mark.parametrize("alike", [0, 40, 150])
def test_suppression_among_the_best_and_among_all(alike: int, threshold: float | None) -> None:
    """The best of a class are enough, or most of them are one box, or all are and others have to be looked at."""
    rng = np.random.default_rng(7)
    corners = rng.random((1, 700, 2), np.float32)
    boxes = np.concatenate([corners, corners + rng.uniform(0.05, 0.2, (1, 700, 2)).astype(np.float32)], 2)
    boxes[0, :alike] = boxes[0, 0]
    scores = rng.random((1, 3, 700), np.float32)
    scores[0, 1, :alike] += 1
    scores[0, 2] = np.round(scores[0, 2], 2)
    limits = (np.array([5]), np.array([0.3], np.float32))
    given = limits if threshold is None else (*limits, np.array([threshold], np.float32))
    (got,) = run("NonMaxSuppression", boxes, scores, *given)
    assert got.tolist() == greedy(boxes, scores, 5, 0.3, -np.inf if threshold is None else threshold)


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
def test_places_of_extremes(kind: str, last: int, keep: int) -> None:
    x = np.random.default_rng(4).integers(0, 3, (4, 5, 6)).astype(np.float32)
    (got,) = run(kind, x, axis=1, keepdims=keep, select_last_index=last)
    find = np.argmax if kind == "ArgMax" else np.argmin
    wanted = 4 - find(x[:, ::-1], axis=1) if last else find(x, axis=1)
    np.testing.assert_array_equal(got, wanted[:, None] if keep else wanted)


@pytest.mark.parametrize(("count", "largest"), [(5, 1), (40, 0), slow(5, 0), slow(40, 1)])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32, np.uint8, np.int64])
def test_the_first_of_an_order(kind: Any, count: int, largest: int) -> None:
    """Of equal elements the first, NaN as the largest, zeros equal; the few and the some have ways of their own."""
    x = np.random.default_rng(5).integers(0, 9, (3, 300)).astype(kind)
    if np.dtype(kind).kind == "f":
        x[0, 7::50], x[1, 3], x[1, 90], x[2, 4] = np.nan, np.inf, -np.inf, np.nan
        x[0, ::3] *= -1
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], largest=largest)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [
            helper.make_tensor_value_info("values", helper.np_dtype_to_tensor_dtype(x.dtype), None),
            helper.make_tensor_value_info("places", TensorProto.INT64, None),
        ],
        [helper.make_tensor("k", TensorProto.INT64, [1], [count])],
    )
    values, places = prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])).run([x])
    order = x.astype(np.float64)
    order = np.where(np.isnan(order), np.inf, np.where(np.isinf(order), np.sign(order) * 1e9, order))
    wanted = np.argsort(-order if largest else order, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))
