"""Operators of ai.onnx.ml and of training, against the ONNX reference implementation and as machine code."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from compiler.errors import UnsupportedOperator
from compiler.frontend import import_model
from luthier.backend import prepare
from tests.compiler.frontend.cases import weights

X = weights(9, 4)


def table_model(op: str, x: np.ndarray, outputs: int = 1, version: int = 3, **attributes: Any) -> Any:
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "table",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names],
    )
    for output in graph.output:
        output.type.tensor_type.ClearField("elem_type")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", version)], ir_version=10)


def check(op: str, x: np.ndarray = X, outputs: int = 1, **attributes: Any) -> None:
    proto = table_model(op, x, outputs, **attributes)
    expected = ReferenceEvaluator(proto).run(None, {"x": x})
    for actual, wanted in zip(prepare(proto).run([x]), expected, strict=True):
        np.testing.assert_allclose(actual, np.asarray(wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("scale", [[0.5], [0.5, 2.0, 3.0, 1.0]])
def test_scaled(dtype: type, scale: list[float]) -> None:
    """The output is of float32 always; the reference implementation keeps whole numbers."""
    x = (X * 10).astype(dtype)
    (actual,) = prepare(table_model("Scaler", x, offset=[1.0, 2.0, -1.0, 0.5], scale=scale)).run([x])
    np.testing.assert_allclose(actual, (x - [1.0, 2.0, -1.0, 0.5]) * scale, rtol=1e-5, atol=1e-6)
    assert actual.dtype == np.float32


@pytest.mark.parametrize("norm", ["L1", "L2"])
def test_normalised(norm: str) -> None:
    check("Normalizer", X, norm=norm)


def test_normalised_by_the_largest() -> None:
    """The reference implementation takes the largest number for the largest absolute one; ONNX Runtime does not."""
    proto = table_model("Normalizer", X, norm="MAX")
    (actual,) = prepare(proto).run([X])
    np.testing.assert_allclose(actual, X / np.abs(X).max(1, keepdims=True), rtol=1e-6)


def test_replaced() -> None:
    x = X.copy()
    x[::2, 1] = np.nan
    check("Imputer", x, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    check("Imputer", (X > 0).astype(np.int64), imputed_value_int64s=[7], replaced_value_int64=1)


def test_encoded() -> None:
    x = np.array([[3, 5], [7, 3]], np.int64)
    check("OneHotEncoder", x, cats_int64s=[3, 7, 9])
    check("LabelEncoder", x, keys_int64s=[3, 7], values_floats=[0.5, -1.0], default_float=9.0)
    check("Binarizer", X, threshold=0.3)


def test_side_by_side() -> None:
    node = helper.make_node(
        "FeatureVectorizer", ["a", "b"], ["y"], inputdimensions=[2, 1], domain="ai.onnx.ml"
    )
    infos = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [3, 2]),
        helper.make_tensor_value_info("b", TensorProto.INT64, [3, 1]),
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", infos, [out])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=10)
    a, b = weights(3, 2), np.array([[1], [2], [3]])
    np.testing.assert_array_equal(prepare(proto).run([a, b])[0], np.concatenate([a, b], 1).astype(np.float32))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear(transform: str) -> None:
    w, b = weights(3, 4), weights(3)
    options: dict[str, Any] = {"coefficients": w.reshape(-1).tolist(), "intercepts": b.tolist()}
    check("LinearRegressor", X, targets=3, **options)
    proto = table_model(
        "LinearClassifier", X, 2, post_transform=transform, classlabels_ints=[5, 2, 9], **options
    )
    labels, scores = prepare(proto).run([X])
    wanted = X @ w.T + b
    np.testing.assert_array_equal(labels, np.array([5, 2, 9])[wanted.argmax(1)])
    power = np.exp(wanted)
    known = {"NONE": wanted, "LOGISTIC": power / (1 + power), "SOFTMAX": power / power.sum(1, keepdims=True)}
    np.testing.assert_allclose(scores, known[transform], rtol=1e-4, atol=1e-6)


def forest(kind: str, targets: list[int], trees: int = 5, depth: int = 3) -> dict[str, Any]:
    """Whole trees with random tests; their leaves are for one target each."""
    random = np.random.default_rng(0)
    nodes: dict[str, list[Any]] = {n: [] for n in ("tree", "id", "feature", "value", "mode", "true", "false")}
    leaves: dict[str, list[Any]] = {n: [] for n in ("tree", "node", "target", "weight")}
    inner, count = 2**depth - 1, 2 ** (depth + 1) - 1
    for tree in range(trees):
        for i in range(count):
            leaf = i >= inner
            row = (tree, i, 0 if leaf else int(random.integers(4)), float(random.normal()))
            row += ("LEAF" if leaf else "BRANCH_LEQ", 0 if leaf else 2 * i + 1, 0 if leaf else 2 * i + 2)
            for name, value in zip(nodes, row, strict=True):
                nodes[name].append(value)
            if leaf:
                own = (tree, i, targets[(tree + i) % len(targets)], float(random.normal()))
                for name, value in zip(leaves, own, strict=True):
                    leaves[name].append(value)
    return {
        "nodes_treeids": nodes["tree"],
        "nodes_nodeids": nodes["id"],
        "nodes_featureids": nodes["feature"],
        "nodes_values": nodes["value"],
        "nodes_modes": nodes["mode"],
        "nodes_truenodeids": nodes["true"],
        "nodes_falsenodeids": nodes["false"],
        f"{kind}_treeids": leaves["tree"],
        f"{kind}_nodeids": leaves["node"],
        f"{kind}_ids": leaves["target"],
        f"{kind}_weights": leaves["weight"],
    }


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees(function: str) -> None:
    options = forest("target", [0])
    check("TreeEnsembleRegressor", X, n_targets=1, aggregate_function=function, **options)


def test_trees_with_base_values() -> None:
    check(
        "TreeEnsembleRegressor", X, n_targets=3, base_values=[0.5, -1.0, 2.0], **forest("target", [0, 1, 2])
    )


def test_classes_of_trees() -> None:
    options = forest("class", [0, 1, 2])
    check("TreeEnsembleClassifier", X, 2, classlabels_int64s=[3, 7, 9], **options)
    check("TreeEnsembleClassifier", X, 2, classlabels_int64s=[3, 7, 9], post_transform="SOFTMAX", **options)


@pytest.mark.parametrize("positive", [True, False])
def test_two_classes_of_one_score(positive: bool) -> None:  # noqa: FBT001
    options = forest("class", [0])
    if positive:
        options["class_weights"] = [abs(w) / 10 for w in options["class_weights"]]
    proto = table_model("TreeEnsembleClassifier", X, 2, classlabels_int64s=[3, 7], **options)
    labels, scores = prepare(proto).run([X])
    expected = table_model("TreeEnsembleRegressor", X, n_targets=1, **_as_targets(options))
    score = ReferenceEvaluator(expected).run(None, {"x": X})[0][:, 0]
    np.testing.assert_array_equal(labels, np.where(score > (0.5 if positive else 0), 7, 3))
    np.testing.assert_allclose(scores[:, 1], score, rtol=1e-5)
    np.testing.assert_allclose(scores[:, 0], (1 - score) if positive else -score, rtol=1e-5)


def _as_targets(options: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("class_", "target_"): value for name, value in options.items()}


def test_text_is_refused() -> None:
    proto = table_model("LabelEncoder", np.zeros(3, np.int64), keys_int64s=[1], values_strings=["a"])
    with pytest.raises(UnsupportedOperator, match="text"):
        import_model(proto)
