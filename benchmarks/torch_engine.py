"""Torch as an engine: the operators of our shapes, called one after the other without gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.errors import InputError

Arrays = Mapping[str, np.ndarray]


class TorchEngine:
    """Eager torch on the CPU in float32."""

    name = "torch"

    def __init__(self, model: Path, inputs: Arrays, threads: int) -> None:
        """Translate the model; raises InputError where torch is missing or an operator has no translation."""
        try:
            import torch
        except ImportError as error:
            msg = "torch is not installed; install it with: pip install torch"
            raise InputError(msg) from error
        torch.set_num_threads(threads)
        self.version = str(torch.__version__)
        self._torch = torch
        graph = onnx.load(model).graph
        operators = _operators(torch)
        missing = sorted({node.op_type for node in graph.node} - set(operators))
        if missing:
            msg = f"torch refuses the model (no translation of {', '.join(missing)})"
            raise InputError(msg)
        self._calls = [
            (operators[n.op_type], tuple(n.input), _attributes(n), n.output[0]) for n in graph.node
        ]
        constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self._values = {k: torch.from_numpy(v.copy()) for k, v in {**constants, **inputs}.items()}
        self._outputs = [output.name for output in graph.output]

    def run(self) -> Arrays:
        """The outputs by name."""
        values = dict(self._values)
        with self._torch.inference_mode():
            for function, names, attributes, output in self._calls:
                values[output] = function(*(values[n] for n in names), **attributes)
        return {name: values[name].numpy() for name in self._outputs}


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _operators(torch: Any) -> Mapping[str, Callable[..., Any]]:
    f = torch.nn.functional

    def convolution(x: Any, w: Any, b: Any, pads: Any = (), group: int = 1, **rest: Any) -> Any:
        function = (f.conv1d, f.conv2d, f.conv3d)[x.dim() - 3]
        half = tuple(pads[: x.dim() - 2]) or 0
        return function(x, w, b, tuple(rest["strides"]), half, tuple(rest["dilations"]), group)

    def transposed(x: Any, w: Any, b: Any, **rest: Any) -> Any:
        return f.conv_transpose2d(x, w, b, tuple(rest["strides"]))

    def max_pool(x: Any, kernel_shape: Any, strides: Any, pads: Any) -> Any:
        return f.max_pool2d(x, tuple(kernel_shape), tuple(strides), tuple(pads[:2]))

    def average_pool(x: Any, kernel_shape: Any, strides: Any, pads: Any) -> Any:
        window = (tuple(kernel_shape), tuple(strides), tuple(pads[:2]))
        return f.avg_pool2d(x, *window, count_include_pad=False)

    return {
        "Gemm": lambda x, w, b: torch.addmm(b, x, w),
        "MatMul": torch.matmul,
        "Conv": convolution,
        "ConvTranspose": transposed,
        "MaxPool": max_pool,
        "AveragePool": average_pool,
        "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
        "LRN": lambda x, size: f.local_response_norm(x, size),
        "Relu": torch.relu,
        "Sigmoid": torch.sigmoid,
        "Add": torch.add,
        "Mul": torch.mul,
        "Gelu": f.gelu,
        "Softmax": lambda x: torch.softmax(x, -1),
        "LayerNormalization": lambda x, w, b: f.layer_norm(x, w.shape, w, b),
        "InstanceNormalization": lambda x, w, b: f.instance_norm(x, weight=w, bias=b),
        "GroupNormalization": lambda x, w, b, num_groups: f.group_norm(x, num_groups, w, b),
        "Transpose": lambda x, perm: x.permute(*perm).contiguous(),
        "Gather": lambda x, i: x[i],
        "ReduceSum": lambda x, axes, keepdims: x.sum(tuple(axes.tolist())),
    }
