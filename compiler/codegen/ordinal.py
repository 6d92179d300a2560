"""Ordinals: whole numbers in the order of 32-bit floats, from their bits."""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.masks import bit_type
from compiler.codegen.types import Value, literal, llvm_type
from compiler.dtype import DType


def ordinal(out: Emitter, x: Value) -> Value:
    """The magnitude's bits, those of negative numbers counted down from -1: a larger float has a larger number.

    Both zeros are 0, and NaN is the largest number.
    """
    lanes, kind, mask = x.lanes, llvm_type(DType.I32, x.lanes), bit_type(x.lanes)
    most = literal(2**31 - 1, DType.I32, lanes)
    bits = out.value(f"bitcast {x.llvm_type} {x.text} to {kind}")
    sign = out.value(f"ashr {kind} {bits}, {literal(31, DType.I32, lanes)}")
    turned = out.value(f"xor {kind} {bits}, " + out.value(f"and {kind} {sign}, {most}"))
    zero = out.value(f"fcmp oeq {x.llvm_type} {x.text}, {literal(0.0, DType.F32, lanes)}")
    found = out.value(f"select {mask} {zero}, {kind} {literal(0, DType.I32, lanes)}, {kind} {turned}")
    missing = out.value(f"fcmp uno {x.llvm_type} {x.text}, {x.text}")
    return Value(out.value(f"select {mask} {missing}, {kind} {most}, {kind} {found}"), DType.I32, lanes)
