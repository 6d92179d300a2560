"""Lanes: arithmetic on vectors of floats, and of integers as long as them. What elementary functions are made of.

Nothing becomes a call to a library, on any target that can round vectors (SSE 4.1, NEON, WASM SIMD).
Floats and integers of the same lanes share their bits, `bits` and `from_bits` change the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.codegen.emitter import Emitter
from compiler.codegen.pieces import by_pieces
from compiler.codegen.types import Value, literal, llvm_type, suffix
from compiler.dtype import DType

_ESTIMATES: Mapping[int, Mapping[int, str]] = {
    11: {4: "@llvm.x86.sse.rsqrt.ps", 8: "@llvm.x86.avx.rsqrt.ps.256"},
    14: {lanes: f"@llvm.x86.avx512.rsqrt14.ps.{32 * lanes}" for lanes in (4, 8, 16)},
}
"""Of inverse square roots, by bits and lanes; those with 14 bits take a mask."""
_MASKED = 14

Lane = str
"""An SSA name or a literal; the method says whether it is a float, an integer or a mask."""


class Lanes:
    """Emits operations on vectors of `lanes` elements; 0 for scalars."""

    def __init__(
        self,
        out: Emitter,
        lanes: int,
        dtype: DType = DType.F32,
        *,
        has_fma: bool,
        estimate_bits: int,
        reads_constants: bool = False,
        lookup_lanes: int = 0,
    ) -> None:
        """Flags are those of Target; `dtype`: F32 or F64."""
        self._table = lookup_lanes if dtype is DType.F32 and 2 * lanes >= lookup_lanes else 0
        self._out, self._lanes, self.has_fma, self.estimate_bits = out, lanes, has_fma, estimate_bits
        self._reads_constants = reads_constants and lanes > 0
        self._dtype, self._whole = dtype, DType.I32 if dtype is DType.F32 else DType.I64
        self._float, self._int = llvm_type(dtype, lanes), llvm_type(self._whole, lanes)
        self._suffix = suffix(dtype, lanes)

    def wrapped(self, lane: Lane) -> Value:
        """A float result as a Value of the code generator."""
        return Value(lane, self._dtype, self._lanes)

    # --- floats

    def const(self, value: float) -> Lane:
        """A float in every lane."""
        return literal(value, self._dtype, self._lanes)

    def coefficient(self, value: float) -> Lane:
        """The same as one of many constants, which should need no register: the operand of one multiply-add."""
        if not self._reads_constants:
            return self.const(value)
        return self._out.constant(self._float, self.const(value), self._lanes * self._dtype.size_bytes)

    def add(self, x: Lane, y: Lane) -> Lane:
        """X + y."""
        return self._out.value(f"fadd {self._float} {x}, {y}")

    def sub(self, x: Lane, y: Lane) -> Lane:
        """X - y."""
        return self._out.value(f"fsub {self._float} {x}, {y}")

    def mul(self, x: Lane, y: Lane) -> Lane:
        """X * y."""
        return self._out.value(f"fmul {self._float} {x}, {y}")

    def div(self, x: Lane, y: Lane) -> Lane:
        """X / y."""
        return self._out.value(f"fdiv {self._float} {x}, {y}")

    def neg(self, x: Lane) -> Lane:
        """-x."""
        return self._out.value(f"fneg {self._float} {x}")

    def fma(self, x: Lane, y: Lane, z: Lane) -> Lane:
        """X * y + z, rounded once where the target can and twice elsewhere."""
        if not self.has_fma:
            return self.add(self.mul(x, y), z)
        return self._intrinsic("fma", x, y, z)

    def product_error(self, x: Lane, y: Lane, product: Lane) -> Lane:
        """What x * y - product is, exact for the rounded product; by Dekker's splitting where nothing is fused."""
        if self.has_fma:
            return self._intrinsic("fma", x, y, self.neg(product))
        (a, b), (c, d) = self._halves(x), self._halves(y)
        error = self.sub(self.mul(a, c), product)
        error = self.add(error, self.mul(a, d))
        error = self.add(error, self.mul(b, c))
        return self.add(error, self.mul(b, d))

    def _halves(self, x: Lane) -> tuple[Lane, Lane]:
        """A float as a sum of two with half of the bits each, whose products are exact."""
        lower = 12 if self._dtype is DType.F32 else 27
        high = self.from_bits(self.integer("and", self.bits(x), -(1 << lower)))
        return high, self.sub(x, high)

    def abs(self, x: Lane) -> Lane:
        """|x|."""
        return self._intrinsic("fabs", x)

    def sqrt(self, x: Lane) -> Lane:
        """The square root."""
        return self._intrinsic("sqrt", x)

    def inverse_root_estimate(self, x: Lane) -> Lane | None:
        """1 / sqrt(x) within 2^-estimate_bits, in which denormal numbers count as 0; None where there is none."""
        known = _ESTIMATES.get(self.estimate_bits, {})
        if self._dtype is not DType.F32 or not known or self._lanes < min(known):
            return None
        return by_pieces(self._out, self._estimate, self.wrapped(x), max(known)).text

    def _estimate(self, x: Value) -> Value:
        function, kind = _ESTIMATES[self.estimate_bits][x.lanes], x.llvm_type
        others = (
            {kind: "zeroinitializer", f"i{max(8, x.lanes)}": "-1"} if self.estimate_bits == _MASKED else {}
        )
        self._out.declarations.add(f"declare {kind} {function}({', '.join([kind, *others])})")
        operands = [f"{kind} {x.text}", *(f"{other} {text}" for other, text in others.items())]
        text = f"call {kind} {function}({', '.join(operands)})"
        return Value(self._out.value(text), x.dtype, x.lanes)

    @property
    def table_size(self) -> int:
        """Floats of a table for `lookup`; 0 where there is none."""
        return self._table

    def lookup(self, table: Sequence[int], place: Lane) -> Lane:
        """An entry per lane of a table of `table_size` floats, given by their bits; `place`: modulo its size."""
        places = Value(place, DType.I32, self._lanes)
        return by_pieces(self._out, lambda part: self._looked_up(table, part), places, self._table // 2).text

    def _looked_up(self, table: Sequence[int], places: Value) -> Value:
        lanes = places.lanes
        floats, integers = llvm_type(DType.F32, lanes), places.llvm_type
        parts = [", ".join(f"i32 {bits}" for bits in part) for part in (table[:lanes], table[lanes:])]
        low, high = (f"{floats} bitcast ({integers} <{part}> to {floats})" for part in parts)
        function = f"@llvm.x86.avx512.vpermi2var.ps.{32 * lanes}"
        self._out.declarations.add(f"declare {floats} {function}({floats}, {integers}, {floats})")
        text = f"call {floats} {function}({low}, {integers} {places.text}, {high})"
        return Value(self._out.value(text), DType.F32, lanes)

    def floor(self, x: Lane) -> Lane:
        """The largest whole number that is not above x."""
        return self._intrinsic("floor", x)

    def at_least(self, x: Lane, limit: float) -> Lane:
        """max(x, limit); NaN stays NaN."""
        return self.select(self.compare("olt", x, self.const(limit)), self.const(limit), x)

    def at_most(self, x: Lane, limit: float) -> Lane:
        """min(x, limit); NaN stays NaN."""
        return self.select(self.compare("ogt", x, self.const(limit)), self.const(limit), x)

    def polynomial(self, x: Lane, coefficients: Sequence[float]) -> Lane:
        """c0 + c1 x + c2 x² ... in pairs, (c0 + c1 x) + x² ((c2 + c3 x) + x² ...): all pairs at the same time."""
        square = self.mul(x, x)
        pairs = [self.chain(x, coefficients[i : i + 2]) for i in range(0, len(coefficients) - 1, 2)]
        total = pairs.pop() if len(coefficients) % 2 == 0 else self.coefficient(coefficients[-1])
        for pair in reversed(pairs):
            total = self.fma(total, square, pair)
        return total

    def chain(self, x: Lane, coefficients: Sequence[float]) -> Lane:
        """c0 + x (c1 + x (c2 ...)): Horner's scheme."""
        *others, highest = coefficients
        total = self.const(highest)
        for term in reversed(others):
            total = self.fma(total, x, self.coefficient(term))
        return total

    # --- bits

    def int_const(self, value: int) -> Lane:
        """An integer in every lane."""
        return literal(value, self._whole, self._lanes)

    def bits(self, x: Lane) -> Lane:
        """The bits of a float as an integer."""
        return self._out.value(f"bitcast {self._float} {x} to {self._int}")

    def from_bits(self, i: Lane) -> Lane:
        """The float that has these bits."""
        return self._out.value(f"bitcast {self._int} {i} to {self._float}")

    def integer(self, instruction: str, i: Lane, j: Lane | int) -> Lane:
        """`add`, `sub`, `and`, `or`, `xor`, `shl`, `ashr` of two integers; the second may be a literal."""
        other = self.int_const(j) if isinstance(j, int) else j
        return self._out.value(f"{instruction} {self._int} {i}, {other}")

    def to_float(self, i: Lane) -> Lane:
        """An integer's value as a float."""
        return self._out.value(f"sitofp {self._int} {i} to {self._float}")

    def with_sign_of(self, magnitude: Lane, sign: Lane) -> Lane:
        """A float that is not negative, with the sign of another."""
        return self.from_bits(
            self.integer(
                "or",
                self.bits(magnitude),
                self.integer("and", self.bits(sign), -(1 << (self._whole.bits - 1))),
            )
        )

    # --- masks

    def compare(self, predicate: str, x: Lane, y: Lane) -> Lane:
        """LLVM's fcmp: oeq, olt, ogt, ult ... ."""
        return self._out.value(f"fcmp {predicate} {self._float} {x}, {y}")

    def is_odd(self, i: Lane) -> Lane:
        """Where the last bit of an integer is set."""
        return self._out.value(f"icmp ne {self._int} {self.integer('and', i, 1)}, {self.int_const(0)}")

    def both(self, x: Lane, y: Lane) -> Lane:
        """Where both masks hold."""
        return self._out.value(f"and {self._mask} {x}, {y}")

    def select(self, mask: Lane, x: Lane, y: Lane) -> Lane:
        """Float x where the mask holds, else y."""
        return self._out.value(f"select {self._mask} {mask}, {self._float} {x}, {self._float} {y}")

    @property
    def _mask(self) -> str:
        return f"<{self._lanes} x i1>" if self._lanes else "i1"

    def _intrinsic(self, name: str, *args: Lane) -> Lane:
        function = f"@llvm.{name}.{self._suffix}"
        self._out.declarations.add(
            f"declare {self._float} {function}({', '.join([self._float] * len(args))})"
        )
        return self._out.value(
            f"call {self._float} {function}({', '.join(f'{self._float} {a}' for a in args)})"
        )
