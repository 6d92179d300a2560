"""Quantisation: floats to small whole numbers and back, by a scale and a zero point.

    QuantizeLinear         y = saturate(round(x / scale) + zero)       ties to even; x, scale: floats
    DequantizeLinear       y = (x - zero) * scale
    DynamicQuantizeLinear  the same with scale and zero from the smallest and largest x

Scales and zero points are one number, or one per element of an axis or per block of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.dtype import TINY_FLOATS, DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.operators.casts import within_range
from compiler.graph.ir import Compute
from compiler.index import ZERO
from compiler.scalar import Cast, Const, Expr, Load, apply
from compiler.symbol import Axis

QUANTISED = (DType.U8, DType.I8, DType.I16, DType.U16, DType.I4, DType.U4, DType.I2, DType.U2)
_LEVELS = 255.0


def quantised(value: Expr, scale: Expr, zero: Expr | None, dtype: DType) -> Expr:
    """saturate(round(value / scale) + zero); `zero` in `dtype`, value and scale in f32."""
    return saturated(apply("div", value, scale), zero, dtype)


def saturated(value: Expr, zero: Expr | None, dtype: DType) -> Expr:
    """saturate(round(value) + zero) of an f32 value; tiny floats round when they are stored."""
    if dtype in TINY_FLOATS:
        moved = value if zero is None else apply("add", value, Cast(zero, DType.F32))
        return Cast(within_range(moved, DType.F32, dtype), dtype)
    low, high = dtype.limits
    whole: Expr = apply("round", value)
    if zero is not None:
        whole = apply("add", whole, Cast(zero, DType.F32))
    clamped = apply("min", apply("max", whole, Const(float(low))), Const(float(high)))
    return Cast(clamped, dtype)


def parameter(call: OperatorCall, position: int, axes: tuple[Axis, ...], axis: int, block: int = 0) -> Load:
    """The scale or zero point of an element: a single one, that of its place along the axis, or that of its block."""
    shape = call.shape(position)
    if block:
        sizes = tuple(-(-a.size // block) if d == axis else a.size for d, a in enumerate(axes))
        if shape != sizes:
            call.reject(f"has input {position} of shape {list(shape)} instead of {list(sizes)}")
        places = (i // block if d == axis else i for d, i in enumerate(at(axes)))
        return Load(call.value(position), tuple(places))
    if all(n == 1 for n in shape):
        return Load(call.value(position), (ZERO,) * len(shape))
    if shape != (axes[axis].size,):
        call.unsupported(f"input {position} of shape {list(shape)}: one per tensor or per element of an axis")
    return Load(call.value(position), (at(axes)[axis],))


def scale_parameter(
    call: OperatorCall, position: int, axes: tuple[Axis, ...], axis: int, block: int = 0
) -> Expr:
    """The scale of an element in single precision."""
    return single(call, parameter(call, position, axes, axis, block))


def single(call: OperatorCall, value: Load) -> Expr:
    """A float of at most 32 bits in single precision."""
    dtype = call.dtype(value.buffer)
    if not dtype.is_float or dtype is DType.F64:
        call.unsupported(f"element type {dtype.value}")
    return value if dtype is DType.F32 else Cast(value, DType.F32)


def zero_parameter(
    call: OperatorCall, position: int, axes: tuple[Axis, ...], axis: int, block: int = 0
) -> Load | None:
    """The zero point, None where it is left out or constant 0."""
    if not call.has(position):
        return None
    known = call.builder.constants.get(call.value(position))
    if known is not None and not known.any():
        return None
    return parameter(call, position, axes, axis, block)


def _axis(call: OperatorCall, rank: int) -> tuple[int, int]:
    """The axis of the parameters, and how many elements along it share one; 0: one or all."""
    block = call.integer("block_size")
    if block < 0:
        call.reject(f"has blocks of {block}")
    return positive_axis(call, call.integer("axis", 1), rank) if rank > 1 else 0, block


def _quantise(call: OperatorCall) -> None:
    x, dtype = call.value(0), _target_type(call)
    axes = output_axes(call.shape(0))
    place = _axis(call, len(axes))
    element = Load(x, at(axes))
    value = Cast(element, DType.F32) if call.dtype(x) is DType.I32 else single(call, element)
    scale = scale_parameter(call, 1, axes, *place)
    body = quantised(value, scale, zero_parameter(call, 2, axes, *place), dtype)
    call.emit(Compute(axes, (), None, body, dtype), eager=False)


def _target_type(call: OperatorCall) -> DType:
    dtype = call.dtype(call.value(2)) if call.has(2) else call.element_type("output_dtype", DType.U8)
    # 16-bit numbers in blocks are refused although the arithmetic is the same: the official case gives its expected
    # result in a form that no answer equals, so nothing outside this project holds ours against the standard.
    if dtype not in (*QUANTISED, *TINY_FLOATS) or (call.integer("block_size") and dtype is DType.I16):
        call.unsupported(f"output type {dtype.value}")
    return dtype


def _dequantise(call: OperatorCall) -> None:
    """The result has the type of the scales unless the node says another."""
    x, dtype = call.value(0), call.dtype(call.value(0))
    if dtype not in (*QUANTISED, *TINY_FLOATS, DType.I32):
        call.unsupported(f"input type {call.builder.dtype(x)}")
    axes = output_axes(call.shape(0))
    place = _axis(call, len(axes))
    zero = zero_parameter(call, 2, axes, *place)
    exact = DType.F32 if dtype in TINY_FLOATS else DType.I32
    value: Expr = Cast(Load(x, at(axes)), exact)
    if zero is not None:
        value = apply("sub", value, Cast(zero, exact))
    value = value if exact is DType.F32 else Cast(value, DType.F32)
    body: Expr = apply("mul", value, scale_parameter(call, 1, axes, *place))
    wanted = call.element_type("output_dtype", call.dtype(call.value(1)))
    if wanted is not DType.F32:
        body = Cast(body, wanted)
    # Not computed at once: what was quantised is recognised by this form.
    call.emit(Compute(axes, (), None, body, wanted), eager=False)


def _dynamic(call: OperatorCall) -> None:
    """Outputs: y, scale, zero. A tensor of zeros has scale 1."""
    x = call.value(0)
    float_operands(call, x)
    low, high = (Load(_extreme(call, reducer), ()) for reducer in ("min", "max"))
    span = apply("sub", apply("max", high, Const(0.0)), apply("min", low, Const(0.0)))
    flat = apply("select", apply("less", Const(0.0), span), apply("div", span, Const(_LEVELS)), Const(1.0))
    scale = Load(call.intermediate(Compute((), (), None, flat), "scale"), ())
    least = apply("neg", apply("div", apply("min", low, Const(0.0)), scale))
    zero = Load(
        call.intermediate(Compute((), (), None, saturated(least, None, DType.U8), DType.U8), "zero"), ()
    )
    axes = output_axes(call.shape(0))
    body = quantised(Load(x, at(axes)), scale, zero, DType.U8)
    call.emit(Compute(axes, (), None, body, DType.U8))
    call.emit_same(scale.buffer, 1)
    call.emit_same(zero.buffer, 2)


def _extreme(call: OperatorCall, reducer: str) -> str:
    inner = ReduceAxes()
    indices = tuple(inner.index(n) for n in call.shape(0))
    return call.intermediate(reduced((), inner, reducer, Load(call.value(0), indices)), reducer)


LOWERINGS: Mapping[str, Lowering] = {
    "QuantizeLinear": _quantise,
    "DequantizeLinear": _dequantise,
    "DynamicQuantizeLinear": _dynamic,
}
