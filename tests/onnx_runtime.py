"""What ONNX Runtime computes for a model, as the tests' second opinion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime


def expected_outputs(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Each output by its name, computed operator by operator on one thread.

    Optimised, it computes products with dequantised weights in bytes.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))
