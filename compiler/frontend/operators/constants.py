"""Constants, and operators whose result is known before the first run or is their input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import AttributeProto

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, size_of
from compiler.frontend.computes import at, output_axes
from compiler.frontend.limits import checked_shape
from compiler.graph.ir import Compute
from compiler.scalar import Const, Load

_STORED_ELEMENTS = 1 << 16
_OPEN_RANGE = 1 << 16
"""Elements of a Range of open length, which is the beginning of one as long as this."""


def _constant(call: OperatorCall) -> None:
    value = call.tensor("value")
    if value is not None:
        return call.emit_constant(value)
    for name, kind, dtype in (
        ("value_float", AttributeProto.FLOAT, np.float32),
        ("value_int", AttributeProto.INT, np.int64),
    ):
        scalar = call.attribute(name, kind)
        if scalar is not None:
            number = scalar.f if kind == AttributeProto.FLOAT else scalar.i
            return call.emit_constant(np.asarray(number, dtype))
    floats, ints = call.floats("value_floats"), call.ints("value_ints")
    if floats is not None:
        return call.emit_constant(np.asarray(floats, np.float32))
    if ints is not None:
        return call.emit_constant(np.asarray(ints, np.int64))
    call.unsupported("only dense tensors of numbers")


def _constant_of_shape(call: OperatorCall) -> None:
    shape = checked_shape(call.constant_ints(0), f"the output of node {call.label!r}")
    value = call.tensor("value")
    fill = np.zeros(1, np.float32) if value is None else value
    if fill.size != 1:
        call.reject(f"has a value of shape {list(fill.shape)} instead of one element")
    if not call.is_open() and size_of(shape) <= _STORED_ELEMENTS:
        return call.emit_constant(np.full(shape, fill.reshape(-1)[0], fill.dtype))
    known = Const(fill.reshape(-1)[0].item(), DType.from_numpy(fill.dtype))
    return call.emit(Compute(output_axes(shape), (), None, known, known.dtype))


def _shape(call: OperatorCall) -> None:
    shape = call.shape(0)
    last = call.integer("end", len(shape))
    call.emit_constant(np.asarray(shape[slice(call.integer("start"), last)], np.int64))


def _size(call: OperatorCall) -> None:
    call.emit_constant(np.asarray(size_of(call.shape(0)), np.int64))


def _range(call: OperatorCall) -> None:
    """Emit start + i * delta below (or, where delta is negative, above) the limit."""
    start, limit, delta = (call.constant(position) for position in range(3))
    if {a.size for a in (start, limit, delta)} != {1} or not delta.all():
        call.reject("has limits that are not one number each, or steps of 0")
    whole = start.dtype.kind in "iu"
    first, last, step = (
        int(a.reshape(-1)[0]) if whole else float(a.reshape(-1)[0]) for a in (start, limit, delta)
    )
    count = max(-((first - last) // step), 0)
    checked_shape((int(count),), f"the output of node {call.label!r}")
    if call.is_open() and count <= _OPEN_RANGE:
        table = call.intermediate_constant((first + np.arange(_OPEN_RANGE) * step).astype(start.dtype), "all")
        axes = output_axes((int(count),))
        return call.emit(Compute(axes, (), None, Load(table, at(axes)), DType.from_numpy(start.dtype)))
    return call.emit_constant((first + np.arange(int(count)) * step).astype(start.dtype))


def _identity(call: OperatorCall) -> None:
    call.emit_alias(0)


def _dropout(call: OperatorCall) -> None:
    """Outputs: the input, and a mask that says of each element that it is kept."""
    if call.opset >= 12 and call.has(2) and call.constant(2).any():
        ratio = call.constant_float(1) if call.has(1) else 0.5
        if ratio != 0:
            call.unsupported("training mode, whose result is random")
    if len(call.proto.output) > 1:
        kind = DType.BOOL if call.opset >= 10 else call.dtype(call.value(0))
        kept = Const(1.0 if kind.is_float else 1, kind)
        call.emit(Compute(output_axes(call.shape(0)), (), None, kept, kind), 1)
    call.emit_same(call.value(0))


LOWERINGS: Mapping[str, Lowering] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "Identity": _identity,
    "Dropout": _dropout,
}
