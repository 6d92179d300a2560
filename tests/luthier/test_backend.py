"""The ONNX Backend interface; the official cases are in test_conformance."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.errors import InputError
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
