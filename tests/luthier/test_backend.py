"""The ONNX Backend interface; the official cases are in test_conformance."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import luthier
from compiler.errors import InputError, UnsupportedModel
from luthier.backend import prepare, supports_device


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


def test_inverses_of_whole_spectra_are_for_compile() -> None:
    """Where the result is 0, the stored ones have what one FFT in single precision makes of it."""
    node = helper.make_node("DFT", ["x"], ["y"], inverse=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with pytest.raises(UnsupportedModel, match=r"inverses of whole spectra.*luthier\.compile"):
        prepare(model)
    x = np.random.default_rng(0).standard_normal((1, 6, 2)).astype(np.float32)
    signal = np.fft.ifft(x[..., 0] + 1j * x[..., 1])
    got = luthier.compile(model).run({"x": x})["y"]
    np.testing.assert_allclose(got, np.stack([signal.real, signal.imag], -1), atol=1e-6)
