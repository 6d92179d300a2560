"""Gather and Where, with indices and conditions that are known before the first run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.frontend.call import Array, Lowering, OperatorCall, positive_axis, size_of
from compiler.frontend.computes import at, elementwise, output_axes
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Const, Expr, Load, apply

_STORED_ELEMENTS = 1 << 24
"""Elements of a result that is stored as a constant."""


def _gather(call: OperatorCall) -> None:
    """Constants are gathered at once; of other values a slice with a fixed step is read."""
    shape, indices = call.shape(0), call.constant(1)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    extent = shape[axis]
    if indices.dtype.kind not in "iu" or ((indices < -extent) | (indices >= extent)).any():
        call.reject(f"has indices outside of the {extent} elements of axis {axis}")
    result = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    data = call.builder.constants.get(call.value(0))
    if data is None:
        return _emit_slice(call, axis, indices % extent, result)
    if size_of(result) > _STORED_ELEMENTS:
        call.unsupported(f"a constant of more than {_STORED_ELEMENTS} elements")
    return call.emit_constant(np.take(data, indices, axis=axis))


def _emit_slice(call: OperatorCall, axis: int, indices: Array, result: tuple[int, ...]) -> None:
    first, step = _progression(call, indices)
    axes = output_axes(result)
    places = at(axes)
    where = Index.of(first)
    if indices.ndim:
        where = places[axis] * step + first
    read = (*places[:axis], where, *places[axis + indices.ndim :])
    call.emit(Compute(axes, (), None, Load(call.value(0), read), call.dtype(call.value(0))))


def _progression(call: OperatorCall, indices: Array) -> tuple[int, int]:
    """First index and step; raises UnsupportedOperator where the steps differ."""
    flat = indices.reshape(-1).astype(np.int64)
    steps = set(np.diff(flat).tolist())
    if indices.ndim > 1 or len(steps) > 1 or not flat.size:
        call.unsupported("indices that are no slice, into a value that is not constant")
    return int(flat[0]), steps.pop() if steps else 0


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


LOWERINGS: Mapping[str, Lowering] = {"Gather": _gather, "Where": _where}
