"""TensorScatter: a cache with new elements written into it, from a place of its own in each batch on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply


def _tensor_scatter(call: OperatorCall) -> None:
    """Emit update[t - first] where that exists, else the cache; a circular cache goes on at its front."""
    cache, update, shape, new = call.value(0), call.value(1), call.shape(0), call.shape(1)
    axis = positive_axis(call, call.integer("axis", -2), len(shape))
    mode = call.text("mode", "linear")
    fits = len(new) == len(shape) and all(
        n == m for d, (n, m) in enumerate(zip(new, shape, strict=True)) if d != axis
    )
    if not fits or axis == 0 or new[axis] > shape[axis] or mode not in ("linear", "circular"):
        call.reject(f"writes shape {list(new)} into a cache of shape {list(shape)}, mode {mode[:20]!r}")
    if call.has(2) and call.shape(2) != shape[:1]:
        call.reject(f"has write_indices of shape {list(call.shape(2))} for {shape[0]} batches")
    own = output_axes((shape[0], shape[axis]))
    batch, t = at(own)
    step: Expr = Load(call.intermediate_constant(np.arange(shape[axis]), "numbers"), (t,))
    if call.has(2):
        first: Expr = Load(call.value(2), (batch,))
        step = apply("sub", step, first if call.dtype(call.value(2)) is DType.I64 else Cast(first, DType.I64))
    zero, size = Const(0, DType.I64), Const(shape[axis], DType.I64)
    if mode == "circular":
        rest = apply("rem", step, size)
        step = apply("select", apply("less", rest, zero), apply("add", rest, size), rest)
    places = call.intermediate(Compute(own, (), None, step, DType.I64), "places")
    axes = output_axes(shape)
    indices = at(axes)
    place = Load(places, (indices[0], indices[axis]))
    found = LookedUp(f"@{places}", new[axis])
    element = Load(update, (*indices[:axis], Index.of(found), *indices[axis + 1 :]))
    written = apply(
        "and", apply("less_equal", zero, place), apply("less", place, Const(new[axis], DType.I64))
    )
    body = apply("select", written, Lookup(found, place, element), Load(cache, indices))
    call.emit(Compute(axes, (), None, body, call.dtype(cache)))


LOWERINGS: Mapping[str, Lowering] = {"TensorScatter": _tensor_scatter}
