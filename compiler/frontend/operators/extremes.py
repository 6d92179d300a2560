"""ArgMax and ArgMin: the place of the largest or smallest element along an axis.

top[i]   = max over k of x[i, k]
place[i] = min over k of (k where x[i, k] is top[i], else the extent)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.graph.ir import Compute
from compiler.index import ZERO
from compiler.scalar import Cast, Const, Expr, Load, apply


def _place_of(reducer: str) -> Lowering:
    def lower(call: OperatorCall) -> None:
        shape = call.shape(0)
        axis = positive_axis(call, call.integer("axis"), len(shape))
        extent, last = shape[axis], bool(call.integer("select_last_index"))
        if not extent:
            call.reject(f"looks for an element along axis {axis} of shape {list(shape)}")
        keep = bool(call.integer("keepdims", 1))
        kind = call.dtype(call.value(0))

        def element(indices: tuple[object, ...]) -> Expr:
            load = Load(call.value(0), indices)  # type: ignore[arg-type]
            return Cast(load, kind.computed) if kind.is_stored_only or kind is DType.BOOL else load

        outer = output_axes(1 if d == axis else n for d, n in enumerate(shape))
        places, inner = at(outer), ReduceAxes()
        step = inner.index(extent)
        here = (*places[:axis], step, *places[axis + 1 :])
        top = call.intermediate(reduced(outer, inner, reducer, element(here), kind.computed), "top")
        numbers = call.intermediate_constant(np.arange(extent, dtype=np.int32), "numbers")
        hit = apply("equal", element(here), Load(top, (*places[:axis], ZERO, *places[axis + 1 :])))
        missing = Const(-1 if last else extent - 1, DType.I32)
        body = apply("select", hit, Load(numbers, (step,)), missing)
        found = call.intermediate(reduced(outer, inner, "max" if last else "min", body, DType.I32), "place")
        axes = outer if keep else output_axes(n for d, n in enumerate(shape) if d != axis)
        back = at(axes) if keep else (*at(axes)[:axis], ZERO, *at(axes)[axis:])
        call.emit(Compute(axes, (), None, Cast(Load(found, back), DType.I64), DType.I64))

    return lower


LOWERINGS: Mapping[str, Lowering] = {"ArgMax": _place_of("max"), "ArgMin": _place_of("min")}
