"""Expressions that are affine in one load: scale * load + offset, where both coefficients do without it."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Apply, Const, Expr, Load, apply, loads, substitute
from compiler.symbol import Axis

ONE = Const(1.0)
ZERO = Const(0.0)


@dataclass(frozen=True, slots=True)
class Affine:
    """scale * value + offset."""

    scale: Expr
    offset: Expr

    def then(self, outer: Affine) -> Affine:
        """What comes out when `outer` is applied to the result."""
        offset = _add(_mul(self.offset, outer.scale), outer.offset)
        return Affine(_mul(self.scale, outer.scale), offset)

    def over(self, old: tuple[Axis, ...], new: tuple[Axis, ...]) -> Affine:
        """The same with other names for its axes, position by position."""
        names = {a.name: Index.of(b.name) for a, b in zip(old, new, strict=True)}
        return Affine(substitute(self.scale, names), substitute(self.offset, names))


def identity_indices(compute: Compute) -> tuple[Index, ...]:
    """The indices at which a Compute stores: its axes in order."""
    return tuple(Index.of(a.name) for a in compute.axes)


def affine_in(expr: Expr, value: Load) -> Affine | None:
    """The expression as a function of one load, or None where it is not affine in it.

    Other loads of the same buffer, at other indices, make it None as well.
    """
    if expr == value:
        return Affine(ONE, ZERO)
    if all(load.buffer != value.buffer for load in loads(expr)):
        return Affine(ZERO, expr)
    if not isinstance(expr, Apply):
        return None
    parts = [affine_in(arg, value) for arg in expr.args]
    known = [part for part in parts if part is not None]
    return _combined(expr.op, known) if len(known) == len(parts) else None


def _combined(op: str, parts: list[Affine]) -> Affine | None:
    match op, parts:
        case "add", [x, y]:
            return Affine(_add(x.scale, y.scale), _add(x.offset, y.offset))
        case "sub", [x, y]:
            return Affine(_sub(x.scale, y.scale), _sub(x.offset, y.offset))
        case "neg", [x]:
            return Affine(_neg(x.scale), _neg(x.offset))
        case "mul", [x, Affine(scale, factor)] | [Affine(scale, factor), x] if scale == ZERO:
            return Affine(_mul(x.scale, factor), _mul(x.offset, factor))
        case "div", [x, Affine(scale, divisor)] if scale == ZERO:
            return Affine(_div(x.scale, divisor), _div(x.offset, divisor))
        case _:
            return None


def _add(x: Expr, y: Expr) -> Expr:
    if x == ZERO:
        return y
    return x if y == ZERO else apply("add", x, y)


def _sub(x: Expr, y: Expr) -> Expr:
    if y == ZERO:
        return x
    return _neg(y) if x == ZERO else apply("sub", x, y)


def _neg(x: Expr) -> Expr:
    return x if x == ZERO else apply("neg", x)


def _mul(x: Expr, y: Expr) -> Expr:
    if ZERO in (x, y):
        return ZERO
    if x == ONE:
        return y
    return x if y == ONE else apply("mul", x, y)


def _div(x: Expr, y: Expr) -> Expr:
    return x if x == ZERO or y == ONE else apply("div", x, y)
