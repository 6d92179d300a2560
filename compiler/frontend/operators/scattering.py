"""Scatters: data with elements replaced by updates, or combined with them, at places that other elements say.

    ScatterElements  y[v, k] = u[i, k]  with v = indices[i, k]
    ScatterND        y[v, w, k] = u[i, k]  with v = indices[i, 0], w = indices[i, 1]

Each element of the result says which updates count for it: of several the last one, or all where they are combined. So
no two iterations write to one place, in any order and on any number of threads; schedules may go through the updates
instead (compiler/scatter.py). Few updates are compared with every place. Indices that are known are searched at compile
time; those of a box of places need no search (`boxes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import prod

import numpy as np

from compiler.dtype import DType
from compiler.frontend.boxes import Box, find_box
from compiler.frontend.call import Array, Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, counting, output_axes, reduced, size_along
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.spread import narrowed, spread_dimensions
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Expr, Guard, Load, Lookup, apply
from compiler.scalar_type import neutral
from compiler.symbol import Axis

Places = tuple[Index, ...]
Axes = tuple[Axis, ...]

_FEW = 4
"""Updates that every place is compared with."""
_REDUCTIONS = {"add": ("sum", "add"), "mul": ("prod", "mul"), "max": ("max", "max"), "min": ("min", "min")}
"""How updates of one place are combined with each other, and then with the data."""


def _scatter_elements(call: OperatorCall) -> None:
    data, indices, updates = (call.value(position) for position in range(3))
    shape, which = call.shape(0), call.shape(1)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    others = [d for d in range(len(shape)) if d != axis]
    if which != call.shape(2) or len(which) != len(shape) or any(which[d] > shape[d] for d in others):
        call.reject(f"scatters shape {list(call.shape(2))} at indices {list(which)} into {list(shape)}")
    known = _known_indices(call, [shape[axis]])
    if prod(which) == 0:
        return call.emit_same(data)
    if known is not None:
        indices = call.intermediate_constant(known, "indices")
    # Places that an update can reach: all along the axis, and as far as the indices go along the others. Along
    # dimensions where all indices are the same, updates are rows: they go to the same places.
    whole = output_axes(shape[d] if d == axis else which[d] for d in range(len(shape)))
    same = spread_dimensions(call.builder, indices) - {axis}
    if same:
        indices = narrowed(call, indices, same)
    reach = tuple(a for d, a in enumerate(whole) if d not in same)
    along = reach.index(whole[axis])

    def index(place: Places, step: Index) -> Places:
        return (*place[:along], step, *place[along + 1 :])

    def update(place: Places, step: Index) -> Load:
        chosen = iter(index(place, step))
        return Load(updates, tuple(i if d in same else next(chosen) for d, i in enumerate(at(whole))))

    def asked(place: Places, step: Index) -> tuple[Expr, ...]:
        return (Load(indices, index(place, step)),)

    told = call.builder.constants.get(indices)
    winners = None if told is None else _winners_along(told, shape[axis], along)
    placed = _Updates(call, data, (axis,), indices, along, asked, update, winners)
    axes = output_axes(shape)
    bounds = tuple(Bound(i, 0, which[d]) for d, i in enumerate(at(axes)) if d != axis and which[d] < shape[d])
    old = Load(data, at(axes))
    new = placed.combined(old, reach, (along,), whole)
    return call.emit(Compute(axes, (), None, Guard(bounds, new, old) if bounds else new, call.dtype(data)))


def _scatter_nd(call: OperatorCall) -> None:
    data, indices, updates = (call.value(position) for position in range(3))
    shape, which = call.shape(0), call.shape(1)
    depth = which[-1] if which else 0
    if not which or depth > len(shape) or call.shape(2) != (*which[:-1], *shape[depth:]):
        call.reject(f"scatters shape {list(call.shape(2))} at indices {list(which)} into {list(shape)}")
    known = _known_indices(call, shape[:depth])
    count = prod(which[:-1])
    if count == 0 or prod(shape) == 0:
        return call.emit_same(data)
    if known is not None:
        is_open = call.builder.is_open(data, range(depth))
        box = None if is_open else find_box(known, shape[:depth])
        if box is not None:
            return _scatter_box(call, box)
        indices = call.intermediate_constant(known, "indices")
    winners = None if known is None else _winners_at(known.reshape(count, depth), shape[:depth])
    rows = _reshaped(call, indices, (count, depth))
    moved = _reshaped(call, updates, (count, *shape[depth:]))
    axes = output_axes(shape)
    rest = at(axes[depth:])
    dimensions = tuple(range(depth))

    def asked(_: Places, step: Index) -> tuple[Expr, ...]:
        return tuple(Load(rows, (step, Index.of(d))) for d in dimensions)

    placed = _Updates(
        call, data, dimensions, rows, 0, asked, lambda _, step: Load(moved, (step, *rest)), winners
    )
    body = placed.combined(Load(data, at(axes)), axes[:depth], dimensions, axes)
    return call.emit(Compute(axes, (), None, body, call.dtype(data)))


def _scatter_box(call: OperatorCall, box: Box) -> None:
    """Updates of a box of places, each of which finds its own by subtraction."""
    axes = output_axes(call.shape(0))
    depth = len(box.extents)
    place, rest = at(axes)[:depth], at(axes)[depth:]
    old, new = Load(call.value(0), at(axes)), Load(call.value(2), (*box.update(place), *rest))
    reduction = call.text("reduction", "none")
    body = (
        new
        if reduction == "none"
        else apply(_reduction(call, reduction, call.dtype(new.buffer))[1], old, new)
    )
    bounds = box.bounds(place)
    return call.emit(
        Compute(axes, (), None, Guard(bounds, body, old) if bounds else body, call.dtype(old.buffer))
    )


def _reduction(call: OperatorCall, name: str, dtype: DType) -> tuple[str, str]:
    """How updates of one place are combined with each other, and with the data."""
    if name not in _REDUCTIONS:
        call.reject(f"has the unknown reduction {name[:20]!r}")
    if dtype.is_stored_only or dtype is DType.BOOL:
        call.unsupported(f"reduction of {dtype.value}")
    return _REDUCTIONS[name]


class _Updates:
    """Says which updates count for each place."""

    def __init__(
        self,
        call: OperatorCall,
        data: str,
        dimensions: tuple[int, ...],
        indices: str,
        along: int,
        asked: Callable[[Places, Index], tuple[Expr, ...]],
        update: Callable[[Places, Index], Load],
        winners: Array | None = None,
    ) -> None:
        """Where updates go, and what they are.

        Args:
            call: has the reduction.
            data: what is updated.
            dimensions: of the data, which are looked up.
            indices: of the updates.
            along: their dimension along which there are the steps.
            asked: of a place and a step the index along each of `dimensions`.
            update: of a place and a step.
            winners: the last update of each place, where that is known.
        """
        self._call, self._data, self._dimensions, self._indices = call, data, dimensions, indices
        self._asked, self._update, self._winners, self._along = asked, update, winners, along
        self._count = call.builder.shapes[indices][along]
        is_open = call.builder.is_open(indices, [along])
        self._few = call.decided("few", self._count <= _FEW and not is_open)

    def combined(self, old: Expr, reach: Axes, placed: tuple[int, ...], axes: Axes) -> Expr:
        """The element at a place: `old`, or what updates make of it.

        Args:
            old: the element of the data.
            reach: the axes of places that the indices tell apart.
            placed: those of `reach` that are looked up.
            axes: of all that updates can reach.
        """
        reduction = self._call.text("reduction", "none")
        if reduction == "none":
            return self._replaced(old, reach, placed)
        dtype = self._call.dtype(self._update(at(reach), Index()).buffer)
        reducer, op = _reduction(self._call, reduction, dtype)
        inner = ReduceAxes()
        step = inner.index(self._count)
        body = self._there(at(reach), placed, step, self._update(at(reach), step), neutral(reducer, dtype))
        total = self._call.intermediate(reduced(axes, inner, reducer, body, dtype), "updates")
        return apply(op, old, Load(total, at(axes)))

    def _replaced(self, old: Expr, reach: Axes, placed: tuple[int, ...]) -> Expr:
        none = neutral("max", DType.I32)
        if self._winners is not None:
            last = self._call.intermediate_constant(self._winners, "last")
        else:
            inner = ReduceAxes()
            step = inner.index(self._count)
            steps = counting(self._call, self._indices, [self._along], DType.I32, "steps")
            body = self._there(at(reach), placed, step, Load(steps, (step,)), none)
            last = self._call.intermediate(reduced(reach, inner, "max", body, DType.I32), "last")
        found = LookedUp(f"@{last}", self._count)
        winner = Load(last, at(reach))
        new = Lookup(found, winner, self._update(at(reach), Index.of(found)))
        return apply("select", apply("less", winner, Const(0, DType.I32)), old, new)

    def _there(
        self, place: Places, placed: tuple[int, ...], step: Index, inside: Expr, outside: Expr
    ) -> Expr:
        """`inside` at the place that a step's indices say, `outside` elsewhere."""
        asked = self._asked(place, step)
        if not asked:
            return inside
        if self._few:
            hits = (
                self._hit(a, place[p], d) for a, p, d in zip(asked, placed, self._dimensions, strict=True)
            )
            return apply("select", reduce(partial(apply, "and"), hits), inside, outside)
        shape = self._call.builder.shapes[self._data]
        found = [LookedUp(f"@{self._indices}.{d}", shape[d]) for d in self._dimensions]
        bounds = tuple(Bound(place[p] - Index.of(f), 0, 1) for p, f in zip(placed, found, strict=True))
        body: Expr = Guard(bounds, inside, outside)
        for each, index in zip(reversed(found), reversed(asked), strict=True):
            body = Lookup(each, index, body)
        return body

    def _hit(self, index: Expr, place: Index, dimension: int) -> Expr:
        """Whether an index, which may count from the end, is a place along a dimension of the data."""
        kind = self._call.dtype(self._indices)
        numbers = counting(self._call, self._data, [dimension], kind, "numbers")
        extent = size_along(self._call, self._data, dimension, kind)
        front = apply("select", apply("less", index, Const(0, kind)), apply("add", index, extent), index)
        return apply("equal", front, Load(numbers, (place,)))


def _known_indices(call: OperatorCall, extents: Sequence[int]) -> Array | None:
    """Indices that are known at compile time, counted from the front; rejects those outside of the data."""
    name = call.value(1)
    if call.builder.dtype(name).kind not in "iu":
        call.reject(f"has indices of type {call.builder.dtype(name)}")
    known, limits = call.builder.known(name), np.asarray(extents, np.int64)
    if known is None:
        return None
    if known.size and ((known < -limits) | (known >= limits)).any():
        call.reject(f"has indices outside of the {list(extents)} elements that they choose from")
    return np.where(known < 0, known + limits, known).astype(np.int64)


def _reshaped(call: OperatorCall, value: str, wanted: tuple[int, ...]) -> str:
    shape = call.builder.shapes[value]
    if shape == wanted:
        return value
    if value in call.builder.constants:
        return call.intermediate_constant(call.builder.constants[value].reshape(wanted), "rows")
    axes = output_axes(wanted)
    load = Load(value, reshaped_indices(shape, wanted, at(axes)))
    return call.intermediate(Compute(axes, (), None, load, call.dtype(value)), "rows")


def _winners_along(indices: Array, extent: int, axis: int) -> Array:
    """For each place the last update of known indices, -1 for none."""
    found = np.full((*indices.shape[:axis], extent, *indices.shape[axis + 1 :]), -1, np.int32)
    steps = np.arange(indices.shape[axis]).reshape([-1 if d == axis else 1 for d in range(indices.ndim)])
    # Of equal indices the last one counts, as NumPy assigns in order.
    np.put_along_axis(found, indices.astype(np.int64), steps, axis=axis)
    return found


def _winners_at(indices: Array, extents: tuple[int, ...]) -> Array:
    """For each place the last update of known indices, -1 for none. indices: [updates, dimensions]."""
    found = np.full(extents, -1, np.int32)
    found[tuple(indices.T)] = np.arange(len(indices), dtype=np.int32)
    return found


LOWERINGS: Mapping[str, Lowering] = {
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
