"""Gathers: each element of the result is one of the data, at a place that other elements say.

    Gather          y[i, k] = x[v, k]  with v = indices[i]
    GatherElements  y[i, k] = x[v, k]  with v = indices[i, k]
    GatherND        y[i, k] = x[v, w, k]  with v = indices[i, 0], w = indices[i, 1]

Indices that are constant and equally spaced make a slice; those of constant data are looked up at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from compiler.frontend.call import Array, Lowering, OperatorCall, positive_axis, size_of
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Expr, Load, Lookup
from compiler.symbol import Axis

_STORED_ELEMENTS = 1 << 24
"""Elements of a result that is stored as a constant."""


def _gather(call: OperatorCall) -> None:
    shape, which = call.shape(0), call.shape(1)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    _check_indices(call, [shape[axis]])
    result = (*shape[:axis], *which, *shape[axis + 1 :])
    data, indices = (call.builder.constants.get(call.value(position)) for position in (0, 1))
    stored = size_of(result) <= _STORED_ELEMENTS and not call.is_open()
    if data is not None and indices is not None and stored:
        return call.emit_constant(np.take(data, indices, axis=axis))
    axes = output_axes(result)
    places = at(axes)
    before, after = places[:axis], places[axis + len(which) :]
    spaced = None if indices is None else _progression(indices % shape[axis])
    if spaced is not None:
        first, step = spaced
        where = places[axis] * step + first if which else Index.of(first)
        return _emit(call, axes, Load(call.value(0), (*before, where, *after)))
    chosen = places[axis : axis + len(which)]
    return _emit_lookups(call, axes, before, [(chosen, shape[axis])], after)


def _gather_elements(call: OperatorCall) -> None:
    shape, which = call.shape(0), call.shape(1)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    if len(which) != len(shape) or any(
        n > m for d, (n, m) in enumerate(zip(which, shape, strict=True)) if d != axis
    ):
        call.reject(f"has indices of shape {list(which)} into data of shape {list(shape)}")
    _check_indices(call, [shape[axis]])
    axes = output_axes(which)
    places = at(axes)
    _emit_lookups(call, axes, places[:axis], [(places, shape[axis])], places[axis + 1 :])


def _gather_nd(call: OperatorCall) -> None:
    shape, which = call.shape(0), call.shape(1)
    batch = call.integer("batch_dims")
    depth = which[-1] if which else 0
    if not 0 <= batch < min(len(shape), len(which)) or not 1 <= depth <= len(shape) - batch:
        call.reject(
            f"has indices of shape {list(which)} into data of shape {list(shape)}, {batch} of them batches"
        )
    if which[:batch] != shape[:batch]:
        call.reject(f"has batches of shapes {list(which[:batch])} and {list(shape[:batch])}")
    looked_up = shape[batch : batch + depth]
    _check_indices(call, looked_up)
    axes = output_axes((*which[:-1], *shape[batch + depth :]))
    places = at(axes)
    outer = places[: len(which) - 1]
    chosen = [((*outer, Index.of(j)), extent) for j, extent in enumerate(looked_up)]
    _emit_lookups(call, axes, places[:batch], chosen, places[len(which) - 1 :])


def _check_indices(call: OperatorCall, extents: Sequence[int]) -> None:
    """Raise ModelError where the indices are no whole numbers, or are known and out of range."""
    name = call.value(1)
    if call.builder.dtype(name).kind not in "iu":
        call.reject(f"has indices of type {call.builder.dtype(name)}")
    known = call.builder.constants.get(name)
    if known is None:
        return
    limits = np.asarray(extents)
    if ((known < -limits) | (known >= limits)).any():
        call.reject(f"has indices outside of the {list(extents)} elements that they choose from")


def _progression(indices: Array) -> tuple[int, int] | None:
    """First index and step; None where the steps differ."""
    flat = indices.reshape(-1).astype(np.int64)
    steps = set(np.diff(flat).tolist())
    if indices.ndim > 1 or len(steps) > 1 or not flat.size:
        return None
    return int(flat[0]), steps.pop() if steps else 0


def _emit_lookups(
    call: OperatorCall,
    axes: tuple[Axis, ...],
    before: tuple[Index, ...],
    chosen: Sequence[tuple[tuple[Index, ...], int]],
    after: tuple[Index, ...],
) -> None:
    """Read the data at `before`, at what the indices hold at each place of `chosen` (place, extent), at `after`."""
    # No two values of a model have the same name, so no two lookups have.
    found = [LookedUp(f"@{call.proto.output[0]}.{j}", extent) for j, (_, extent) in enumerate(chosen)]
    body: Expr = Load(call.value(0), (*before, *map(Index.of, found), *after))
    for name, (place, _) in zip(reversed(found), reversed(chosen), strict=True):
        body = Lookup(name, Load(call.value(1), place), body)
    _emit(call, axes, body)


def _emit(call: OperatorCall, axes: tuple[Axis, ...], body: Expr) -> None:
    call.emit(Compute(axes, (), None, body, call.dtype(call.value(0))))


LOWERINGS: Mapping[str, Lowering] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
}
