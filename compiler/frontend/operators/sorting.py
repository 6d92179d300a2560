"""TopK: the largest or smallest elements along an axis, with their places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, output_axes
from compiler.frontend.sorts import first_sorted
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Load


def _top_k(call: OperatorCall) -> None:
    """Outputs: values and places, sorted."""
    value, shape = call.value(0), call.shape(0)
    axis = positive_axis(call, call.integer("axis", -1), len(shape))
    (k,) = call.constant_ints(1) if call.opset >= 10 else [call.integer("k")]
    if not 0 <= k <= shape[axis]:
        call.reject(f"wants {k} of {shape[axis]} elements")
    axes = output_axes((*shape[:axis], k, *shape[axis + 1 :]))
    if not all(a.size for a in axes):
        call.emit_constant(np.zeros([a.size for a in axes], call.builder.dtype(value)))
        return call.emit_constant(np.zeros([a.size for a in axes], np.int64), 1)
    found = first_sorted(call, value, axis, k, descending=bool(call.integer("largest", 1)))
    call.emit_same(found.elements)
    if len(call.proto.output) > 1 and call.proto.output[1]:
        call.emit(Compute(axes, (), None, Cast(Load(found.places, at(axes)), DType.I64), DType.I64), 1)
    return None


LOWERINGS: Mapping[str, Lowering] = {"TopK": _top_k}
