"""Workloads of small models, as the frontend and the partition make them: one per kind of anchor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from onnx import helper

from compiler.pipeline import load_graph, lower
from compiler.workload.ir import Workload
from tests.compiler.frontend.models import model

Dims = tuple[int, ...]
_RNG = np.random.default_rng(7)


def _weights(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


_MODELS: Mapping[str, tuple[str, tuple[Dims | np.ndarray, ...], dict[str, Any]]] = {
    "convolution_1d": ("Conv", ((1, 5, 23), _weights(19, 5, 3)), {"pads": [1, 1], "dilations": [2]}),
    "convolution_3d": ("Conv", ((1, 3, 5, 6, 7), _weights(10, 3, 3, 2, 3)), {"strides": [2, 1, 1]}),
    "convolution_padded": ("Conv", ((2, 6, 9, 7), _weights(21, 6, 3, 3)), {"pads": [1, 0, 2, 1]}),
    "transposed_convolution": ("ConvTranspose", ((1, 6, 5, 4), _weights(6, 11, 3, 3)), {"strides": [2, 2]}),
    "transposed_whole_strides": ("ConvTranspose", ((1, 6, 9, 4), _weights(6, 11, 2, 4)), {"strides": [2, 2]}),
    "grouped_wide": ("Conv", ((1, 24, 6, 5), _weights(40, 6, 3, 3)), {"group": 4, "pads": [1, 1, 1, 1]}),
    "batch_matmul": ("MatMul", ((3, 7, 13), (3, 13, 21)), {}),
    "batch_matmul_shared": ("MatMul", ((2, 3, 7, 9), (9, 18)), {}),
    "gemm_transposed": ("Gemm", ((13, 7), _weights(29, 13)), {"transA": 1, "transB": 1}),
    "sum_contiguous": ("ReduceSum", ((6, 5, 37), _ints(2)), {}),
    "sum_outer": ("ReduceSum", ((19, 5, 21), _ints(0)), {}),
    "sum_middle": ("ReduceMax", ((4, 17, 19), _ints(1)), {}),
    "sum_all": ("ReduceSum", ((6, 7, 11), _ints(0, 1, 2)), {}),
    "mean_square": ("ReduceSumSquare", ((9, 41), _ints(1)), {}),
    "pool_ceil": ("MaxPool", ((1, 18, 12, 11),), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "average_pool_ceil": (
        "AveragePool",
        ((1, 9, 10, 13),),
        {"kernel_shape": [3, 2], "strides": [3, 2], "ceil_mode": 1, "pads": [1, 0, 1, 1]},
    ),
    "pool_1d": ("MaxPool", ((2, 7, 29),), {"kernel_shape": [4], "strides": [3]}),
    "lrn": ("LRN", ((1, 21, 5, 4),), {"size": 5, "alpha": 0.3}),
    "softmax": ("Softmax", ((11, 19),), {}),
    "gather": ("Gather", ((17, 14), _ints(1, 4, 7, 10, 13, 16)), {}),
    "concat": ("Concat", ((5, 7, 11), (5, 2, 11), (5, 6, 11)), {"axis": 1}),
    "transpose_inner": ("Transpose", ((3, 10, 23),), {"perm": [0, 2, 1]}),
    "transpose_outer": ("Transpose", ((6, 5, 19),), {"perm": [1, 0, 2]}),
    "pad": ("Pad", ((5, 13, 9), _ints(1, 0, 2, 0, 3, 1)), {}),
    "slice": ("Slice", ((9, 31), _ints(1, 2), _ints(9, 30), _ints(0, 1), _ints(2, 3)), {}),
}

MODEL_KINDS = tuple(_MODELS)


@cache
def model_workload(kind: str) -> Workload:
    """The Workload that dominates the model: its last reduction, or the last map where it has none."""
    operator, operands, attributes = _MODELS[kind]
    names = [f"x{i}" for i in range(len(operands))]
    shapes = {n: list(o) for n, o in zip(names, operands, strict=True) if isinstance(o, tuple)}
    constants = {n: o for n, o in zip(names, operands, strict=True) if isinstance(o, np.ndarray)}
    node = helper.make_node(operator, names, ["y"], **attributes)
    program = lower(load_graph(model([node], shapes, constants)))
    workloads = [s.workload for s in program.subgraphs]
    return max(workloads, key=lambda w: (w.anchor.reducer is not None, w.operations))
