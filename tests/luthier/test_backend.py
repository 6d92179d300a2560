"""The ONNX Backend interface, on official cases of the operators that Luthier has."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.errors import InputError, LuthierError
from luthier.backend import prepare, supports_device

CASES = (
    "relu",
    "conv",
    "gemm",
    "matmul",
    "maxpool",
    "averagepool",
    "reduce_mean",
    "globalaverage",
    "clip",
    "add_",
    "transpose",
    "exp_",
    "log",
    "erf",
    "tanh",
    "sigmoid",
    "pow",
    "round",
    "elu",
    "selu",
    "celu",
    "softplus",
    "softsign",
    "softmax",
    "gelu",
    "mish",
    "swish",
    "shrink",
    "thresholdedrelu",
    "layer_normalization",
    "rms_normalization",
    "group_normalization",
    "instancenorm",
    "mvn",
    "lrn",
    "l1normalization",
    "l2normalization",
    "lppool",
    "convtranspose",
    "depthtospace",
    "spacetodepth",
    "reduce_l",
    "reduce_sum_square",
    "matmulinteger",
    "convinteger",
    "basic_convinteger",
    "qlinear",
    "quantizelinear",
    "dequantizelinear",
    "dynamicquantizelinear",
    "gather",
)


def official_cases() -> list[object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return [c for c in load_model_tests(kind="node") if c.name.removeprefix("test_").startswith(CASES)]


def same(got: Any, wanted: Any) -> bool:
    """Whether an output is as the case says; a TensorProto may stand for an array."""
    if isinstance(wanted, list):
        return len(got) == len(wanted) and all(map(same, got, wanted))
    if wanted is None or got is None:
        return wanted is got
    g, w = (numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v) for v in (got, wanted))
    if g.shape != w.shape or g.dtype != w.dtype:
        return False
    return np.allclose(g.astype(np.float64), w.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True)


def test_official_cases_pass_or_are_refused() -> None:
    passed, wrong = 0, []
    for case in official_cases():
        try:
            rep = prepare(case.model)  # type: ignore[attr-defined]
        except LuthierError:
            continue
        for inputs, outputs in case.data_sets:  # type: ignore[attr-defined]
            try:
                got = rep.run(list(inputs))
            except LuthierError:
                break
            if all(same(g, w) for g, w in zip(got, outputs, strict=True)):
                passed += 1
            else:
                wrong.append(case.name)  # type: ignore[attr-defined]
    assert not wrong
    assert passed >= 300


def test_wrong_use_is_refused() -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(InputError, match="2 were given"):
        prepare(model).run([np.zeros(3, np.float32)] * 2)
    with pytest.raises(InputError, match="CUDA"):
        prepare(model, device="CUDA")
    assert supports_device("CPU")
    assert not supports_device("CUDA")
