"""Leeway: what an output may become where a value is rounded to a whole number or to 16 bits, or its bits are taken.

A value that lies next to a tie in float64 may lie on its other side in float32, and then the rounded results differ by
one: neither is wrong. The reference is computed twice, with every value pushed down and up a little before it is
rounded; where both give the same, there is one right answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from compiler.dtype import DType
from compiler.evaluate import reference_outputs
from compiler.grid import Array
from compiler.scalar import Apply, Cast, Const, Expr, Load, rewrite, walk
from compiler.scalar_ops import OPS
from compiler.scalar_type import expr_type
from compiler.workload.ir import Stage, Workload

RELATIVE = 4e-6
"""Of the value before it is rounded: some tens of roundings in float32."""
ABSOLUTE = 5e-4
"""Of a unit: what sums of values of a few hundred units lose in float32."""

_ROUNDING = ("round", "floor", "ceil")
_SHORT = {DType.F16: 2.0**-10, DType.BF16: 2.0**-7}
"""Distance of neighbours, relative to the larger one."""


def reference_bounds(workload: Workload, operands: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Least and largest right value of every element of every output, in float64 and storage shape.

    Both are the same where nothing is rounded, and so for whole numbers that are only added and multiplied.
    """
    down, up = (_pushed(workload, sign) for sign in (-1.0, 1.0))
    low = reference_outputs(down, operands)
    high = low if down == workload else reference_outputs(up, operands)
    found = {}
    for output in workload.outputs:
        a, b = (v[output.name].astype(np.float64) for v in (low, high))
        step = _SHORT.get(output.dtype, 0.0)
        least, most = np.minimum(a, b), np.maximum(a, b)
        found[output.name] = least - np.abs(least) * step, most + np.abs(most) * step
    return found


def rounds_to_short_floats(workload: Workload) -> bool:
    """Whether values become floats of 16 bits or fewer on the way: they are off by more than kernels ever are."""
    written = (*workload.temporaries, *workload.outputs)
    bodies = (result.body for stage in workload.stages for result in stage.results)
    casts = (e.dtype for body in bodies for e in walk(body) if isinstance(e, Cast))
    return any(dtype.is_narrow_float for dtype in (*(operand.dtype for operand in written), *casts))


def _pushed(workload: Workload, sign: float) -> Workload:
    return replace(workload, stages=tuple(_pushed_stage(workload, s, sign) for s in workload.stages))


def _pushed_stage(workload: Workload, stage: Stage, sign: float) -> Stage:
    buffers = workload.buffers

    def kind(expr: Expr) -> DType:
        return expr_type(expr, lambda name: buffers[name].dtype)

    def moved(x: Expr) -> Expr:
        return _moved(x, kind(x), sign)

    def rule(e: Expr) -> Expr | None:
        match e:
            case Apply(op, (x,)) if op in _ROUNDING and kind(x).is_float:
                return Apply(op, (moved(x),))
            case Apply(op, (x,)) if (
                (types := OPS[op].types) and types[0].is_float and not isinstance(x, Load)
            ):
                return Apply(op, (Cast(moved(x), types[0]),))
            case Cast(value, dtype) if dtype.is_integer and kind(value).is_float and not _is_whole(value):
                return Cast(moved(value), dtype)
            case _:
                return None

    return stage.rewritten(lambda body: rewrite(body, rule))


def _moved(x: Expr, kind: DType, sign: float) -> Expr:
    """The value a little lower or higher, in the type that it is computed with in."""
    wide = Cast(x, kind.computed) if kind.is_stored_only else x
    relative, absolute, by = (Const(n, kind.computed) for n in (RELATIVE, ABSOLUTE, sign))
    step = Apply("add", (Apply("mul", (Apply("abs", (wide,)), relative)), absolute))
    return Apply("add", (wide, Apply("mul", (step, by))))


def _is_whole(expr: Expr) -> bool:
    """Whether the value was rounded before: clamps and whole offsets keep it whole."""
    match expr:
        case Apply(op, _) if op in _ROUNDING:
            return True
        case Apply("max" | "min" | "add" | "sub", (x, y)):
            return _is_whole(x) and _is_whole(y)
        case Const(value, _):
            return float(value).is_integer()
        case Cast(Load() | Const(), _):
            return True  # of a zero point: what is cast to be computed with is stored as a whole number
        case _:
            return False
