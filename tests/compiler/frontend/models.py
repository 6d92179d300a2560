"""Small ONNX models for tests."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20


def value(
    name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None] | None] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = OPSET,
    kinds: Mapping[str, int] | None = None,
    **fields: Any,
) -> onnx.ModelProto:
    """An unchecked model; outputs have no declared shape. `kinds`: element types of inputs and outputs, else float."""
    known = kinds or {}
    graph = helper.make_graph(
        list(nodes),
        "test",
        [
            value(n, s, known.get(n, TensorProto.FLOAT))
            for n, s in (inputs if inputs is not None else {"x": [2, 3]}).items()
        ],
        [value(n, None, known.get(n, TensorProto.FLOAT)) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **fields)


def relu(source: str = "x", target: str = "y") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target])
