"""Operators of com.microsoft against ONNX Runtime, which has kernels of its own for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from compiler.errors import UnsupportedOperator
from compiler.frontend.contrib import DOMAIN
from compiler.graph.evaluate import evaluate_graph
from compiler.pipeline import load_graph

Array = np.ndarray[Any, Any]
F32, U8, I8, I32, I64 = np.float32, np.uint8, np.int8, np.int32, np.int64


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def wholes(low: int, high: int, *shape: int, dtype: Any = U8, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def scale(value: float) -> Array:
    return np.array(value, F32)


def zero(value: int, dtype: Any = U8) -> Array:
    return np.array(value, dtype)


@dataclass(frozen=True)
class Case:
    """A call. Inputs that are not given are None; `fixed`: places of those that are constants of the model.

    `domain`: that the operator is looked for in.
    """

    operator: str
    inputs: Sequence[Array | None]
    fixed: tuple[int, ...] = ()
    outputs: int = 1
    attributes: tuple[tuple[str, Any], ...] = ()
    domain: str = DOMAIN

    def model(self) -> onnx.ModelProto:
        names = ["" if array is None else f"x{n}" for n, array in enumerate(self.inputs)]
        given = {n: a for n, a in enumerate(self.inputs) if a is not None}
        outputs = [f"y{n}" for n in range(self.outputs)]
        node = helper.make_node(
            self.operator, names, outputs, name="node", domain=self.domain, **dict(self.attributes)
        )
        kind = helper.np_dtype_to_tensor_dtype
        graph = helper.make_graph(
            [node],
            "case",
            [
                helper.make_tensor_value_info(names[n], kind(a.dtype), a.shape)
                for n, a in given.items()
                if n not in self.fixed
            ],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(given[n], names[n]) for n in self.fixed],
        )
        opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(DOMAIN, 1)] if self.domain else [])]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def feeds(self) -> dict[str, Array]:
        return {f"x{n}": a for n, a in enumerate(self.inputs) if a is not None and n not in self.fixed}


A, B = wholes(0, 255, 2, 3, 8, 8), wholes(0, 255, 2, 3, 8, 8, seed=1)
PAIR = (A, scale(0.05), zero(120), B, scale(0.03), zero(7), scale(0.08), zero(110))
LAST = wholes(0, 255, 2, 8, 8, 3)
HIDDEN, WIDE = floats(2, 5, 16), floats(2, 5, 16, seed=1)
WINDOW = (("kernel_shape", [3, 3]), ("strides", [2, 2]), ("pads", [1, 1, 1, 1]))
CONVOLVED = (floats(1, 3, 9, 9), floats(4, 3, 3, 3, seed=1), floats(4, seed=2))
SEEN = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], I32)
PROJECTED = (HIDDEN, floats(16, 48, seed=3) * F32(0.3), floats(48, seed=4))

THREE = (HIDDEN, floats(2, 7, 16, seed=1), floats(2, 7, 16, seed=2))
PLACES = np.array([[0, 1, 2, 3, 4], [7, 2, 9, 4, 1]])
TABLES = (np.cos(floats(10, 4, seed=1)), np.sin(floats(10, 4, seed=1)))


def in_blocks(
    length: int,
    columns: int,
    block: int,
    bits: int = 4,
    zeros: Array | None = None,
    bias: Array | None = None,
) -> Case:
    """A product with a constant of few bits, quantised in blocks of its sum."""
    blocks = -(-length // block)
    packed = wholes(0, 256, columns, blocks, block * bits // 8, seed=3)
    scales = floats(columns, blocks, seed=4) ** 2 * F32(0.1)
    given: list[Array | None] = [floats(2, 3, length), packed, scales, zeros, None, bias]
    while given[-1] is None:
        given.pop()
    sizes = (("K", length), ("N", columns), ("bits", bits), ("block_size", block))
    return Case(
        "MatMulNBits", given, tuple(n for n, a in enumerate(given) if n and a is not None), attributes=sizes
    )


QUANTISED = {
    "add": Case("QLinearAdd", PAIR, (1, 2, 4, 5, 6, 7)),
    "add spread": Case("QLinearAdd", (*PAIR[:3], B[:, :, :1, :1], *PAIR[4:]), (1, 2, 4, 5, 6, 7)),
    "mul": Case("QLinearMul", (*PAIR[:6], scale(0.2), zero(90)), (1, 2, 4, 5, 6, 7)),
    "sigmoid": Case("QLinearSigmoid", (A, scale(0.05), zero(120), scale(1 / 256), zero(0)), (1, 2, 3, 4)),
    "leaky": Case(
        "QLinearLeakyRelu", (A, scale(0.05), zero(120), scale(0.04), zero(60)), (1, 2, 3, 4),
        attributes=(("alpha", 0.2),),
    ),
    "average": Case(
        "QLinearAveragePool", (A, scale(0.05), zero(120), scale(0.04), zero(110)), (1, 2, 3, 4), attributes=WINDOW
    ),
    "mean": Case("QLinearGlobalAveragePool", (A, scale(0.05), zero(120), scale(0.02), zero(110)), (1, 2, 3, 4)),
    "mean of channels behind": Case(
        "QLinearGlobalAveragePool", (LAST, scale(0.05), zero(120), scale(0.02), zero(110)), (1, 2, 3, 4),
        attributes=(("channels_last", 1),),
    ),
    "concat": Case(
        "QLinearConcat", (scale(0.06), zero(100), A, scale(0.05), zero(120), B, scale(0.03), zero(7)),
        (0, 1, 3, 4, 6, 7), attributes=(("axis", 1),),
    ),
    "softmax": Case(
        "QLinearSoftmax", (A, scale(0.05), zero(120), scale(1 / 256), zero(0)), (1, 2, 3, 4),
        attributes=(("axis", -1), ("opset", 13)),
    ),
    "gemm": Case(
        "QGemm",
        (
            wholes(0, 255, 4, 16), scale(0.05), zero(100),
            wholes(-60, 60, 6, 16, dtype=I8), floats(6, seed=5) ** 2 + F32(0.01), np.zeros(6, I8),
            wholes(-999, 999, 6, dtype=I32), scale(0.4), zero(128),
        ),
        (1, 2, 3, 4, 5, 6, 7, 8),
        attributes=(("transB", 1),),
    ),
}  # fmt: skip

FLOATS = {
    "dynamic product": Case(
        "DynamicQuantizeMatMul",
        (floats(5, 16), wholes(-60, 60, 16, 8, dtype=I8), scale(0.02), zero(3, I8), floats(8)), (1, 2, 3, 4),
    ),
    "product": Case(
        "MatMulIntegerToFloat",
        (
            wholes(0, 255, 5, 16), wholes(-60, 60, 16, 8, dtype=I8), scale(0.05), floats(8) ** 2, zero(99),
            np.zeros(8, I8), floats(8, seed=1),
        ),
        (1, 2, 3, 4, 5, 6),
    ),
    "gelu": Case("Gelu", (HIDDEN,)),
    "biased gelu": Case("BiasGelu", (HIDDEN, floats(16, seed=2))),
    "fast gelu": Case("FastGelu", (HIDDEN,)),
    "fast biased gelu": Case("FastGelu", (HIDDEN, floats(16, seed=2))),
    "quick gelu": Case("QuickGelu", (HIDDEN,), attributes=(("alpha", 1.5),)),
    "skip": Case("SkipLayerNormalization", (HIDDEN, WIDE, floats(16), floats(16, seed=3)), (2, 3)),
    "skip with bias": Case(
        "SkipLayerNormalization", (HIDDEN, WIDE, floats(16), None, floats(16, seed=3)), (2, 4),
        attributes=(("epsilon", 0.1),),
    ),
    "simplified skip": Case("SkipSimplifiedLayerNormalization", (HIDDEN, WIDE, floats(16)), (2,)),
    "product of turned": Case(
        "FusedMatMul", (floats(2, 4, 3), floats(2, 5, 4, seed=1)),
        attributes=(("transA", 1), ("transB", 1), ("alpha", 0.25)),
    ),
    "conv and relu": Case("FusedConv", CONVOLVED, (1, 2), attributes=(("activation", "Relu"),)),
    "conv and clip": Case(
        "FusedConv", CONVOLVED, (1, 2),
        attributes=(("activation", "Clip"), ("activation_params", [0.0, 0.5]), ("pads", [1, 1, 1, 1])),
    ),
    "conv and sum": Case(
        "FusedConv", (*CONVOLVED, floats(1, 4, 7, 7, seed=3)), (1, 2), attributes=(("activation", "Relu"),)
    ),
    "attention": Case("Attention", PROJECTED, (1, 2), attributes=(("num_heads", 4),)),
    "masked attention": Case("Attention", (*PROJECTED, SEEN), (1, 2), attributes=(("num_heads", 2),)),
    "attention of each to its own": Case(
        "Attention", (*PROJECTED, np.tril(np.ones((2, 5, 5), I32))), (1, 2), attributes=(("num_heads", 2),)
    ),
    "attention to the first": Case(
        "Attention", (*PROJECTED, np.array([3, 5], I32)), (1, 2), attributes=(("num_heads", 4),)
    ),
    "causal attention": Case(
        "Attention", PROJECTED, (1, 2), attributes=(("num_heads", 4), ("unidirectional", 1))
    ),
    "gemm and relu": Case(
        "FusedGemm", (floats(4, 6), floats(5, 6, seed=1), floats(5, seed=2)), (1, 2),
        attributes=(("activation", "Relu"), ("transB", 1), ("alpha", 0.5)),
    ),
    "gemm and a leaky relu": Case(
        "FusedGemm", (floats(4, 6), floats(6, 5, seed=1)), (1,),
        attributes=(("activation", "LeakyRelu"), ("activation_alpha", 0.2)),
    ),
    "simplified": Case("SimplifiedLayerNormalization", (HIDDEN, floats(16)), (1,), domain=""),
    "simplified, last axis": Case(
        "SimplifiedLayerNormalization", (HIDDEN, floats(16)), (1,), attributes=(("axis", 2), ("epsilon", 0.1)),
        domain="",
    ),
    "bits": in_blocks(32, 6, 16),
    "bits around another zero": in_blocks(32, 6, 16, zeros=wholes(0, 256, 6, 1)),
    "bits, an odd number of blocks": in_blocks(48, 5, 16, zeros=wholes(0, 256, 5, 2)),
    "bits, a block that is not full": in_blocks(40, 5, 32, zeros=wholes(0, 256, 5, 1)),
    "bits around floats": in_blocks(64, 4, 16, zeros=floats(4, 4, seed=8)),
    "bits of eight": in_blocks(32, 6, 16, bits=8, zeros=wholes(0, 256, 6, 2)),
    "bits and a bias": in_blocks(32, 6, 16, bias=floats(6, seed=9)),
    "heads": Case("MultiHeadAttention", THREE, attributes=(("num_heads", 4),)),
    "heads with a bias": Case("MultiHeadAttention", (*THREE, floats(48, seed=5)), (3,), attributes=(("num_heads", 2),)),
    "heads, masked": Case(
        "MultiHeadAttention", (*THREE, None, wholes(0, 2, 2, 7, dtype=I32), floats(1, 2, 5, 7, seed=6)), (5,),
        attributes=(("num_heads", 2), ("scale", 0.3)),
    ),
    "heads, the first keys": Case(
        "MultiHeadAttention", (*THREE, None, np.array([3, 7], I32)), attributes=(("num_heads", 2),)
    ),
    "heads, causal": Case(
        "MultiHeadAttention", (HIDDEN, WIDE, WIDE), attributes=(("num_heads", 2), ("unidirectional", 1))
    ),
    "heads that are apart": Case(
        "MultiHeadAttention", (HIDDEN, floats(2, 4, 7, 4, seed=1), floats(2, 4, 7, 4, seed=2)),
        attributes=(("num_heads", 4),),
    ),
    "heads of earlier steps": Case(
        "MultiHeadAttention",
        (HIDDEN, WIDE, WIDE, None, None, None, floats(2, 4, 3, 4, seed=1), floats(2, 4, 3, 4, seed=2)),
        outputs=3, attributes=(("num_heads", 4),),
    ),
    "turned": Case("RotaryEmbedding", (floats(2, 5, 16), PLACES, *TABLES), attributes=(("num_heads", 2),)),
    "turned, from a place on": Case("RotaryEmbedding", (floats(2, 5, 16), np.array([3]), *TABLES)),
    "turned, heads apart": Case("RotaryEmbedding", (floats(2, 2, 5, 8), PLACES, *TABLES)),
    "turned by neighbours": Case(
        "RotaryEmbedding", (floats(2, 5, 16), PLACES, *TABLES), attributes=(("interleaved", 1),)
    ),
    "turned in part": Case(
        "RotaryEmbedding", (floats(2, 5, 24), PLACES, *TABLES),
        attributes=(("num_heads", 2), ("rotary_embedding_dim", 8)),
    ),
    "embedding without a mask": Case(
        "EmbedLayerNormalization",
        (
            wholes(0, 30, 2, 5, dtype=I32), None, floats(30, 16), floats(9, 16, seed=1), None, floats(16, seed=3),
            floats(16, seed=4),
        ),
        (2, 3, 5, 6),
        outputs=2,
    ),
    "embedding": Case(
        "EmbedLayerNormalization",
        (
            wholes(0, 30, 2, 5, dtype=I32), wholes(0, 2, 2, 5, dtype=I32), floats(30, 16), floats(9, 16, seed=1),
            floats(2, 16, seed=2), floats(16, seed=3), floats(16, seed=4), SEEN,
        ),
        (2, 3, 4, 5, 6),
        outputs=2,
    ),
}  # fmt: skip


def both(case: Case) -> list[tuple[Array, Array]]:
    """What we compute in float64, and ONNX Runtime."""
    model = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    got = evaluate_graph(load_graph(model), case.feeds())
    return list(zip(got.values(), session.run(list(got), case.feeds()), strict=True))


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_operators(name: str) -> None:
    """Of numbers that lie between two bytes, either one is taken."""
    for got, wanted in both(QUANTISED[name]):
        assert got.shape == wanted.shape
        difference = np.abs(got.astype(int) - wanted.astype(int))
        assert difference.max() <= 1
        assert difference.mean() < 0.1


@pytest.mark.parametrize("name", FLOATS)
def test_fused_operators(name: str) -> None:
    for got, wanted in both(FLOATS[name]):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5)


def test_the_sum_before_a_normalisation_is_an_output_too() -> None:
    case = Case("SkipLayerNormalization", (HIDDEN, WIDE, floats(16)), (2,))
    model = case.model()
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in ("y0", "total"))
    model.graph.node[0].output[:] = ["y0", "", "", "total"]
    got = evaluate_graph(load_graph(model), case.feeds())
    np.testing.assert_allclose(got["total"], HIDDEN + WIDE, rtol=1e-6)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case("Attention", (*PROJECTED, None, floats(2, 2, 4, 3, 4)), (1, 2),
                          attributes=(("num_heads", 4),)), id="earlier steps"),
        pytest.param(Case("Attention", (*PROJECTED, np.array([3, 5, 0, 1], I32)), (1, 2),
                          attributes=(("num_heads", 4),)), id="places between two"),
        pytest.param(Case("SkipLayerNormalization", (HIDDEN, WIDE, floats(16)), (2,), outputs=2), id="the mean"),
        pytest.param(Case("MultiHeadAttention", (floats(2, 5, 4, 3, 4),), attributes=(("num_heads", 4),)), id="packed"),
        pytest.param(Case("MultiHeadAttention", (HIDDEN, floats(2, 5, 4, 2, 4), HIDDEN),
                          attributes=(("num_heads", 4),)), id="packed keys"),
        pytest.param(Case("RotaryEmbedding", (HIDDEN, PLACES, *TABLES), attributes=(("scale", 2.0),)), id="scaled"),
        pytest.param(in_blocks(32, 6, 16, bits=2), id="bits of two"),
        pytest.param(Case("NhwcMaxPool", (A,), attributes=(("kernel_shape", [2, 2]),)), id="another operator"),
    ],
)  # fmt: skip
def test_what_is_not_defined_is_refused_by_name(case: Case) -> None:
    with pytest.raises(UnsupportedOperator, match=case.operator):
        load_graph(case.model())
