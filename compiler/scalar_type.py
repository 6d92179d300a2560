"""The element type of a scalar expression, and the whole numbers that it can be.

What an operation takes and gives is its Signature; nothing changes a type unsaid, only a Cast does. Types that are only
stored are moved and chosen from: to compute with them, cast them first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from compiler.dtype import DType
from compiler.scalar import Apply, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick
from compiler.scalar_ops import OPS, REDUCERS, Signature

TypeOf = Callable[[str], DType]
"""The element type of a buffer by its name."""


def expr_type(expr: Expr, type_of: TypeOf) -> DType:
    """The type of the expression; raises ValueError where types are mixed without a Cast."""
    match expr:
        case Const(_, dtype) | Cast(_, dtype) | Pick(_, _, dtype):
            if isinstance(expr, Cast):
                expr_type(expr.value, type_of)
            return dtype
        case Load(buffer, _):
            return type_of(buffer)
        case Apply(op, args):
            return _apply_type(op, [expr_type(a, type_of) for a in args])
        case Guard(_, inside, outside):
            return _common([expr_type(inside, type_of), expr_type(outside, type_of)], "a guard")
        case Lookup(found, value, inside):
            kind = expr_type(value, type_of)
            if not kind.is_integer:
                msg = f"{found.name} is looked up as {kind.value}; an index is a whole number"
                raise ValueError(msg)
            return expr_type(inside, type_of)
        case Dot():
            return expr_type(expr.sum, type_of)
        case _:
            assert_never(expr)


def _apply_type(op: str, kinds: list[DType]) -> DType:
    signature = OPS[op].signature
    if signature is Signature.CHOICE:
        if kinds[0] is not DType.BOOL:
            msg = f"{op} chooses by {kinds[0].value}, which is no truth value"
            raise ValueError(msg)
        return _common(kinds[1:], op)
    found = _common(kinds, op)
    if (types := OPS[op].types) is not None:
        if found is not types[0]:
            msg = f"{op} takes {types[0].value}, not {found.value}; cast it first"
            raise ValueError(msg)
        return types[1]
    if found.is_stored_only or not _TAKES[signature](found):
        msg = f"{op} takes {signature.value}, not {found.value}; cast it first"
        raise ValueError(msg)
    return DType.BOOL if signature in (Signature.TEST, Signature.ORDER) else found


_TAKES: Mapping[Signature, Callable[[DType], bool]] = {
    Signature.NUMBERS: lambda kind: kind is not DType.BOOL,
    Signature.FLOATS: lambda kind: kind.is_float,
    Signature.WHOLE: lambda kind: kind.is_integer,
    Signature.BITS: lambda kind: not kind.is_float,
    Signature.TEST: lambda kind: True,
    Signature.ORDER: lambda kind: kind is not DType.BOOL,
}


def _common(kinds: list[DType], what: str) -> DType:
    if len(set(kinds)) != 1:
        msg = f"{what} mixes {', '.join(sorted({k.value for k in kinds}))}; cast them to one type"
        raise ValueError(msg)
    return kinds[0]


def check_reduced(reducer: str, dtype: DType) -> None:
    """Raise ValueError where nothing of the type can be reduced: it is not computed with."""
    if dtype.is_stored_only or dtype is DType.BOOL:
        msg = f"a {reducer} of {dtype.value}, which is only stored; cast it first"
        raise ValueError(msg)


def neutral(reducer: str, dtype: DType) -> Const:
    """What a reduction starts from; for integers the end of their range where floats have an infinity."""
    value = REDUCERS[reducer].neutral
    if dtype.is_float:
        return Const(value, dtype)
    low, high = dtype.limits
    return Const(int(min(max(value, low), high)), dtype)


def integer_range(expr: Expr, type_of: TypeOf) -> tuple[int, int] | None:
    """Bounds of a whole-numbered expression from its types and literals; None where they are not known."""
    match expr:
        case Const(value, dtype):
            return (int(value), int(value)) if dtype.is_integer else None
        case Load(buffer, _):
            return type_of(buffer).limits if type_of(buffer).is_integer else None
        case Guard(_, inside, outside):
            a, b = integer_range(inside, type_of), integer_range(outside, type_of)
            return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
        case Cast(value, dtype):
            inner = integer_range(value, type_of)
            return inner if inner is not None and dtype.holds(*inner) else None
        case Apply("add" | "sub" as op, (x, y)):
            a, b = integer_range(x, type_of), integer_range(y, type_of)
            if a is None or b is None:
                return None
            found = (a[0] + b[0], a[1] + b[1]) if op == "add" else (a[0] - b[1], a[1] - b[0])
            return found if expr_type(expr, type_of).holds(*found) else None
        case _:
            return None
