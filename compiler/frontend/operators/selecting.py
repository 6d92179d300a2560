"""Where, with conditions that are known before the first run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.frontend.call import Lowering, OperatorCall, size_of
from compiler.frontend.computes import elementwise
from compiler.scalar import Const, Expr, apply

_STORED_ELEMENTS = 1 << 24
"""Elements of a result that is stored as a constant."""


def _where(call: OperatorCall) -> None:
    """Constants are chosen from at once; else the condition is a constant of zeros and ones."""
    condition = call.constant(0)
    known = [call.builder.constants.get(call.value(position)) for position in (1, 2)]
    if condition.dtype != np.bool_:
        call.reject(f"has a condition of type {condition.dtype}")
    if known[0] is not None and known[1] is not None:
        arrays = (condition, known[0], known[1])
        if size_of(np.broadcast_shapes(*(a.shape for a in arrays))) <= _STORED_ELEMENTS:
            return call.emit_constant(np.where(*arrays))
    chosen = call.intermediate_constant(condition.astype(np.float32), "condition")

    def body(test: Expr, x: Expr, y: Expr) -> Expr:
        return apply("where_greater", test, Const(0.5), x, y)

    return call.emit(elementwise(call, [chosen, call.value(1), call.value(2)], body))


LOWERINGS: Mapping[str, Lowering] = {"Where": _where}
