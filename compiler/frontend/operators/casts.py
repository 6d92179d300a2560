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
from compiler.scalar_ops import WHOLE_BITS, bits_of, of_bits


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


def _bit_cast(call: OperatorCall) -> None:
    """The same bits, as a type of the same size."""
    value = call.value(0)
    source, dtype = call.dtype(value), call.element_type("to", DType.F32)
    width = {kind: 8 if kind is DType.BOOL else kind.bits for kind in (source, dtype)}
    if width[source] != width[dtype]:
        call.reject(f"takes the bits of {source.value} as {dtype.value}, which has another size")
    if source is dtype:
        return call.emit_same(value)
    if dtype is DType.BOOL:
        call.unsupported("to truth values, of which not all bits are one")
    axes = output_axes(call.shape(0))
    element: Expr = Load(value, at(axes))
    if source.is_float:
        element = apply(bits_of(source), element)
    if dtype.is_float:
        whole = WHOLE_BITS[width[dtype]]
        element = apply(
            of_bits(dtype), element if source.is_float or source is whole else Cast(element, whole)
        )
    elif not source.is_float or dtype is not WHOLE_BITS[width[dtype]]:
        element = Cast(element, dtype)
    return call.emit(Compute(axes, (), None, element, dtype))


LOWERINGS: Mapping[str, Lowering] = {"BitCast": _bit_cast, "Cast": _cast, "CastLike": _cast_like}
