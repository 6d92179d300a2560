"""Tensors without elements. Their value is known, so they are constants; no kernel ever sees one.

y[i] = x[i] if i < 0 else z[i], x without elements   →   y[i] = z[i]
y[i] = sum over no r of x[i, r]                      →   y = 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.graph.ir import Compute
from compiler.scalar import Expr, Guard, loads, rewrite
from compiler.scalar_ops import REDUCERS

Array = npt.NDArray[Any]


def without_empty(compute: Compute, constants: Mapping[str, Array]) -> Compute:
    """The same Compute; what a Guard reads from tensors without elements is gone: it never holds."""

    def rule(expr: Expr) -> Expr | None:
        if isinstance(expr, Guard) and any(_is_empty(constants.get(x.buffer)) for x in loads(expr.inside)):
            return expr.outside
        return None

    if not any(_is_empty(constants.get(value)) for value in compute.reads):
        return compute
    return replace(compute, body=rewrite(compute.body, rule))


def of_nothing(compute: Compute) -> Array:
    """The value of a Compute that has no element, or reduces over none."""
    shape, kind = tuple(a.size for a in compute.axes), compute.dtype
    if compute.reducer is None:
        return np.zeros(shape, kind.numpy)
    neutral = REDUCERS[compute.reducer].neutral
    if not kind.is_float and not np.isfinite(neutral):
        neutral = kind.limits[1 if neutral > 0 else 0]
    return np.full(shape, neutral, kind.numpy)


def _is_empty(array: Array | None) -> bool:
    return array is not None and array.size == 0
