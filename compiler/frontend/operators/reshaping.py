"""Reshapes: the same elements in the same order, under other indices."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall, distinct_axes, size_of
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index, Ranges
from compiler.scalar import Load


def _reshape(call: OperatorCall) -> None:
    shape, wanted = call.shape(0), call.constant_ints(1)
    if not call.integer("allowzero"):
        if any(n == 0 and d >= len(shape) for d, n in enumerate(wanted)):
            call.reject(f"copies a dimension that its input of shape {list(shape)} does not have")
        wanted = [shape[d] if n == 0 else n for d, n in enumerate(wanted)]
    known = size_of(tuple(n for n in wanted if n != -1))
    if wanted.count(-1) == 1 and known > 0 and size_of(shape) % known == 0:
        wanted[wanted.index(-1)] = size_of(shape) // known
    _emit(call, tuple(wanted))


def _flatten(call: OperatorCall) -> None:
    shape, axis = call.shape(0), call.integer("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        call.reject(f"has axis {axis} for a tensor of {len(shape)} dimensions")
    split = axis if axis >= 0 else axis + len(shape)
    _emit(call, (size_of(shape[:split]), size_of(shape[split:])))


def _squeeze(call: OperatorCall) -> None:
    shape = call.shape(0)
    axes = _axes(call)
    gone = distinct_axes(call, axes, len(shape)) if axes else [d for d, n in enumerate(shape) if n == 1]
    if any(shape[d] != 1 for d in gone):
        call.reject(f"squeezes axes {axes} of shape {list(shape)}, which are not all 1")
    _emit(call, tuple(n for d, n in enumerate(shape) if d not in gone))


def _unsqueeze(call: OperatorCall) -> None:
    shape, axes = call.shape(0), _axes(call)
    rank = len(shape) + len(axes)
    new = distinct_axes(call, axes, rank)
    old = iter(shape)
    _emit(call, tuple(1 if d in new else next(old) for d in range(rank)))


def _axes(call: OperatorCall) -> list[int]:
    if call.opset >= 13:
        return call.constant_ints(1) if call.has(1) else []
    return call.ints("axes") or []


def _emit(call: OperatorCall, wanted: tuple[int, ...]) -> None:
    value, shape = call.value(0), call.shape(0)
    if any(n < 0 for n in wanted) or size_of(wanted) != size_of(shape):
        call.reject(f"reshapes {list(shape)} to {list(wanted)}, which has other elements")
    if wanted == shape:
        return call.emit_same(value)
    if value in call.builder.constants and not call.is_open():
        return call.emit_constant(call.builder.constants[value].reshape(wanted))
    axes = output_axes(wanted)
    load = Load(value, reshaped_indices(shape, wanted, at(axes)))
    return call.emit(Compute(axes, (), None, load, call.dtype(value)))


def reshaped_indices(
    shape: tuple[int, ...], wanted: tuple[int, ...], indices: tuple[Index, ...]
) -> tuple[Index, ...]:
    """Indices into `shape` of the element at `indices` of `wanted`, in row-major order.

    Dimensions are taken in the smallest groups of equal size, so that most indices stay free of quotients:
    [2, 6, 7] as [12, 7] splits only the first index. `wanted` has as many elements as `shape`.
    """
    ranges = {i.name: n for i, n in zip(indices, wanted, strict=True) if i.name is not None}
    found: list[Index] = [ZERO] * len(shape)
    old = [d for d, n in enumerate(shape) if n > 1]
    new = [d for d, n in enumerate(wanted) if n > 1]
    while old:
        from_, to = [old.pop(0)], [new.pop(0)]
        while (a := _size(shape, from_)) != (b := _size(wanted, to)):
            (from_ if a < b else to).append((old if a < b else new).pop(0))
        flat = ZERO
        for d in to:
            flat = flat * wanted[d] + indices[d]
        _split(flat, from_, shape, ranges, found)
    return tuple(found)


def _split(flat: Index, group: list[int], shape: tuple[int, ...], ranges: Ranges, found: list[Index]) -> None:
    """Write the indices of a group of dimensions, given the position within the group."""
    step = _size(shape, group)
    for d in group:
        outer, step = step, step // shape[d]
        digit = flat if outer == _size(shape, group) else flat % outer
        found[d] = (digit // step).simplify(ranges)


def _size(shape: tuple[int, ...], dimensions: list[int]) -> int:
    return size_of(tuple(shape[d] for d in dimensions))


LOWERINGS: Mapping[str, Lowering] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
