"""Conversions between element types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from compiler.dtype import TINY_FLOATS, DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Const, Expr, Load, apply


def _cast(call: OperatorCall) -> None:
    to = call.integer("to", TensorProto.UNDEFINED)
    if to == TensorProto.STRING:
        call.unsupported("to strings")
    _emit_cast(call, np.dtype(helper.tensor_dtype_to_np_dtype(to)))


def _cast_like(call: OperatorCall) -> None:
    _emit_cast(call, call.builder.dtype(call.value(1)))


def _emit_cast(call: OperatorCall, kind: np.dtype[np.generic]) -> None:
    value = call.value(0)
    before = call.builder.dtype(value)
    if before == kind:
        return call.emit_same(value)
    try:
        dtype, source = DType.from_numpy(kind), DType.from_numpy(before)
    except KeyError:
        call.unsupported(f"from {before} to {kind}")
    axes = output_axes(call.shape(0))
    element: Expr = Load(value, at(axes))
    if dtype in TINY_FLOATS and source.is_float and call.integer("saturate", 1):
        element = within_range(element, source, dtype)
    return call.emit(Compute(axes, (), None, Cast(element, dtype), dtype))


def within_range(element: Expr, source: DType, dtype: DType) -> Expr:
    """What is beyond the largest number of a tiny float, infinity as well, becomes that number."""
    wide = Cast(element, source.computed) if source.is_stored_only else element
    bits = np.asarray(TINY_FLOATS[dtype].largest, np.uint8)
    largest = float(bits.view(dtype.numpy))
    low, high = (Const(sign * largest, source.computed) for sign in (-1, 1))
    return apply("min", apply("max", wide, low), high)


LOWERINGS: Mapping[str, Lowering] = {"Cast": _cast, "CastLike": _cast_like}
