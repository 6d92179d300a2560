"""Scalar expressions evaluated at every point of an iteration space at once, with NumPy.

Whole numbers are computed in their own types and wrap around as the machine's do; floats in the grid's type, whatever
their own, so that float64 gives a reference: only types that nothing is computed in are rounded to. Loads with affine
indices are strided views, guarded ones views of a padded copy; the rest is gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from compiler import elementary
from compiler.casting import cast
from compiler.dtype import DType
from compiler.errors import CompileError
from compiler.index import Index
from compiler.scalar import Apply, Bound, Cast, Const, Dot, Expr, Guard, Load, Lookup, Pick
from compiler.scalar_ops import OPS

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Grid:
    """Evaluates expressions for all values of `ranges` at once; results broadcast to the grid's shape."""

    ranges: Mapping[str, int]
    arrays: Mapping[str, Array]
    dtype: np.dtype[Any]
    found: Mapping[str, Array] = field(default_factory=dict)
    """What the Lookups around the expression have read."""

    def value(self, expr: Expr, *, guarded: bool = False) -> Array:
        """`guarded`: some points are discarded later, so their indices may be anything."""
        match expr:
            case Const(value, _):
                return cast(np.asarray(value), expr.dtype, self.dtype)
            case Load():
                return self._load(expr, guarded=guarded)
            case Apply(op, args):
                result: Array = OPS[op].evaluate(*(self.value(a, guarded=guarded) for a in args))
                return result
            case Guard():
                return self._guard(expr, guarded=guarded)
            case Cast(value, dtype):
                return cast(self.value(value, guarded=guarded), dtype, self.dtype)
            case Pick(values, index):
                (where,) = index_arrays((index,), self.ranges, self.found)
                return np.asarray(values, dtype=self.dtype)[where]
            case Lookup(name, value, inside):
                read = elementary.place(self.value(value, guarded=guarded), name.size)
                return replace(self, found={**self.found, name.name: read}).value(inside, guarded=guarded)
            case Dot():
                msg = "an instruction belongs to a loop nest; evaluate the workload instead"
                raise CompileError(msg)
            case _:
                assert_never(expr)

    def _type(self, dtype: DType) -> np.dtype[Any]:
        """A float type is not rounded to: the grid's own type is the precision that was asked for."""
        return self.dtype if dtype.is_float else dtype.computed.numpy

    def _load(self, load: Load, *, guarded: bool) -> Array:
        array = self.arrays[load.buffer]
        bounds = [index.bounds(self.ranges) for index in load.indices]
        inside = all(a >= 0 and b < n for (a, b), n in zip(bounds, array.shape, strict=True))
        if not inside and not guarded:
            msg = f"{load.buffer} of shape {list(array.shape)} is read at {bounds}; guard that load"
            raise CompileError(msg)
        if inside and all(index.is_affine() for index in load.indices):
            return _view(array, load.indices, self.ranges)
        where = index_arrays(load.indices, self.ranges, self.found)
        if not inside:
            where = [np.clip(i, 0, n - 1) for i, n in zip(where, array.shape, strict=True)]
        return array[tuple(where)]

    def _guard(self, guard: Guard, *, guarded: bool) -> Array:
        bounds = []
        for bound in guard.bounds:
            low, high = bound.index.bounds(self.ranges)
            if high < bound.low or low >= bound.high:
                return self.value(guard.outside, guarded=guarded)
            if low < bound.low or high >= bound.high:
                bounds.append(bound)
        if not bounds:
            return self.value(guard.inside, guarded=guarded)
        padded = self._padded(bounds, guard.inside, guard.outside)
        if padded is not None:
            return padded
        inside = self.value(guard.inside, guarded=True)
        outside = self.value(guard.outside, guarded=True)
        return np.where(self._mask(bounds), inside, outside)

    def _mask(self, bounds: list[Bound]) -> Array:
        mask: Array = np.asarray(True)
        for bound in bounds:
            (index,) = index_arrays((bound.index,), self.ranges, self.found)
            mask = mask & (index >= bound.low) & (index < bound.high)
        return mask

    def _padded(self, bounds: list[Bound], inside: Expr, outside: Expr) -> Array | None:
        """A guarded load as a view of a padded copy, where each bound limits a dimension of the load."""
        if not isinstance(inside, Load) or not isinstance(outside, Const):
            return None
        if not all(index.is_affine() for index in inside.indices):
            return None
        array = self.arrays[inside.buffer]
        spans = [index.bounds(self.ranges) for index in inside.indices]
        limits = [[low, high + 1] for low, high in spans]
        for bound in bounds:
            shifts = [(index - bound.index).constant for index in inside.indices]
            dimension = next((d for d, shift in enumerate(shifts) if shift is not None), None)
            if dimension is None:
                return None
            shift = shifts[dimension] or 0
            limits[dimension][0] = max(limits[dimension][0], bound.low + shift)
            limits[dimension][1] = min(limits[dimension][1], bound.high + shift)
        if any(low < 0 or high > n for (low, high), n in zip(limits, array.shape, strict=True)):
            return None
        copy = np.full([high - low + 1 for low, high in spans], outside.value, self._type(outside.dtype))
        to = tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(limits, spans, strict=True))
        copy[to] = array[tuple(slice(a, b) for a, b in limits)]
        moved = tuple(index - low for index, (low, _) in zip(inside.indices, spans, strict=True))
        return _view(copy, moved, self.ranges)


def _view(array: Array, indices: tuple[Index, ...], ranges: Mapping[str, int]) -> Array:
    """A load with affine indices, in bounds, as a strided view: one dimension per range, 1 where unused."""
    start = array[tuple(slice(index.const, None) for index in indices)]
    shape, strides = [], []
    for name, size in ranges.items():
        steps = [index.coefficient(name) for index in indices]
        shape.append(size if any(steps) else 1)
        strides.append(sum(c * s for c, s in zip(steps, array.strides, strict=True)))
    return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=False)


def index_arrays(
    indices: tuple[Index, ...], ranges: Mapping[str, int], found: Mapping[str, Array] | None = None
) -> list[Array]:
    """Each index for all points; arrays that broadcast to the shape of `ranges`. `found`: what was looked up."""
    rank = len(ranges)
    counters: dict[str, Array] = {
        name: np.arange(size).reshape([size if d == position else 1 for d in range(rank)])
        for position, (name, size) in enumerate(ranges.items())
    }
    arrays = [np.asarray(index.evaluate({**counters, **(found or {})})) for index in indices]
    return [array if array.ndim else array.reshape((1,) * rank) for array in arrays]
