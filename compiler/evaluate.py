"""Evaluation with NumPy: the values that a Compute or a Stage stands for, without generating code.

This is the reference of constant folding, verification and tests, so it must be right first, and fast enough for
the layers of a real network in float64: loads with affine indices become strided views, a sum over a product
becomes one matrix product per pair of factors, a scatter goes through what it scatters once, and anything else is
evaluated on a grid, in pieces of bounded size.
Whole numbers are exact: they are computed in their own types and wrap around.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from compiler.casting import held
from compiler.dtype import DType
from compiler.elementary import place
from compiler.grid import Array, Grid, index_arrays
from compiler.index import Index
from compiler.scalar import Apply, Expr, Guard, Load, Pick, loads, substitute, walk
from compiler.scalar_ops import OPS, REDUCERS
from compiler.scalar_type import neutral
from compiler.scatter import Computation, Scatter, find_scatter

_PIECE = 1 << 22
"""Elements of the largest intermediate array of one piece (32 MiB in float64)."""

_EXACT = 1 << 53
"""Whole numbers below it are exact in float64."""


class StoredComputation(Computation, Protocol):
    """A Stage: a Computation that says where its result goes; `apart` has one for each of several results."""

    @property
    def target(self) -> str: ...  # noqa: D102
    @property
    def target_indices(self) -> tuple[Index, ...]: ...  # noqa: D102
    @property
    def apart(self) -> Sequence[StoredComputation]: ...  # noqa: D102


class Buffer(Protocol):
    """An Operand: a named buffer and its extents in memory."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def sizes(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def dtype(self) -> DType: ...  # noqa: D102


class StagedComputation(Protocol):
    """A Workload: stages in order, and the buffers that they write."""

    @property
    def stages(self) -> Sequence[StoredComputation]: ...  # noqa: D102
    @property
    def temporaries(self) -> Sequence[Buffer]: ...  # noqa: D102
    @property
    def outputs(self) -> Sequence[Buffer]: ...  # noqa: D102


def evaluate_compute(
    compute: Computation, buffers: Mapping[str, Array], dtype: npt.DTypeLike = np.float64
) -> Array:
    """Values over `compute.axes`; floats are computed and accumulated in `dtype`, whole numbers in their own types.

    Args:
        compute: static extents only.
        buffers: array of every value that the body loads, in the shape that its indices address.
        dtype: type of the arithmetic with floats and of a float result.

    Raises:
        CompileError: a load outside any Guard leaves its buffer.
        InputError: an extent is symbolic.
    """
    arrays = {load.buffer: held(buffers[load.buffer], dtype) for load in loads(compute.body)}
    region = _Region(
        axes=tuple((a.name, a.size) for a in compute.axes),
        reduce_axes=tuple((a.name, a.size) for a in compute.reduce_axes),
        reducer=compute.reducer,
        body=compute.body,
    )
    scatter = find_scatter(compute)
    with np.errstate(all="ignore"):
        if scatter is not None:
            return _scattered(region, scatter, arrays, np.dtype(dtype))
        return np.asarray(_evaluate(region, arrays, np.dtype(dtype)), order="C")


def evaluate_stage(
    stage: Computation, buffers: Mapping[str, Array], dtype: npt.DTypeLike = np.float64
) -> Array:
    """Values over `stage.axes`; `buffers` are in storage shape. See `evaluate_compute`."""
    return evaluate_compute(stage, buffers, dtype)


def reference_outputs(workload: StagedComputation, operands: Mapping[str, Array]) -> dict[str, Array]:
    """Every output in storage shape (halo of zeros included): floats in float64, whole numbers in their own types.

    Args:
        workload: the stages run in their order.
        operands: array of each input and constant, in storage shape.
    """
    buffers: dict[str, Array] = dict(operands)
    for operand in (*workload.temporaries, *workload.outputs):
        kind = np.float64 if operand.dtype.is_float else operand.dtype.computed.numpy
        buffers[operand.name] = np.zeros(operand.sizes, kind)
    for stage in workload.stages:
        for single in stage.apart:
            _store(single, buffers[single.target], evaluate_stage(single, buffers))
    return {operand.name: buffers[operand.name] for operand in workload.outputs}


def _store(stage: StoredComputation, target: Array, values: Array) -> None:
    ranges = {a.name: a.size for a in stage.axes}
    where = np.broadcast_arrays(*index_arrays(stage.target_indices, ranges)) if target.ndim else ()
    target[tuple(where)] = values.reshape(where[0].shape if where else ())


@dataclass(frozen=True, slots=True)
class _Region:
    """A piece of an iteration space: axes as (name, extent), all counting from 0."""

    axes: tuple[tuple[str, int], ...]
    reduce_axes: tuple[tuple[str, int], ...]
    reducer: str | None
    body: Expr

    @property
    def ranges(self) -> dict[str, int]:
        return dict((*self.axes, *self.reduce_axes))

    def factors(self) -> tuple[Expr, ...]:
        return _factors(self.body) if self.reducer == "sum" else (self.body,)

    def piece(self, name: str, start: int, stop: int) -> _Region:
        def cut(axes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
            return tuple((n, stop - start if n == name else size) for n, size in axes)

        body = substitute(self.body, {name: Index.of(name) + start}) if start else self.body
        return replace(self, axes=cut(self.axes), reduce_axes=cut(self.reduce_axes), body=body)


def _evaluate(region: _Region, arrays: Mapping[str, Array], dtype: np.dtype[Any]) -> Array:
    ranges = region.ranges
    factors = region.factors()
    biggest = max((_used(factor, ranges) for factor in factors), key=_points)
    if _points(biggest) <= _PIECE:
        return _evaluate_piece(region, factors, arrays, dtype)
    name = max(biggest, key=lambda n: biggest[n])
    pieces = -(-_points(biggest) // _PIECE)
    step = max(1, ranges[name] // pieces)
    parts = [
        _evaluate(region.piece(name, start, min(start + step, ranges[name])), arrays, dtype)
        for start in range(0, ranges[name], step)
    ]
    names = [n for n, _ in region.axes]
    if name in names:
        return np.concatenate(parts, axis=names.index(name))
    return _reduce(region.reducer, np.stack(parts), (0,))


def _evaluate_piece(
    region: _Region, factors: tuple[Expr, ...], arrays: Mapping[str, Array], dtype: np.dtype[Any]
) -> Array:
    ranges = region.ranges
    if region.reducer == "sum":
        grids = [_Labelled.of(factor, _used(factor, ranges), arrays, dtype) for factor in factors]
        return _contract(grids, region)
    values = np.broadcast_to(Grid(ranges, arrays, dtype).value(region.body), tuple(ranges.values()))
    return _reduce(region.reducer, values, tuple(range(len(region.axes), len(ranges))))


def _scattered(region: _Region, scatter: Scatter, arrays: Mapping[str, Array], dtype: np.dtype[Any]) -> Array:
    """A reduction of which each iteration counts for the places that it looks up."""
    outer = dict(region.axes)
    ranges = {n: s for n, s in (*region.reduce_axes, *region.axes) if n not in scatter.places}
    name = max(ranges, key=lambda n: ranges[n])
    step = max(1, ranges[name] // -(-_points(ranges) // _PIECE))
    ufunc: Any = OPS[REDUCERS[region.reducer or "sum"].op].evaluate
    total: Array | None = None
    for start in range(0, ranges[name], step):
        piece = {**ranges, name: min(step, ranges[name] - start)}
        moved = {name: Index.of(name) + start}
        grid = Grid(piece, arrays, dtype)
        for lookup in scatter.lookups:
            read = place(grid.value(substitute(lookup.value, moved)), lookup.found.size)
            grid = replace(grid, found={**grid.found, lookup.found.name: read})
        values = grid.value(substitute(scatter.update, moved))
        if total is None:
            empty = neutral(region.reducer or "sum", DType.from_numpy(values.dtype))
            total = np.full(tuple(outer.values()), empty.value, values.dtype)
        own = tuple(scatter.places.get(n, Index.of(n)).substitute(moved) for n in outer)
        where = index_arrays(own, piece, grid.found)
        sizes = tuple(piece.values())
        ufunc.at(total, tuple(np.broadcast_to(w, sizes) for w in where), np.broadcast_to(values, sizes))
    assert total is not None
    return total


def _reduce(reducer: str | None, values: Array, dimensions: tuple[int, ...]) -> Array:
    if reducer is None or not dimensions:
        return values
    ufunc: Any = OPS[REDUCERS[reducer].op].evaluate
    result: Array = ufunc.reduce(values, axis=dimensions)
    return result.astype(values.dtype, copy=False)


def _factors(body: Expr) -> tuple[Expr, ...]:
    if isinstance(body, Apply) and body.op == "mul":
        return tuple(factor for arg in body.args for factor in _factors(arg))
    return (body,)


def _used(expr: Expr, ranges: Mapping[str, int]) -> dict[str, int]:
    """Extents of the names that an expression depends on, in the order of `ranges`."""
    names: set[str] = set()
    for e in walk(expr):
        if isinstance(e, Load):
            names.update(*(index.names() for index in e.indices))
        elif isinstance(e, Guard):
            names.update(*(bound.index.names() for bound in e.bounds))
        elif isinstance(e, Pick):
            names.update(e.index.names())
    return {name: size for name, size in ranges.items() if name in names}


def _points(ranges: Mapping[str, int]) -> int:
    return math.prod(ranges.values())


@dataclass(frozen=True, slots=True)
class _Labelled:
    """An array and the name of each of its dimensions."""

    array: Array
    names: tuple[str, ...]

    @staticmethod
    def of(
        factor: Expr, ranges: Mapping[str, int], arrays: Mapping[str, Array], dtype: np.dtype[Any]
    ) -> _Labelled:
        values = Grid(ranges, arrays, dtype).value(factor)
        return _Labelled(np.broadcast_to(values, tuple(ranges.values())), tuple(ranges))

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.names, self.array.shape, strict=True))

    def summed(self, keep: set[str]) -> _Labelled:
        drop = tuple(d for d, name in enumerate(self.names) if name not in keep)
        if not drop:
            return self
        total = self.array.sum(axis=drop, dtype=self.array.dtype)
        return _Labelled(total, tuple(n for n in self.names if n in keep))

    def matrix(self, *groups: list[str]) -> Array:
        """Dimensions in the order of the groups, each group but the first merged into one."""
        order = [self.names.index(name) for group in groups for name in group]
        sizes = self.sizes
        shape = [sizes[n] for n in groups[0]] + [math.prod(sizes[n] for n in g) for g in groups[1:]]
        return np.ascontiguousarray(self.array.transpose(order).reshape(shape))


def _contract(grids: list[_Labelled], region: _Region) -> Array:
    outer = [name for name, _ in region.axes]
    total = grids[0]
    for position, grid in enumerate(grids[1:], start=1):
        later = {name for other in grids[position + 1 :] for name in other.names}
        total = _product(total, grid, {*outer, *later})
    total = total.summed(set(outer))
    covered = {name for grid in grids for name in grid.names}
    repeats = math.prod(size for name, size in region.reduce_axes if name not in covered)
    sizes = total.sizes
    ordered = total.array.transpose([total.names.index(n) for n in outer if n in sizes])
    spread = ordered.reshape([sizes.get(n, 1) for n in outer])
    return np.broadcast_to(spread * spread.dtype.type(repeats), tuple(size for _, size in region.axes))


def _product(left: _Labelled, right: _Labelled, keep: set[str]) -> _Labelled:
    """Product of two arrays, summed over the names that nobody needs any more: a batched matrix product."""
    left = left.summed(keep | set(right.names))
    right = right.summed(keep | set(left.names))
    batch = [n for n in left.names if n in right.names and n in keep]
    inner = [n for n in left.names if n in right.names and n not in keep]
    rows = [n for n in left.names if n not in right.names]
    columns = [n for n in right.names if n not in left.names]
    product = _matrix_product(left.matrix(batch, rows, inner), right.matrix(batch, inner, columns))
    sizes = {**left.sizes, **right.sizes}
    names = (*batch, *rows, *columns)
    return _Labelled(product.reshape([sizes[n] for n in names]), names)


def _matrix_product(left: Array, right: Array) -> Array:
    """Left @ right. Whole numbers go through float64 where that is exact: NumPy multiplies them ten times slower."""
    kind = np.result_type(left, right)
    if kind.kind not in "iu":
        return np.asarray(left @ right)
    largest = [max(abs(int(a.max(initial=0))), abs(int(a.min(initial=0)))) for a in (left, right)]
    if largest[0] * largest[1] * left.shape[-1] >= _EXACT:
        return np.asarray(left @ right)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    return exact.astype(np.int64).astype(kind)
