"""Floats of 8 bits and fewer from and to single precision, scalar or by whole vectors; what they are is data.

Rounded half to even. What is beyond the largest number becomes an infinity or NaN, as the type has it.
"""

from __future__ import annotations

import math

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import Value, literal, llvm_type
from compiler.dtype import TINY_FLOATS, DType

_MANTISSA, _BIAS = 23, 127


class _Bits:
    """Arithmetic on 32-bit whole numbers and floats of one vector length."""

    def __init__(self, out: Emitter, lanes: int) -> None:
        self._out, self._lanes = out, lanes
        self.whole, self.real = llvm_type(DType.I32, lanes), llvm_type(DType.F32, lanes)

    def number(self, n: int) -> str:
        return literal(n - (1 << 32) if n >> 31 else n, DType.I32, self._lanes)

    def do(self, instruction: str, x: str, y: int | str) -> str:
        other = self.number(y) if isinstance(y, int) else y
        return self._out.value(f"{instruction} {self.whole} {x}, {other}")

    def bits(self, x: str) -> str:
        return self._out.value(f"bitcast {self.real} {x} to {self.whole}")

    def from_bits(self, x: str) -> str:
        return self._out.value(f"bitcast {self.whole} {x} to {self.real}")

    def select(self, test: str, x: str, y: str) -> str:
        mask = f"<{self._lanes} x i1>" if self._lanes else "i1"
        return self._out.value(f"select {mask} {test}, {self.whole} {x}, {self.whole} {y}")


def to_tiny(out: Emitter, value: Value, dtype: DType) -> Value:
    """A float32 in a type of TINY_FLOATS."""
    form, lanes = TINY_FLOATS[dtype], value.lanes
    ops = _Bits(out, lanes)
    own = ops.bits(value.text)
    size = ops.do("and", own, (1 << 31) - 1)
    dropped = _MANTISSA - form.mantissa_bits
    odd = ops.do("and", ops.do("lshr", size, dropped), 1)
    rounded = ops.do("add", ops.do("add", size, (1 << (dropped - 1)) - 1), odd)
    normal = ops.do("sub", ops.do("lshr", rounded, dropped), (_BIAS - form.bias) << form.mantissa_bits)
    # Below the normal numbers: added to a float whose last place is the smallest step, it is rounded to whole steps.
    lowest = 1 - form.bias
    anchor = 2.0 ** (lowest - form.mantissa_bits + _MANTISSA)
    shifted = out.value(f"fadd {ops.real} {ops.from_bits(size)}, {literal(anchor, DType.F32, lanes)}")
    steps = ops.do("sub", ops.bits(shifted), (_BIAS + lowest - form.mantissa_bits + _MANTISSA) << _MANTISSA)
    tiny = ops.do("icmp slt", size, (_BIAS + lowest) << _MANTISSA)
    code = ops.select(tiny, steps, normal)
    code = ops.select(ops.do("icmp sgt", code, form.largest), ops.number(form.beyond), code)
    sign_bit = 1 << (dtype.bits - 1)
    sign = ops.do("and", ops.do("lshr", own, 32 - dtype.bits), sign_bit)
    signed = ops.do("or", code, sign)
    if not form.negative_zero:
        signed = ops.select(ops.do("icmp eq", code, 0), ops.number(0), signed)
    nan = ops.do("icmp sgt", size, 0xFF << _MANTISSA)
    chosen = ops.select(nan, ops.number(form.nan), signed)
    return Value(out.value(f"trunc {ops.whole} {chosen} to {llvm_type(dtype, lanes)}"), dtype, lanes)


def from_tiny(out: Emitter, value: Value) -> Value:
    """The float32 with the same value."""
    dtype, lanes = value.dtype, value.lanes
    form, ops = TINY_FLOATS[dtype], _Bits(out, lanes)
    code = out.value(f"zext {value.llvm_type} {value.text} to {ops.whole}")
    sign_bit = 1 << (dtype.bits - 1)
    size = ops.do("and", code, sign_bit - 1)
    moved = ops.do("shl", size, _MANTISSA - form.mantissa_bits)
    normal = ops.do("add", moved, (_BIAS - form.bias) << _MANTISSA)
    steps = out.value(f"sitofp {ops.whole} {size} to {ops.real}")
    step = literal(2.0 ** (1 - form.bias - form.mantissa_bits), DType.F32, lanes)
    below = ops.bits(out.value(f"fmul {ops.real} {steps}, {step}"))
    found = ops.select(ops.do("icmp slt", size, 1 << form.mantissa_bits), below, normal)
    nan = ops.bits(literal(math.nan, DType.F32, lanes))
    if form.first_special < sign_bit:
        found = ops.select(ops.do("icmp sge", size, form.first_special), nan, found)
    if form.infinity is not None:
        infinite = ops.number(0xFF << _MANTISSA)
        found = ops.select(ops.do("icmp eq", size, form.infinity), infinite, found)
    if not form.negative_zero:
        found = ops.select(ops.do("icmp eq", code, sign_bit), nan, found)
    sign = ops.do("shl", ops.do("and", code, sign_bit), 32 - dtype.bits)
    return Value(ops.from_bits(ops.do("or", found, sign)), DType.F32, lanes)
