"""Truth values: bytes of 0 and 1 where they are stored and passed on, single bits where something is chosen by them.

The bits that a comparison gave are remembered beside its bytes, so that a choice by them needs no second comparison.
"""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import Value, literal, llvm_type
from compiler.dtype import DType


def bit_type(lanes: int) -> str:
    """`i1`, or a vector of them."""
    return f"<{lanes} x i1>" if lanes else "i1"


def test(out: Emitter, text: str, lanes: int) -> Value:
    """The truth value of a comparison."""
    bits = out.value(text)
    byte = out.value(f"zext {bit_type(lanes)} {bits} to {llvm_type(DType.BOOL, lanes)}")
    out.remember(("bits", byte), bits)
    return Value(byte, DType.BOOL, lanes)


def select(out: Emitter, condition: Value, yes: Value, no: Value) -> Value:
    """One of two values, lane by lane."""
    lanes = condition.lanes
    bits = out.remembered(("bits", condition.text))
    if bits is None:
        zero = literal(0, DType.BOOL, lanes)
        bits = out.value(f"icmp ne {condition.llvm_type} {condition.text}, {zero}")
    text = f"select {bit_type(lanes)} {bits}, {yes.llvm_type} {yes.text}, {no.llvm_type} {no.text}"
    return Value(out.value(text), yes.dtype, lanes)
