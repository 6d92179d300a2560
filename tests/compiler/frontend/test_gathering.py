"""Gathers with indices that the model is given, against the ONNX reference and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from compiler.choice import default_schedule
from compiler.errors import ModelError
from compiler.frontend import import_model
from compiler.graph.ir import ComputeKind
from compiler.pipeline import load_graph, lower
from compiler.target import native_target
from compiler.workload.index_operands import index_extents
from luthier.backend import prepare
from tests.compiler.frontend.cases import ints, weights
from tests.compiler.frontend.models import OPSET, model
from tuner.candidate import Candidate
from tuner.cost_model.features import NestFeatures
from tuner.task import Task

CASES = [
    ("Gather", (5, 3), (4,), {}),
    ("Gather", (2, 5, 3), (2, 3), {"axis": 1}),
    ("Gather", (4, 7), (), {"axis": -1}),
    ("Gather", (6,), (9,), {}),
    ("GatherElements", (5, 6), (4, 6), {}),
    ("GatherElements", (3, 5, 4), (3, 9, 4), {"axis": 1}),
    ("GatherElements", (3, 20), (3, 33), {"axis": 1}),
    ("GatherND", (4, 5, 6), (3, 2), {}),
    ("GatherND", (4, 5), (2, 3, 2), {}),
    ("GatherND", (3, 4, 5), (3, 2, 1), {"batch_dims": 1}),
]


def gather(
    op: str, data: np.ndarray, indices: np.ndarray | tuple[int, ...], kind: int, **attributes: Any
) -> Any:
    """Indices are a constant, or an input of the shape."""
    node = helper.make_node(op, ["data", "indices"], ["y"], **attributes)
    constants = {"indices": indices} if isinstance(indices, np.ndarray) else {}
    proto = model([node], {"data": list(data.shape)}, constants)
    if not constants:
        proto.graph.input.append(helper.make_tensor_value_info("indices", kind, indices))
    return proto


def extents(
    op: str, shape: tuple[int, ...], which: tuple[int, ...], attributes: dict[str, int]
) -> np.ndarray:
    """What each index chooses from, so that it broadcasts to the indices."""
    if op == "GatherND":
        batch = attributes.get("batch_dims", 0)
        return np.asarray(shape[batch : batch + which[-1]])
    return np.asarray(shape[attributes.get("axis", 0)])


@pytest.mark.parametrize(("op", "shape", "which", "attributes"), CASES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_given_indices(
    op: str, shape: tuple[int, ...], which: tuple[int, ...], attributes: dict[str, int], dtype: type
) -> None:
    data, limits = weights(*shape), extents(op, shape, which, attributes)
    drawn = np.random.default_rng(0).integers(-limits, limits, which).astype(dtype)
    proto = gather(op, data, which, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), **attributes)
    (expected,) = ReferenceEvaluator(proto).run(None, {"data": data, "indices": drawn})
    (actual,) = prepare(proto).run([data, drawn])
    np.testing.assert_array_equal(actual, expected)


def test_fewer_indices_than_rows_along_an_axis_counted_from_the_end() -> None:
    """ONNX allows both; its reference implementation does neither."""
    data, drawn = weights(3, 20), np.random.default_rng(0).integers(-20, 20, (2, 33))
    (actual,) = prepare(gather("GatherElements", data, (2, 33), TensorProto.INT64, axis=-1)).run(
        [data, drawn]
    )
    np.testing.assert_array_equal(actual, np.take_along_axis(data[:2], drawn, 1))


@pytest.mark.parametrize(
    "indices", [ints(4, 0, 3), np.array([[1, 0], [4, 4]]), np.array([[2, 2, 2]], np.int32)], ids=str
)
def test_known_indices_that_are_no_slice(indices: np.ndarray) -> None:
    data = weights(5, 3)
    proto = gather("Gather", data, indices, TensorProto.INT64)
    (actual,) = prepare(proto).run([data])
    np.testing.assert_array_equal(actual, data[indices])


def test_known_indices_with_one_step_are_a_slice() -> None:
    imported = import_model(gather("Gather", weights(9, 3), ints(7, 4, 1), TensorProto.INT64))
    assert [n.compute.kind for n in imported.nodes] == [ComputeKind.MOVEMENT]


@pytest.mark.parametrize(
    ("op", "indices", "kind", "problem"),
    [
        ("Gather", ints(5), 0, r"indices outside of the \[5\] elements"),
        ("GatherElements", np.full((5, 3), -6), 0, r"indices outside of the \[5\] elements"),
        ("GatherND", np.array([[0, 3]]), 0, r"indices outside of the \[5, 3\] elements"),
        ("GatherND", (2, 3), TensorProto.INT64, "indices of shape"),
        ("GatherElements", (5, 4), TensorProto.INT64, "indices of shape"),
        ("GatherElements", (5,), TensorProto.INT64, "indices of shape"),
        ("Gather", (2,), TensorProto.FLOAT, "indices of type float32|type"),
    ],
)
def test_what_onnx_forbids_is_refused(op: str, indices: Any, kind: int, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        import_model(gather(op, weights(5, 3), indices, kind))


def embedding(rows: int, columns: int, count: int) -> onnx.ModelProto:
    """Token and position rows, added and normalised, as a language model begins."""
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["w"]),
        helper.make_node("Add", ["w", "positions"], ["s"]),
        helper.make_node("LayerNormalization", ["s", "scale"], ["y"], axis=-1),
    ]
    constants = {
        "words": weights(rows, columns),
        "positions": weights(1, count, columns),
        "scale": weights(columns),
    }
    proto = model(nodes, {}, constants, opset=OPSET)
    proto.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, [1, count]))
    return proto


def test_an_embedding_and_its_normalisation() -> None:
    proto = embedding(40, 48, 7)
    rep = prepare(proto)
    ids = np.array([[3, 39, 0, 0, 17, 21, 5]])
    (expected,) = ReferenceEvaluator(proto).run(None, {"ids": ids})
    np.testing.assert_allclose(rep.run([ids])[0], expected, rtol=2e-5, atol=2e-5)
    clamped = rep.run([np.array([[3, 10**12, -(10**12), 0, 17, 21, 5]])])[0]
    np.testing.assert_allclose(clamped, expected, rtol=2e-5, atol=2e-5)


def test_two_results_of_one_lookup() -> None:
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["row"]),
        helper.make_node("Neg", ["row"], ["y"]),
        helper.make_node("Relu", ["row"], ["z"]),
    ]
    table = weights(9, 20)
    proto = model(nodes, {}, {"table": table}, ["y", "z"])
    proto.graph.input.append(helper.make_tensor_value_info("ids", TensorProto.INT64, [4]))
    ids = ints(8, -9, 3, -1)
    y, z = prepare(proto).run([ids])
    np.testing.assert_array_equal(y, -table[ids])
    np.testing.assert_array_equal(z, np.maximum(table[ids], 0))
    workloads = [s.workload for s in lower(load_graph(proto)).subgraphs]
    assert {extent for w in workloads for extent in index_extents(w).values()} == {9}
    target = native_target()
    for workload in workloads:
        task = Task(workload, target, 1, 1, "task")
        candidate = Candidate(default_schedule(workload, target, 1))
        assert np.isfinite(NestFeatures()(task, [candidate])).all()
