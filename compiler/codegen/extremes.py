"""Extremes: the larger or smaller of two vectors of floats, keeping NaN, in two instructions.

x86 compares and selects in one instruction, which gives its second operand where one of both is NaN. A NaN of the first
is put back by an instruction that looks at the classes of numbers (VFIXUPIMM; Intel's manual, volume 2, has its table):
on other ports than the comparison, where a compare into a mask and a move under it are two instructions more.
"""

from __future__ import annotations

import math

from compiler.codegen.emitter import Emitter
from compiler.codegen.types import Value, literal
from compiler.dtype import DType
from compiler.target import Target

_KEEP_NAN = 0x22
"""Four bits per class of numbers, quiet and signalling NaN first: NaN for these (2), else what stands there (0)."""
_ALL_LANES, _USUAL_ROUNDING = -1, 4
_LANES = (4, 8, 16)
_BITS = 32
"""Of a float."""


def has_extremes(target: Target, value: Value) -> bool:
    """Whether the Target has these instructions, for vectors of this type and length."""
    return "avx512vl" in target.features and value.dtype is DType.F32 and value.lanes in _LANES


def decided(op: str, x: Value, y: Value) -> Value | None:
    """The other of two values where one is what `max` or `min` begins with, which changes nothing; else None."""
    least = literal(-math.inf if op == "max" else math.inf, x.dtype, x.lanes)
    for value, other in ((x, y), (y, x)):
        if value.text == least:
            return other
    return None


def extreme(out: Emitter, op: str, x: Value, y: Value) -> Value:
    """`max` or `min` of two vectors; NaN where one of both is."""
    kind, bits = x.llvm_type, f"<{x.lanes} x i1>"
    test = out.value(f"fcmp {'ogt' if op == 'max' else 'olt'} {kind} {x.text}, {y.text}")
    found = out.value(f"select {bits} {test}, {kind} {x.text}, {kind} {y.text}")
    return Value(_with_nan_of(out, found, x), x.dtype, x.lanes)


def _with_nan_of(out: Emitter, found: str, x: Value) -> str:
    """`found`, but NaN where x is."""
    kind, whole = x.llvm_type, f"<{x.lanes} x i32>"
    function = f"@llvm.x86.avx512.mask.fixupimm.ps.{_BITS * x.lanes}"
    mask = f"i{max(8, x.lanes)}"
    types = [kind, kind, whole, "i32", mask]
    values = [found, x.text, f"splat (i32 {_KEEP_NAN})", "0", str(_ALL_LANES)]
    if x.lanes == max(_LANES):
        types.append("i32")
        values.append(str(_USUAL_ROUNDING))
    out.declarations.add(f"declare {kind} {function}({', '.join(types)})")
    arguments = ", ".join(f"{t} {v}" for t, v in zip(types, values, strict=True))
    return out.value(f"call {kind} {function}({arguments})")
