"""Arithmetic: operations on values that exist already, each scalar or a vector."""

from __future__ import annotations

from compiler.codegen.conversions import as_bf16, convert, finite_bf16
from compiler.codegen.emitter import Emitter
from compiler.codegen.extremes import Extremes
from compiler.codegen.masks import select, test
from compiler.codegen.math import FUNCTIONS, Function
from compiler.codegen.math_double import DOUBLE_FUNCTIONS
from compiler.codegen.math_lanes import Lanes
from compiler.codegen.ordinal import ordinal
from compiler.codegen.pieces import by_pieces
from compiler.codegen.types import (
    Value,
    comparison,
    float_binary,
    float_intrinsic,
    literal,
    llvm_type,
    suffix,
)
from compiler.codegen.whole_numbers import whole_operation
from compiler.dtype import DType
from compiler.errors import CompileError
from compiler.scalar_ops import BY_BITS
from compiler.target import Target


class Arithmetic:
    """Emits operations; scalars among vectors are broadcast."""

    def __init__(self, out: Emitter, target: Target) -> None:
        """Into an Emitter, for a Target."""
        self._out, self._target = out, target
        self._extremes = Extremes(out, target)

    def broadcast(self, value: Value, lanes: int) -> Value:
        """The value in every lane; a vector stays as it is."""
        if value.lanes or not lanes:
            return value
        if not value.text.startswith("%"):
            text = f"splat ({llvm_type(value.dtype, 0)} {value.text})"
            return Value(text, value.dtype, lanes)
        key = ("broadcast", value.text, lanes)
        known = self._out.remembered(key)
        if known is None:
            kind = llvm_type(value.dtype, lanes)
            one = self._out.value(
                f"insertelement {kind} poison, {llvm_type(value.dtype, 0)} {value.text}, i64 0"
            )
            zeros = f"<{lanes} x i32> zeroinitializer"
            known = self._out.remember(
                key, self._out.value(f"shufflevector {kind} {one}, {kind} poison, {zeros}")
            )
        return Value(known, value.dtype, lanes)

    def lanes(self, lanes: int, dtype: DType = DType.F32) -> Lanes:
        """The arithmetic of elementary functions."""
        has = self._target
        return Lanes(
            self._out,
            lanes,
            dtype,
            has_fma=has.has_fma,
            estimate_bits=has.estimate_bits,
            reads_constants=has.reads_constants,
            lookup_lanes=has.lookup_lanes,
        )

    def operation(self, op: str, parts: list[Value], function: Function | None = None) -> Value:
        """An operation on its operands.

        `function`: of math.py, where it is another one than that of the operation. Raises CompileError where the type
        has no such operation.
        """
        lanes = max(p.lanes for p in parts)
        parts = [self.broadcast(p, lanes) for p in parts]
        dtype = parts[0].dtype
        if op == "select":
            return select(self._out, *parts)
        if op in BY_BITS:
            (x,), (_, given) = parts, BY_BITS[op]
            bits = self._out.value(f"bitcast {x.llvm_type} {x.text} to {llvm_type(given, lanes)}")
            return Value(bits, given, lanes)
        if dtype.is_float:
            found = self._float_operation(op, parts, function)
        else:
            found = whole_operation(self._out, op, parts, self.intrinsic)
        if found is not None:
            return found
        condition = comparison(op, dtype)
        if condition is not None:
            return test(
                self._out, f"{condition} {parts[0].llvm_type} {parts[0].text}, {parts[1].text}", lanes
            )
        msg = f"no code for operation {op} on {dtype.value}; compute it in f32"
        raise CompileError(msg)

    def _float_operation(self, op: str, parts: list[Value], function: Function | None) -> Value | None:
        dtype, lanes = parts[0].dtype, parts[0].lanes
        if op == "larger":
            return self._larger(*parts)
        if op == "ordinal":
            return ordinal(self._out, parts[0])
        if op == "as_bf16" and dtype is DType.F32:
            return as_bf16(self._out, parts[0], self._target)
        if op == "finite_bf16" and dtype is DType.F32:
            return finite_bf16(self._out, parts[0], self._target)
        if op in ("max", "min") and (found := self._extremes.value(op, *parts)) is not None:
            return found
        if dtype is DType.F32 and (function is not None or op in FUNCTIONS):
            ops = self.lanes(lanes)
            return ops.wrapped((function or FUNCTIONS[op])(ops, *(p.text for p in parts)))
        if op in DOUBLE_FUNCTIONS:
            wide = [convert(self._out, p, DType.F64).text for p in parts]
            ops = self.lanes(lanes, DType.F64)
            return convert(self._out, ops.wrapped(DOUBLE_FUNCTIONS[op](ops, *wide)), dtype)
        kind = parts[0].llvm_type
        if op == "neg":
            return Value(self._out.value(f"fneg {kind} {parts[0].text}"), dtype, lanes)
        instruction = float_binary(op)
        if instruction is not None:
            text = f"{instruction} {kind} {parts[0].text}, {parts[1].text}"
            return Value(self._out.value(text), dtype, lanes)
        intrinsic = float_intrinsic(op)
        return None if intrinsic is None else self.intrinsic(intrinsic, parts)

    def quotient(self, x: Value, high: float, low: float) -> Value:
        """A finite f32 times a reciprocal in two parts, rounded once (see compiler.codegen.reciprocals)."""
        ops = self.lanes(x.lanes)
        return ops.wrapped(ops.fma(x.text, ops.const(high), ops.mul(x.text, ops.const(low))))

    def multiply_add(self, parts: list[Value], *, begins: bool) -> Value:
        """X y + z, rounded once; the product alone where z `begins` a sum and is 0 (whose sign nobody asks for)."""
        if begins and parts[2].text == literal(0, parts[2].dtype, parts[2].lanes):
            return self.operation("mul", parts[:2])
        return self.intrinsic("fma", parts)

    def _larger(self, x: Value, y: Value) -> Value:
        """The larger of two numbers; where one is NaN, what the target's shortest code gives."""
        if self._target.whole_maximum:
            return self.intrinsic("maximum", [x, y])
        kind, bits = x.llvm_type, f"<{x.lanes} x i1>" if x.lanes else "i1"
        test = self._out.value(f"fcmp ogt {kind} {x.text}, {y.text}")
        text = f"select {bits} {test}, {kind} {x.text}, {kind} {y.text}"
        return Value(self._out.value(text), x.dtype, x.lanes)

    def clamp(self, op: str, limit: Value, value: Value) -> Value:
        """Max or min with a constant: one compare-and-select that keeps a NaN of the other side."""
        if not value.dtype.is_float:
            return self.operation(op, [limit, value])

        def clamped(part: Value) -> Value:
            end, kind = self.broadcast(limit, part.lanes).text, part.llvm_type
            test = self._out.value(f"fcmp {'ogt' if op == 'max' else 'olt'} {kind} {end}, {part.text}")
            bits = f"<{part.lanes} x i1>" if part.lanes else "i1"
            text = f"select {bits} {test}, {kind} {end}, {kind} {part.text}"
            return Value(self._out.value(text), part.dtype, part.lanes)

        # In longer vectors LLVM makes two instructions of a maximum with 0.
        return by_pieces(self._out, clamped, value, self._target.lanes(value.dtype.size_bytes))

    def intrinsic(self, name: str, parts: list[Value]) -> Value:
        """An intrinsic function of LLVM on values of one type."""
        lanes, dtype = max(p.lanes for p in parts), parts[0].dtype
        parts = [self.broadcast(p, lanes) for p in parts]
        kind = llvm_type(dtype, lanes)
        function = f"@llvm.{name}.{suffix(dtype, lanes)}"
        self._out.declarations.add(f"declare {kind} {function}({', '.join([kind] * len(parts))})")
        arguments = ", ".join(f"{kind} {p.text}" for p in parts)
        # Which of two zeros a maximum gives is nobody's concern, and costs x86 four instructions to decide.
        flags = "nsz " if name in ("maximum", "minimum") else ""
        return Value(self._out.value(f"call {flags}{kind} {function}({arguments})"), dtype, lanes)

    def select_lanes(self, mask: str, first: Value, rest: Value) -> Value:
        """The lanes of one vector where the bits of `mask` are set, and the others of another."""
        bits = f"<{first.lanes} x i1> {mask}"
        text = f"select {bits}, {first.llvm_type} {first.text}, {rest.llvm_type} {rest.text}"
        return Value(self._out.value(text), first.dtype, first.lanes)
