"""Conversions between element types, scalar or by whole vectors.

Numbers of 16 bits and fewer go through 32 bits, where every target has vector conversions: a float becomes an i32 that
is cut down, as NumPy does for values in range. A float outside the integer's range gives an undefined number.
"""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.pieces import by_pieces, piece
from compiler.codegen.tiny_floats import from_tiny, to_tiny
from compiler.codegen.types import Value, literal, llvm_type
from compiler.dtype import TINY_FLOATS, DType
from compiler.elementary import LARGEST_BF16
from compiler.target import Target

_SHORTENINGS = {
    8: ("@llvm.x86.avx512bf16.cvtneps2bf16.256", 1),
    16: ("@llvm.x86.avx512bf16.cvtneps2bf16.512", 1),
    32: ("@llvm.x86.avx512bf16.cvtne2ps2bf16.512", 2),
}
"""Instructions that round floats to bf16, by their lanes, and the vectors that each takes."""
_RANGES = {
    8: ("@llvm.x86.avx512.mask.range.ps.256", "i8"),
    16: ("@llvm.x86.avx512.mask.range.ps.512", "i16"),
}
"""Instructions that choose one of two floats, by their lanes, and the type of their masks."""


def convert(out: Emitter, value: Value, dtype: DType) -> Value:
    """The value in another type."""
    before = value.dtype
    if before is dtype:
        return value
    step = _between(before, dtype)
    if step is not None:
        return convert(out, convert(out, value, step), dtype)
    if dtype is DType.BOOL:
        return _truth(out, value)
    if dtype in TINY_FLOATS:
        return to_tiny(out, value, dtype)
    if before in TINY_FLOATS:
        return from_tiny(out, value)
    if dtype is DType.BF16:
        return _to_bf16(out, value)
    if before is DType.BF16:
        return _from_bf16(out, value)
    if dtype.bits < 8:
        return _cut(out, value, dtype)
    if before.bits < 8:
        return _widened(out, value, dtype)
    return _emit(out, value, dtype, _word(before, dtype))


def _between(before: DType, after: DType) -> DType | None:
    """The type that a conversion goes through, where it takes two."""
    if before.is_stored_only and after is not before.computed:
        return before.computed
    if after.is_stored_only and before is not after.computed:
        return after.computed
    if before.is_float and after.is_integer:
        # Through a signed type, a negative number wraps around as it does between whole numbers.
        if after.size_bytes < DType.I32.size_bytes:
            return DType.I32
        if after is DType.U32:
            return DType.I64
    return None


def _word(before: DType, after: DType) -> str:
    if before.is_float and after.is_float:
        return "fpext" if after.size_bytes > before.size_bytes else "fptrunc"
    if after.is_float:
        return "sitofp" if before.is_signed else "uitofp"
    if before.is_float:
        return "fptosi" if after.is_signed else "fptoui"
    if after.size_bytes > before.size_bytes:
        return "sext" if before.is_signed else "zext"
    return "trunc" if after.size_bytes < before.size_bytes else "bitcast"


def _cut(out: Emitter, value: Value, dtype: DType) -> Value:
    """The low bits of a byte."""
    mask = literal((1 << dtype.bits) - 1, DType.U8, value.lanes)
    return Value(out.value(f"and {value.llvm_type} {value.text}, {mask}"), dtype, value.lanes)


def _widened(out: Emitter, value: Value, dtype: DType) -> Value:
    """The low bits of a byte as a number; the others may be anything."""
    places = literal(8 - value.dtype.bits, DType.U8, value.lanes)
    high = out.value(f"shl {value.llvm_type} {value.text}, {places}")
    word = "ashr" if value.dtype.is_signed else "lshr"
    return Value(out.value(f"{word} {value.llvm_type} {high}, {places}"), dtype, value.lanes)


def _emit(out: Emitter, value: Value, dtype: DType, word: str) -> Value:
    text = f"{word} {value.llvm_type} {value.text} to {llvm_type(dtype, value.lanes)}"
    return Value(out.value(text), dtype, value.lanes)


def _truth(out: Emitter, value: Value) -> Value:
    """1 where the value is not 0 (NaN is not)."""
    compare = "fcmp une" if value.dtype.is_float else "icmp ne"
    zero = literal(0, value.dtype, value.lanes)
    test = out.value(f"{compare} {value.llvm_type} {value.text}, {zero}")
    bits = f"<{value.lanes} x i1>" if value.lanes else "i1"
    return Value(
        out.value(f"zext {bits} {test} to {llvm_type(DType.BOOL, value.lanes)}"), DType.BOOL, value.lanes
    )


def _to_bf16(out: Emitter, value: Value) -> Value:
    """The upper half of a float's bits, rounded half to even; LLVM would call a library for it on most targets."""
    lanes = value.lanes
    kind, half = llvm_type(DType.I32, lanes), llvm_type(DType.I16, lanes)
    if value.short:
        return Value(value.short, DType.BF16, lanes)

    def number(n: int) -> str:
        return literal(n, DType.I32, lanes)

    bits = out.value(f"bitcast {value.llvm_type} {value.text} to {kind}")
    upper = out.value(f"lshr {kind} {bits}, {number(16)}")
    odd = out.value(f"and {kind} {upper}, {number(1)}")
    tie = out.value(f"add {kind} {odd}, {number(0x7FFF)}")
    rounded = out.value(f"lshr {kind} {out.value(f'add {kind} {bits}, {tie}')}, {number(16)}")
    quiet = out.value(f"or {kind} {upper}, {number(0x40)}")
    nan = out.value(f"fcmp uno {value.llvm_type} {value.text}, {literal(0.0, DType.F32, lanes)}")
    mask = f"<{lanes} x i1>" if lanes else "i1"
    chosen = out.value(f"select {mask} {nan}, {kind} {quiet}, {kind} {rounded}")
    return _of_bits(out, out.value(f"trunc {kind} {chosen} to {half}"), lanes)


def _of_bits(out: Emitter, bits: str, lanes: int) -> Value:
    kind = llvm_type(DType.BF16, lanes)
    return Value(out.value(f"bitcast {llvm_type(DType.I16, lanes)} {bits} to {kind}"), DType.BF16, lanes)


def as_bf16(out: Emitter, value: Value, target: Target) -> Value:
    """A float with the precision of bf16, in one instruction where the Target has one, which takes tiny ones for 0."""

    def rounded(part: Value) -> Value:
        return _shortened(out, part) if _shortens(target, part.lanes) else _to_bf16(out, part)

    short = by_pieces(out, rounded, value, 2 * target.lanes(DType.F32.size_bytes))
    return _from_bf16(out, short)._replace(short=short.text)


def finite_bf16(out: Emitter, value: Value, target: Target) -> Value:
    """A number of bf16's precision next to a float, the largest for infinities: by adding half a unit to its bits."""

    def rounded(part: Value) -> Value:
        lanes, kind = part.lanes, llvm_type(DType.I32, part.lanes)
        bits = out.value(f"bitcast {part.llvm_type} {_bounded(out, part, target)} to {kind}")
        more = out.value(f"add {kind} {bits}, {literal(0x8000, DType.I32, lanes)}")
        upper = out.value(f"and {kind} {more}, {literal(-0x10000, DType.I32, lanes)}")
        return Value(out.value(f"bitcast {kind} {upper} to {part.llvm_type}"), DType.F32, lanes)

    def shortened(part: Value) -> Value:
        if _shortens(target, part.lanes):
            return _shortened(out, part)
        kind = llvm_type(DType.I32, part.lanes)
        bits = out.value(f"bitcast {part.llvm_type} {part.text} to {kind}")
        upper = out.value(f"lshr {kind} {bits}, {literal(16, DType.I32, part.lanes)}")
        return _of_bits(
            out, out.value(f"trunc {kind} {upper} to {llvm_type(DType.I16, part.lanes)}"), part.lanes
        )

    widest = target.lanes(DType.F32.size_bytes)
    found = by_pieces(out, rounded, value, widest)
    return found._replace(short=by_pieces(out, shortened, found, 2 * widest).text)


def _bounded(out: Emitter, value: Value, target: Target) -> str:
    """A float between the largest finite numbers of bf16; of NaN any of them."""
    lanes, kind = value.lanes, value.llvm_type
    most, least = (literal(end, DType.F32, lanes) for end in (LARGEST_BF16, -LARGEST_BF16))
    if lanes in _RANGES and {"avx512dq", "avx512vl"} <= set(target.features):
        function, mask = _RANGES[lanes]
        rounding = ", i32" if lanes == max(_RANGES) else ""
        out.declarations.add(f"declare {kind} {function}({kind}, {kind}, i32, {kind}, {mask}{rounding})")
        # The smaller of both without their signs, with the sign of the first; rounded as usual.
        usual = ", i32 4" if rounding else ""
        passed = f"{kind} {value.text}, {kind} {most}, i32 2, {kind} {value.text}, {mask} -1{usual}"
        return out.value(f"call {kind} {function}({passed})")
    bits = f"<{lanes} x i1>" if lanes else "i1"
    above = out.value(f"fcmp ogt {kind} {value.text}, {least}")
    raised = out.value(f"select {bits} {above}, {kind} {value.text}, {kind} {least}")
    below = out.value(f"fcmp olt {kind} {raised}, {most}")
    return out.value(f"select {bits} {below}, {kind} {raised}, {kind} {most}")


def _shortens(target: Target, lanes: int) -> bool:
    return {"avx512bf16", "avx512vl"} <= set(target.features) and lanes in _SHORTENINGS


def _shortened(out: Emitter, value: Value) -> Value:
    """In bf16, by one instruction."""
    function, halves = _SHORTENINGS[value.lanes]
    kind = llvm_type(DType.BF16, value.lanes)
    half = value.lanes // halves
    # The instruction on two vectors takes the upper lanes first.
    parts = [piece(out, value, first, half) for first in reversed(range(0, value.lanes, half))]
    types = ", ".join(p.llvm_type for p in parts)
    out.declarations.add(f"declare {kind} {function}({types})")
    passed = ", ".join(f"{p.llvm_type} {p.text}" for p in parts)
    return Value(out.value(f"call {kind} {function}({passed})"), DType.BF16, value.lanes)


def _from_bf16(out: Emitter, value: Value) -> Value:
    lanes = value.lanes
    half, kind = llvm_type(DType.I16, lanes), llvm_type(DType.I32, lanes)
    bits = out.value(f"bitcast {value.llvm_type} {value.text} to {half}")
    wide = out.value(f"zext {half} {bits} to {kind}")
    upper = out.value(f"shl {kind} {wide}, {literal(16, DType.I32, lanes)}")
    return Value(out.value(f"bitcast {kind} {upper} to {llvm_type(DType.F32, lanes)}"), DType.F32, lanes)
