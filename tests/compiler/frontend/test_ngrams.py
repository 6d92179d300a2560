"""TfIdfVectorizer counts the n-grams that ONNX Runtime counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.onnx_pb import ModelProto

from compiler.errors import ModelError, UnsupportedOperator
from compiler.pipeline import load_graph, lower
from tests.compiler.frontend.models import model as network
from tests.compiler.workload.test_random_networks import run_compiled
from tests.onnx_runtime import expected_outputs

MODES = ("TF", "IDF", "TFIDF")


def vectoriser(tokens: np.ndarray, **attributes: Any) -> ModelProto:
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **attributes)
    return network(
        [node], {"x": tokens.shape}, {}, kinds={"x": helper.np_dtype_to_tensor_dtype(tokens.dtype)}
    )


def drawn(rng: np.random.Generator, mode: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Tokens, and a pool of n-grams of them; places that no n-gram has stay 0."""
    known, pool, starts, count = int(rng.integers(2, 6)), list[int](), list[int](), 0
    for length in (1, 2, 3):
        starts.append(len(pool))
        grams = {tuple(map(int, rng.integers(0, known, length))) for _ in range(int(rng.integers(1, 6)))}
        pool += [token for gram in grams for token in gram]
        count += len(grams)
    shortest = int(rng.integers(1, 4))
    attributes: dict[str, Any] = {
        "mode": mode,
        "min_gram_length": shortest,
        "max_gram_length": int(rng.integers(shortest, 4)),
        "max_skip_count": int(rng.integers(0, 4)),
        "ngram_counts": starts,
        "ngram_indexes": rng.permutation(count).tolist(),
        "pool_int64s": pool,
    }
    if rng.random() < 0.5:
        attributes["weights"] = rng.random(count).astype(np.float32).tolist()
    shape = (int(rng.integers(1, 4)), int(rng.integers(1, 12)))
    kind = (np.int32, np.int64)[int(rng.integers(2))]
    return rng.integers(0, known, shape[int(rng.integers(2)) :]).astype(kind), attributes


@pytest.mark.parametrize("mode", MODES)
def test_drawn_pools(mode: str) -> None:
    rng = np.random.default_rng(MODES.index(mode))
    for _ in range(8):
        tokens, attributes = drawn(rng, mode)
        model = vectoriser(tokens, **attributes)
        got = run_compiled(lower(load_graph(model)), {"x": tokens})["y"]
        np.testing.assert_allclose(got, expected_outputs(model, {"x": tokens})["y"], rtol=1e-6)


def test_places_without_an_ngram_are_0() -> None:
    tokens = np.array([3, 5, 3], np.int64)
    model = vectoriser(
        tokens,
        mode="TF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=[4, 1],
        pool_int64s=[3, 5],
    )
    assert run_compiled(lower(load_graph(model)), {"x": tokens})["y"].tolist() == [0, 1, 0, 0, 2]


def test_what_is_refused() -> None:
    tokens = np.array([3, 5, 3], np.int64)
    good: dict[str, Any] = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 1,
        "max_skip_count": 0,
        "ngram_counts": [0],
        "ngram_indexes": [1, 0],
        "pool_int64s": [3, 5],
    }
    load_graph(vectoriser(tokens, **good))
    for changes, problem in (
        ({"mode": "BM25"}, "has mode 'BM25'"),
        ({"ngram_indexes": [0]}, "2 n-grams for 1 places"),
        ({"ngram_counts": [0, 1]}, None),
        ({"ngram_counts": [0, 3]}, "of a pool of 2 tokens"),
        ({"min_gram_length": 2}, "of 2 to 1 tokens"),
        ({"mode": "IDF", "weights": [1.0]}, "1 weights for 2 n-grams"),
    ):
        with pytest.raises(ModelError, match=problem or "n-grams"):
            load_graph(vectoriser(tokens, **{**good, **changes}))
    with pytest.raises(UnsupportedOperator, match="counted together"):
        load_graph(vectoriser(tokens, **{**good, "ngram_indexes": [0, 0]}))
    words = {**good, "pool_strings": ["a", "b"]}
    del words["pool_int64s"]
    with pytest.raises(UnsupportedOperator, match="no whole numbers"):
        load_graph(vectoriser(tokens, **words))
