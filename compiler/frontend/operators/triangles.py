"""Triangles and diagonals of matrices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Bound, Const, Guard, Load


def _trilu(call: OperatorCall) -> None:
    """Keep what is on or above the k-th diagonal, or on and below it; the rest is 0."""
    value, shape = call.value(0), call.shape(0)
    if len(shape) < 2:
        call.reject(f"has an input of shape {list(shape)} instead of matrices")
    dtype = call.dtype(value)
    k = int(call.constant(1).reshape(-1)[0]) if call.has(1) else 0
    axes = output_axes(shape)
    row, column = at(axes)[-2:]
    low, high = 1 - shape[-2], shape[-1]
    first, last = (k, high) if call.integer("upper", 1) else (low, k + 1)
    bound = Bound(column - row, min(max(first, low), high), min(max(last, low), high))
    zero = Const(0.0 if dtype.is_float else 0, dtype)
    call.emit(Compute(axes, (), None, Guard((bound,), Load(value, at(axes)), zero), dtype))


def _eye_like(call: OperatorCall) -> None:
    """Emit 1 on the k-th diagonal, 0 elsewhere."""
    shape = call.shape(0)
    if len(shape) != 2:
        call.reject(f"has an input of shape {list(shape)} instead of a matrix")
    given = call.integer("dtype", TensorProto.UNDEFINED)
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(given)) if given else call.builder.dtype(call.value(0))
    try:
        dtype = DType.from_numpy(kind)
    except KeyError:
        call.unsupported(f"element type {kind}")
    axes, k = output_axes(shape), call.integer("k")
    row, column = at(axes)
    one, zero = (Const(float(n) if dtype.is_float else n, dtype) for n in (1, 0))
    call.emit(Compute(axes, (), None, Guard((Bound(column - row, k, k + 1),), one, zero), dtype))


LOWERINGS: Mapping[str, Lowering] = {"Trilu": _trilu, "EyeLike": _eye_like}
