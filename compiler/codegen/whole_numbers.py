"""Whole numbers and truth values: arithmetic that wraps around, and has a result for every argument.

A division by 0 gives 0 and so does its remainder, as in NumPy; the machine's own would end the process. So would the
least number divided by -1, which wraps around to itself. Bits that are moved by their number or more are gone.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.codegen.emitter import Emitter
from compiler.codegen.masks import bit_type
from compiler.codegen.types import Value, int_binary, literal
from compiler.dtype import DType

Intrinsic = Callable[[str, list[Value]], Value]


def whole_operation(out: Emitter, op: str, parts: list[Value], intrinsic: Intrinsic) -> Value | None:
    """The operation, or None where whole numbers have none of that name."""
    first, dtype, lanes = parts[0], parts[0].dtype, parts[0].lanes
    kind = first.llvm_type
    instruction = int_binary(op)
    if instruction is not None:
        return Value(out.value(f"{instruction} {kind} {first.text}, {parts[1].text}"), dtype, lanes)
    match op:
        case "neg":
            return Value(out.value(f"sub {kind} {literal(0, dtype, lanes)}, {first.text}"), dtype, lanes)
        case "not":
            ones = literal(1 if dtype is DType.BOOL else -1, dtype, lanes)
            return Value(out.value(f"xor {kind} {first.text}, {ones}"), dtype, lanes)
        case "max" | "min":
            return intrinsic(f"{'s' if dtype.is_signed else 'u'}{op}", parts)
        case "abs" if dtype.is_signed:
            return intrinsic(
                "smax",
                [
                    first,
                    Value(out.value(f"sub {kind} {literal(0, dtype, lanes)}, {first.text}"), dtype, lanes),
                ],
            )
        case "abs":
            return first
        case "div" | "rem":
            return _divided(out, op, first, parts[1])
        case "pow":
            return _power(out, first, parts[1])
        case "shift_left" | "shift_right":
            return _moved(out, op, first, parts[1])
        case _:
            return None


def _divided(out: Emitter, op: str, x: Value, y: Value) -> Value:
    dtype, kind, mask = x.dtype, x.llvm_type, bit_type(x.lanes)
    zero, one = (literal(n, dtype, x.lanes) for n in (0, 1))
    nothing = out.value(f"icmp eq {kind} {y.text}, {zero}")
    unsafe = nothing
    if dtype.is_signed:
        minus = out.value(f"icmp eq {kind} {y.text}, {literal(-1, dtype, x.lanes)}")
        unsafe = out.value(f"or {mask} {nothing}, {minus}")
    divisor = out.value(f"select {mask} {unsafe}, {kind} {one}, {kind} {y.text}")
    word = f"{'s' if dtype.is_signed else 'u'}{op}"
    found = out.value(f"{word} {kind} {x.text}, {divisor}")
    # The remainder of a division by 1 is 0, which is what is wanted for 0 and -1 too.
    if op == "div":
        if dtype.is_signed:
            negative = out.value(f"sub {kind} {zero}, {x.text}")
            found = out.value(f"select {mask} {minus}, {kind} {negative}, {kind} {found}")
        found = out.value(f"select {mask} {nothing}, {kind} {zero}, {kind} {found}")
    return Value(found, dtype, x.lanes)


def _power(out: Emitter, x: Value, y: Value) -> Value:
    """By repeated squaring, a bit of the exponent after the other; below 0 only 1 and -1 have a power."""
    dtype, kind, mask = x.dtype, x.llvm_type, bit_type(x.lanes)
    zero, one, less = (literal(n, dtype, x.lanes) for n in (0, 1, -1))

    def bit(number: str, place: int) -> str:
        only = out.value(f"and {kind} {number}, {literal(1 << place, dtype, x.lanes)}")
        return out.value(f"icmp ne {kind} {only}, {zero}")

    found, square = one, x.text
    places = dtype.bits - dtype.is_signed
    for place in range(places):
        factor = out.value(f"select {mask} {bit(y.text, place)}, {kind} {square}, {kind} {one}")
        found = out.value(f"mul {kind} {found}, {factor}")
        square = out.value(f"mul {kind} {square}, {square}") if place + 1 < places else square
    if not dtype.is_signed:
        return Value(found, dtype, x.lanes)
    is_one = out.value(f"icmp eq {kind} {x.text}, {one}")
    is_less = out.value(f"icmp eq {kind} {x.text}, {less}")
    sign = out.value(f"select {mask} {bit(y.text, 0)}, {kind} {less}, {kind} {one}")
    inverse = out.value(f"select {mask} {is_less}, {kind} {sign}, {kind} {zero}")
    inverse = out.value(f"select {mask} {is_one}, {kind} {one}, {kind} {inverse}")
    below = out.value(f"icmp slt {kind} {y.text}, {zero}")
    return Value(out.value(f"select {mask} {below}, {kind} {inverse}, {kind} {found}"), dtype, x.lanes)


def _moved(out: Emitter, op: str, x: Value, places: Value) -> Value:
    dtype, kind, mask = x.dtype, x.llvm_type, bit_type(x.lanes)
    last = literal(dtype.bits - 1, dtype, x.lanes)
    if not places.text.startswith("%") and _number(places.text) < dtype.bits:
        word = "shl" if op == "shift_left" else "ashr" if dtype.is_signed else "lshr"
        return Value(out.value(f"{word} {kind} {x.text}, {places.text}"), dtype, x.lanes)
    inside = out.value(f"icmp ule {kind} {places.text}, {last}")
    safe = out.value(f"select {mask} {inside}, {kind} {places.text}, {kind} {last}")
    if op == "shift_right" and dtype.is_signed:
        return Value(out.value(f"ashr {kind} {x.text}, {safe}"), dtype, x.lanes)
    moved = out.value(f"{'shl' if op == 'shift_left' else 'lshr'} {kind} {x.text}, {safe}")
    zero = literal(0, dtype, x.lanes)
    return Value(out.value(f"select {mask} {inside}, {kind} {moved}, {kind} {zero}"), dtype, x.lanes)


def _number(text: str) -> int:
    """The value of a literal, scalar or in every lane."""
    return int(text.removesuffix(")").split()[-1]) & ((1 << 64) - 1)
