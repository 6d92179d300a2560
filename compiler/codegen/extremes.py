"""Extremes: the larger or smaller of two vectors of floats, keeping NaN, in two instructions.

x86 compares and selects in one instruction, which gives its second operand where one of both is NaN. AVX-512 puts a NaN
of the first back by an instruction that looks at the classes of numbers (VFIXUPIMM; Intel's manual, volume 2, has its
table): on other ports than the comparison, where a compare into a mask and a move under it are two instructions more.

With AVX alone three elements of an extreme, as of a window, are looked at together: what is found so far is the second
operand each time, so that the first element's NaN stays, and one comparison tells whether any of the two others is NaN.
What it tells is put into the result: two instructions for each further element, too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from compiler.codegen.emitter import Emitter
from compiler.codegen.pieces import joined, piece
from compiler.codegen.types import Value, literal
from compiler.dtype import DType
from compiler.target import Target

_KEEP_NAN = 0x22
"""Four bits per class of numbers, quiet and signalling NaN first: NaN for these (2), else what stands there (0)."""
_ALL_LANES, _USUAL_ROUNDING = -1, 4
_LANES = (4, 8, 16)
_BITS = 32
"""Of a float."""
_TYPES = (DType.F32, DType.F64)
"""Those that AVX has."""


class _Partial(NamedTuple):
    """An extreme of two elements: `found` has no NaN of the second, which is `alone`. `block`: where it is."""

    block: str
    found: str
    alone: str


class Extremes:
    """Emits `max` and `min` for a Target, in one function."""

    def __init__(self, out: Emitter, target: Target) -> None:
        """Nothing is known yet."""
        self._out, self._target = out, target
        self._partial: dict[tuple[str, str], _Partial] = {}
        self._pieces: dict[str, list[Value]] = {}

    def value(self, op: str, x: Value, y: Value) -> Value | None:
        """`max` or `min` of two values of one float type, NaN where one of both is; None where LLVM's is as good."""
        known = _decided(op, x, y)
        if known is not None:
            return known
        features = self._target.features
        if "avx512vl" in features:
            fits = x.dtype is DType.F32 and x.lanes in _LANES
            return _with_classes(self._out, op, x, y) if fits else None
        widest = self._target.lanes(x.dtype.size_bytes)
        if "avx" not in features or x.dtype not in _TYPES or x.lanes < widest:
            return None
        pairs = zip(self._taken_apart(x, widest), self._taken_apart(y, widest), strict=True)
        parts = [self._of_piece(op, *pair) for pair in pairs]
        whole = joined(self._out, parts)
        self._pieces[whole.text] = parts
        return whole

    def _taken_apart(self, value: Value, widest: int) -> list[Value]:
        known = self._pieces.get(value.text)
        if known is not None or value.lanes == widest:
            return known or [value]
        return [piece(self._out, value, i, widest) for i in range(0, value.lanes, widest)]

    def _of_piece(self, op: str, x: Value, y: Value) -> Value:
        if (op, x.text) not in self._partial:
            x, y = y, x
        kind, bits = x.llvm_type, f"<{x.lanes} x i1>"
        partial = self._partial.get((op, x.text))
        # What is used in another block would stay in registers until then.
        known = partial if partial and partial.block == self._out.block else None
        first = known.found if known else x.text
        test = self._out.value(f"fcmp {'ogt' if op == 'max' else 'olt'} {kind} {y.text}, {first}")
        found = self._out.value(f"select {bits} {test}, {kind} {y.text}, {kind} {first}")
        lost = self._out.value(f"fcmp uno {kind} {y.text}, {known.alone if known else y.text}")
        result = self._with_nan(found, lost, x)
        if known is None:
            self._partial[op, result.text] = _Partial(self._out.block, found, y.text)
        return result

    def _with_nan(self, found: str, lost: str, like: Value) -> Value:
        """`found`, and NaN where the mask says so: a number of ones is one."""
        kind, whole = like.llvm_type, f"<{like.lanes} x i{8 * like.dtype.size_bytes}>"
        ones = self._out.value(f"sext <{like.lanes} x i1> {lost} to {whole}")
        number = self._out.value(f"bitcast {kind} {found} to {whole}")
        either = self._out.value(f"or {whole} {number}, {ones}")
        return like._replace(text=self._out.value(f"bitcast {whole} {either} to {kind}"))


def _decided(op: str, x: Value, y: Value) -> Value | None:
    """The other of two values where one is what `max` or `min` begins with, which changes nothing; else None."""
    least = literal(-math.inf if op == "max" else math.inf, x.dtype, x.lanes)
    for value, other in ((x, y), (y, x)):
        if value.text == least:
            return other
    return None


def _with_classes(out: Emitter, op: str, x: Value, y: Value) -> Value:
    """With AVX-512: `max` or `min` of two vectors."""
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
