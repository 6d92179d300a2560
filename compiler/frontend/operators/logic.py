"""Comparisons, logic, tests of floats, and choices by them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, size_of
from compiler.frontend.computes import broadcast, broadcast_load, elementwise, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Const, Expr, apply

_STORED_ELEMENTS = 1 << 24
"""Elements of a result that is stored as a constant."""


def _compared(op: str, *, swapped: bool = False) -> Lowering:
    """A comparison of two numbers; with NaN none holds."""

    def lower(call: OperatorCall) -> None:
        def body(x: Expr, y: Expr) -> Expr:
            return apply(op, y, x) if swapped else apply(op, x, y)

        call.emit(elementwise(call, call.values(), body))

    return lower


def _logical(op: str) -> Lowering:
    """An operation on truth values."""

    def lower(call: OperatorCall) -> None:
        values = call.values()
        if call.dtype(*values) is not DType.BOOL:
            call.reject(f"has inputs of type {call.builder.dtype(values[0])} instead of truth values")
        call.emit(elementwise(call, values, lambda *args: apply(op, *args)))

    return lower


def _is_nan(call: OperatorCall) -> None:
    call.emit(elementwise(call, [call.value(0)], lambda x: apply("not", apply("equal", x, x))))


def _is_infinite(call: OperatorCall) -> None:
    """Emit whether a float is infinite, of the signs that are asked for."""
    positive, negative = (bool(call.integer(f"detect_{sign}", 1)) for sign in ("positive", "negative"))
    kind = call.dtype(call.value(0)).computed

    def body(x: Expr) -> Expr:
        if positive and negative:
            return apply("equal", apply("abs", x), Const(math.inf, kind))
        if not positive and not negative:
            return apply("less", x, x)
        return apply("equal", x, Const(math.inf if positive else -math.inf, kind))

    call.emit(elementwise(call, [call.value(0)], body))


def _where(call: OperatorCall) -> None:
    """Constants are chosen from at once."""
    values = call.values()
    if len(values) != 3 or call.dtype(values[0]) is not DType.BOOL:
        call.reject("has no condition of truth values")
    known = [call.builder.constants.get(value) for value in values]
    arrays = [array for array in known if array is not None]
    if (
        len(arrays) == len(known)
        and not call.is_open()
        and size_of(np.broadcast_shapes(*(a.shape for a in arrays))) <= _STORED_ELEMENTS
    ):
        return call.emit_constant(np.where(*arrays))
    axes = output_axes(broadcast(call, [call.builder.shapes[value] for value in values]))
    body = apply("select", *(broadcast_load(call, value, axes) for value in values))
    return call.emit(Compute(axes, (), None, body, call.dtype(*values[1:])))


LOWERINGS: Mapping[str, Lowering] = {
    "Equal": _compared("equal"),
    "Less": _compared("less"),
    "LessOrEqual": _compared("less_equal"),
    "Greater": _compared("less", swapped=True),
    "GreaterOrEqual": _compared("less_equal", swapped=True),
    "And": _logical("and"),
    "Or": _logical("or"),
    "Xor": _logical("xor"),
    "Not": _logical("not"),
    "IsNaN": _is_nan,
    "IsInf": _is_infinite,
    "Where": _where,
}
