"""Scatters: data with elements replaced by updates, or combined with them, at places that other elements say.

    ScatterElements  y[v, k] = u[i, k]  with v = indices[i, k]
    ScatterND        y[v, w, k] = u[i, k]  with v = indices[i, 0], w = indices[i, 1]

Each element of the result looks for its updates: of several the last one counts, or all where they are combined. So no
two iterations write to one place, in any order and on any number of threads. Few updates are compared with every place.
Many are sorted by the places that they go to, those of one place added up, and each place finds its own by a binary
search. Indices that are known are searched at compile time; those of a box of places need no search (`boxes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from compiler.dtype import DType
from compiler.frontend.boxes import Box, find_box
from compiler.frontend.call import Array, Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, counting, output_axes, reduced, size_along
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.searches import largest
from compiler.frontend.sorts import Sorted, first_sorted
from compiler.frontend.spread import narrowed, spread_dimensions
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, Lookup, apply
from compiler.scalar_type import neutral
from compiler.symbol import Axis, axis

Places = tuple[Index, ...]

_FEW = 128
"""Updates that every place is compared with."""
_MOST_PAIRED = 1 << 11
"""Updates of an open number that every place is compared with."""
_STRIDE = 8
"""Sums of so many neighbours at once."""
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
    else:
        indices = _counted_from_front(call, indices, data, axis)
    # Places that an update can reach: all along the axis, and as far as the indices go along the others. Along
    # dimensions where all indices are the same, updates are rows: they go to the same places.
    whole = output_axes(shape[d] if d == axis else which[d] for d in range(len(shape)))
    same = spread_dimensions(call.builder, indices) - {axis}
    if same:
        indices = narrowed(call, indices, same)
    reach = tuple(a for d, a in enumerate(whole) if d not in same)
    rest = tuple(a for d, a in enumerate(whole) if d in same)
    along = reach.index(whole[axis])

    def index(place: Places, step: Index) -> Places:
        return (*place[:along], step, *place[along + 1 :])

    def update(place: Places, step: Index) -> Load:
        chosen = iter(index(place, step))
        return Load(updates, tuple(i if d in same else next(chosen) for d, i in enumerate(at(whole))))

    search = _Search(call, [axis], indices, reach, along, index, update, rest)
    axes = output_axes(shape)
    bounds = tuple(Bound(i, 0, which[d]) for d, i in enumerate(at(axes)) if d != axis and which[d] < shape[d])
    old = Load(data, at(axes))
    new = search.combined(old, at(reach), whole)
    return call.emit(Compute(axes, (), None, Guard(bounds, new, old) if bounds else new, call.dtype(data)))


def _scatter_nd(call: OperatorCall) -> None:
    data, indices, updates = (call.value(position) for position in range(3))
    shape, which = call.shape(0), call.shape(1)
    depth = which[-1] if which else 0
    if not which or depth > len(shape) or call.shape(2) != (*which[:-1], *shape[depth:]):
        call.reject(f"scatters shape {list(call.shape(2))} at indices {list(which)} into {list(shape)}")
    known = _known_indices(call, shape[:depth])
    count, places = prod(which[:-1]), prod(shape[:depth])
    if count == 0 or prod(shape) == 0:
        return call.emit_same(data)
    if known is not None:
        is_open = call.builder.is_open(data, range(depth))
        box = None if is_open else find_box(known, shape[:depth])
        if box is not None:
            return _scatter_box(call, box)
        indices = call.intermediate_constant(known, "indices")
    flat = _flat_indices(call, indices, data, shape[:depth])
    rows = _reshaped(call, updates, (count, *shape[depth:]))
    axes = output_axes(shape)
    rest = axes[depth:]
    place = Index()
    for n, i in zip(shape[:depth], at(axes), strict=False):
        place = place * n + i
    search = _Search(
        call,
        range(depth),
        flat,
        (axis("p0", places),),
        0,
        lambda _, step: (step,),
        lambda _, step: Load(rows, (step, *at(rest))),
        rest,
    )
    body = search.combined(Load(data, at(axes)), (place,), axes)
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


class _Search:
    """Finds the updates of each place.

    `reach`: an axis per dimension of the places that updates can have; `along`: the dimension of `reach` that an index
    is of.
    """

    def __init__(
        self,
        call: OperatorCall,
        axes: Sequence[int],
        indices: str,
        reach: tuple[Axis, ...],
        along: int,
        index: Callable[[tuple[Index, ...], Index], tuple[Index, ...]],
        update: Callable[[tuple[Index, ...], Index], Load],
        rest: tuple[Axis, ...] = (),
    ) -> None:
        """`index`, `update`: of a place and a step in 0 .. count.

        `axes`: of the data, whose elements an index counts. `rest`: axes of an update's own elements.
        """
        self._call, self._indices, self._reach, self._along = call, indices, reach, along
        self._count = call.builder.shapes[indices][along]
        self._index, self._update, self._rest = index, update, rest
        known = call.builder.constants.get(indices)
        self._winners = None if known is None else _winners_along(known, reach[along].size, along)
        self._numbers = counting(
            call, call.value(0), axes, DType.from_numpy(call.builder.dtype(indices)), "numbers"
        )
        # A sort has steps for each number of elements, a comparison of all pairs one form.
        is_open = call.builder.is_open(indices, [along])
        self._few = call.decided("few", self._count <= (_MOST_PAIRED if is_open else _FEW))

    def combined(self, old: Expr, place: Places, axes: tuple[Axis, ...]) -> Expr:
        """The element at a place: `old`, or what updates make of it. `axes`: of all that updates can reach."""
        reduction = self._call.text("reduction", "none")
        if reduction == "none":
            return self._replaced(old, place)
        dtype = self._call.dtype(self._update(place, Index()).buffer)
        reducer, op = _reduction(self._call, reduction, dtype)
        if not self._few:
            total = self._call.intermediate(
                Compute(axes, (), None, self._found_total(reducer, place, dtype), dtype), "updates"
            )
        else:
            inner = ReduceAxes()
            step = inner.index(self._count)
            update = self._update(place, step)
            chosen = apply("select", self._hits(place, step), update, neutral(reducer, dtype))
            total = self._call.intermediate(reduced(axes, inner, reducer, chosen, dtype), "updates")
        return apply(op, old, Load(total, at(axes)))

    def _replaced(self, old: Expr, place: tuple[Index, ...]) -> Expr:
        if self._winners is not None:
            last = self._call.intermediate_constant(self._winners, "last")
        elif not self._few:
            order = self._sorted.places
            body = self._at_last(at(self._reach), lambda i: Load(order, i), Const(-1, DType.I32))
            last = self._call.intermediate(Compute(self._reach, (), None, body, DType.I32), "last")
        else:
            inner = ReduceAxes()
            step = inner.index(self._count)
            steps = counting(self._call, self._indices, [self._along], DType.I32, "steps")
            hit = self._hits(at(self._reach), step)
            body = apply("select", hit, Load(steps, (step,)), Const(-1, DType.I32))
            last = self._call.intermediate(reduced(self._reach, inner, "max", body, DType.I32), "last")
        found = LookedUp(f"@{last}", self._count)
        winner = Load(last, place)
        new = Lookup(found, winner, self._update(place, Index.of(found)))
        return apply("select", apply("less", winner, Const(0, DType.I32)), old, new)

    def _hits(self, place: tuple[Index, ...], step: Index) -> Expr:
        index = Load(self._indices, self._index(place, step))
        return apply("equal", index, Load(self._numbers, (place[self._along],)))

    # --- many updates

    @cached_property
    def _sorted(self) -> Sorted:
        """The indices in order, equal ones in the order of their updates."""
        return first_sorted(self._call, self._indices, self._along, self._count, descending=False)

    @cached_property
    def _ends(self) -> str:
        """How many indices go up to each place."""
        place = at(self._reach)
        number = Load(self._numbers, (place[self._along],))

        def holds(before: Index, yes: Expr, no: Expr) -> Expr:
            index = Load(self._sorted.elements, self._index(place, before))
            return apply("select", apply("less", number, index), no, yes)

        body = largest(self._call, self._count, holds, "ends")
        return self._call.intermediate(Compute(self._reach, (), None, body, DType.I32), "ends")

    def _at_last(self, place: Places, inside: Callable[[Places], Expr], outside: Expr) -> Expr:
        """What is at the last of the sorted indices that go to the place; `outside` where none does."""
        found = LookedUp(f"@{self._ends}.last", self._count)
        at_last = self._index(place, Index.of(found))
        here = Load(self._numbers, (place[self._along],))
        hit = apply("equal", Load(self._sorted.elements, at_last), here)
        # Where none goes so far, the number is -1, which is the last of all, and goes farther.
        number = apply("add", Load(self._ends, place), Const(-1, DType.I32))
        return Lookup(found, number, apply("select", hit, inside(at_last), outside))

    def _found_total(self, reducer: str, place: Places, dtype: DType) -> Expr:
        """All updates of a place together.

        Of sorted updates each takes in those of the same place that are up to 1, 2, ... 7 steps before it, then those
        that are 8, 16, ... before it, and so on: the last one of a place then has all.
        """
        call, along, rest = self._call, self._along, self._rest
        axes = (*(axis(a.name, self._count) if d == along else a for d, a in enumerate(self._reach)), *rest)
        items = at(axes)[: len(self._reach)]
        found = LookedUp(f"@{self._sorted.places}.update", self._count)
        order = Load(self._sorted.places, items)
        body: Expr = Lookup(found, order, self._update(items, Index.of(found)))
        total = call.intermediate(Compute(axes, (), None, body, dtype), "moved")
        step, outside = 1, neutral(reducer, dtype)
        while step < self._count:
            inner = ReduceAxes()
            before = items[along] - inner.index(_STRIDE) * step
            other = self._index(items, before)
            keys = self._sorted.elements
            same = apply("equal", Load(keys, other), Load(keys, items))
            inside = apply("select", same, Load(total, (*other, *at(rest))), outside)
            body = Guard((Bound(before, 0, self._count),), inside, outside)
            total = call.intermediate(reduced(axes, inner, reducer, body, dtype), f"sum.{step}")
            step *= _STRIDE
        summed = total
        return self._at_last(place, lambda i: Load(summed, (*i, *at(rest))), outside)


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


def _counted_from_front(call: OperatorCall, indices: str, data: str, axis: int) -> str:
    axes, kind = output_axes(call.builder.shapes[indices]), call.dtype(indices)
    body = _from_front(Load(indices, at(axes)), size_along(call, data, axis, kind), kind)
    return call.intermediate(Compute(axes, (), None, body, kind), "indices")


def _from_front(index: Expr, extent: Expr, dtype: DType) -> Expr:
    behind = apply("add", index, extent)
    return apply("select", apply("less", index, Const(0, dtype)), behind, index)


def _flat_indices(call: OperatorCall, indices: str, data: str, extents: tuple[int, ...]) -> str:
    """Of each update its place among all places, in row-major order: [updates]."""
    which = call.builder.shapes[indices]
    rows = _reshaped(call, indices, (prod(which[:-1]), which[-1]))
    axes = output_axes((prod(which[:-1]),))
    total: Expr = Const(0, DType.I64)
    for d in range(len(extents)):
        extent = size_along(call, data, d, DType.I64)
        index = Load(rows, (at(axes)[0], Index.of(d)))
        wide = index if call.dtype(rows) is DType.I64 else Cast(index, DType.I64)
        step = _from_front(wide, extent, DType.I64)
        total = apply("add", apply("mul", total, extent), step)
    known = call.builder.constants.get(indices)
    if known is not None:
        strides = np.cumprod([1, *extents[:0:-1]], dtype=np.int64)[::-1][: len(extents)]
        return call.intermediate_constant((known.reshape(-1, len(extents)) * strides).sum(1), "flat")
    return call.intermediate(Compute(axes, (), None, total, DType.I64), "flat")


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


LOWERINGS: Mapping[str, Lowering] = {
    "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
}
