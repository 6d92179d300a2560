"""Binary searches: the largest number for which a test holds, as one expression of nested Lookups.

t = 0;  for step in 8, 4, 2, 1:  if t + step <= most and the test holds for t + step:  t = t + step
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import OperatorCall
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Expr, Guard, Load, Lookup, apply

Test = Callable[[Index, Expr, Expr], Expr]
"""Of an index t - 1, and what stands for yes and for no: one of the two."""


def largest(call: OperatorCall, most: int, holds: Test, suffix: str) -> Expr:
    """The largest t in 0 .. most for which the test holds, in 32 bits; for all smaller ones it does, and for 0."""
    size = 1 << most.bit_length()
    numbers = call.intermediate_constant(np.arange(-size, size + 1, dtype=np.int32), f"{suffix}.numbers")
    step = size >> 1
    value = _tested(Index.of(step - 1), most, holds, Const(step, DType.I32), Const(0, DType.I32))
    while step := step >> 1:
        found = LookedUp(f"@{numbers}.{step}", size)
        before = Index.of(found)  # t - 1, so that it is a place in a buffer of `most` elements
        yes, no = (Load(numbers, (before + (size + 1 - less),)) for less in (0, step))
        tested = _tested(before, most, holds, yes, no)
        value = Lookup(found, apply("add", value, Const(step - 1, DType.I32)), tested)
    return value


def _tested(before: Index, most: int, holds: Test, yes: Expr, no: Expr) -> Expr:
    return Guard((Bound(before, 0, most),), holds(before, yes, no), no)
