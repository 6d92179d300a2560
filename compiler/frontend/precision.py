"""Types of computes: literals take the precision of what they are combined with, and a Compute that of its body."""

from __future__ import annotations

from dataclasses import replace

from compiler.dtype import DType
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Const, Expr, Load, rewrite, walk
from compiler.scalar_type import TypeOf, check_reduced, expr_type


def with_types(compute: Compute, type_of: TypeOf) -> Compute:
    """The Compute with the type of its body; float literals of one that only reads doubles are doubles.

    So a lowering need not say in which precision it computes. Raises ValueError where the body mixes types.
    """
    floats = {kind for e in walk(compute.body) if (kind := _float_type(e, type_of)) is not None}
    body = compute.body
    if floats == {DType.F64}:
        body = rewrite(body, _doubled)
    dtype = expr_type(body, type_of)
    if compute.reducer is not None:
        check_reduced(compute.reducer, dtype)
    return replace(compute, body=body, dtype=dtype)


def _float_type(expr: Expr, type_of: TypeOf) -> DType | None:
    match expr:
        case Load(buffer, _):
            kind = type_of(buffer)
        case Cast(_, kind):
            pass
        case _:
            return None
    return kind if kind.is_float and not kind.is_stored_only else None


def _doubled(expr: Expr) -> Expr | None:
    return Const(expr.value, DType.F64) if isinstance(expr, Const) and expr.dtype is DType.F32 else None
