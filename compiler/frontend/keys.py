"""Keys: whole numbers of 32 bits in the order of the elements, so that one comparison of them is enough.

NaN is the largest. Two zeros of different signs are equal, as they are for a comparison of numbers.
"""

from __future__ import annotations

from compiler.dtype import DType
from compiler.frontend.computes import widened
from compiler.scalar import Cast, Expr, Load, apply


def has_keys(kind: DType) -> bool:
    """Whether elements of the type have keys of 32 bits."""
    if kind.is_float:
        return kind.computed is DType.F32
    return kind.is_integer and DType.I32.holds(*kind.limits)


def key(element: Load, kind: DType, *, descending: bool) -> Expr:
    """The key of an element of the type; the largest comes first where `descending`, else the smallest."""
    number = widened(element, kind)
    found: Expr = apply("ordinal", number) if kind.is_float else Cast(number, DType.I32)
    return found if descending else apply("not", found)
