"""Pad: the input with elements around it, that are a constant or its own.

constant  0 0 a b c 0 0
edge      a a a b c c c
reflect   c b a b c b a
wrap      b c a b c a b
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, distinct_axes
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index
from compiler.scalar import Bound, Const, Expr, Guard, Load

_MODES = ("constant", "edge", "reflect", "wrap")


def _pad(call: OperatorCall) -> None:
    value, shape = call.value(0), call.shape(0)
    dtype = call.dtype(value)
    mode = call.text("mode", "constant")
    if mode not in _MODES:
        call.reject(f"has the unknown mode {mode[:20]!r}")
    before, after = _widths(call, mode)
    if mode == "constant":
        return call.emit(_with_constant(value, shape, before, after, _fill(call, dtype)))
    padded = [d for d in range(len(shape)) if before[d] or after[d]]
    for d in padded:
        # A dimension at a time: what is outside in two of them is the corner of what is outside in one.
        compute = _with_own(value, call.builder.shapes[value], d, (before[d], after[d]), mode, dtype)
        value = call.intermediate(compute, f"padded{d}")
    return call.emit_same(value)


def _with_constant(
    value: str, shape: tuple[int, ...], before: list[int], after: list[int], fill: Const
) -> Compute:
    axes = output_axes(n + a + b for n, b, a in zip(shape, before, after, strict=True))
    indices = [index - b for index, b in zip(at(axes), before, strict=True)]
    bounds = tuple(
        Bound(index, 0, n)
        for index, n, b, a in zip(indices, shape, before, after, strict=True)
        if b > 0 or a > 0
    )
    load = Load(value, tuple(indices))
    return Compute(axes, (), None, Guard(bounds, load, fill) if bounds else load, fill.dtype)


def _with_own(
    value: str, shape: tuple[int, ...], d: int, widths: tuple[int, int], mode: str, dtype: DType
) -> Compute:
    """Widths below 0 cut off before the others are filled with what is left."""
    start, end = max(0, -widths[0]), shape[d] - max(0, -widths[1])
    before, after = max(0, widths[0]), max(0, widths[1])
    axes = output_axes((*shape[:d], end - start + before + after, *shape[d + 1 :]))
    places = at(axes)

    def element(index: Index) -> Expr:
        return Load(value, (*places[:d], index + start, *places[d + 1 :]))

    body = _element(element, places[d] - before, end - start, (before, after), mode)
    return Compute(axes, (), None, body, dtype)


def _element(
    element: Callable[[Index], Expr], at: Index, size: int, widths: tuple[int, int], mode: str
) -> Expr:
    """The element at a place from -before to size + after."""
    before, after = widths
    period = 2 * (size - 1)
    if mode == "wrap":
        return element(at % size)
    if mode == "edge" or size == 1:
        low, high = ZERO, Index.of(size - 1)
    elif max(widths) < size:
        low, high = at * -1, Index.of(period) - at
    else:
        turn = at % period
        return Guard((Bound(turn, 0, size),), element(turn), element(Index.of(period) - turn))
    body = element(at)
    if after:
        body = Guard((Bound(at, size, size + after),), element(high), body)
    if before:
        body = Guard((Bound(at, -before, 0),), element(low), body)
    return body


def _widths(call: OperatorCall, mode: str) -> tuple[list[int], list[int]]:
    """Elements in front of and behind each dimension. Around nothing there can be a constant."""
    rank = len(call.shape(0))
    pads = (call.ints("pads") or []) if call.opset < 11 else call.constant_ints(1)
    axes = distinct_axes(call, call.constant_ints(3), rank) if call.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        call.reject(f"has {len(pads)} pads for {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[len(axes) + place]
    for n, b, a in zip(call.shape(0), before, after, strict=True):
        if n + min(b, 0) + min(a, 0) < 1 and (n or min(b, a) < 0 or mode != "constant"):
            call.reject(f"cuts everything off shape {list(call.shape(0))} with pads {pads}")
    return before, after


def _fill(call: OperatorCall, dtype: DType) -> Const:
    """The constant, 0 unless given; never rounded on the way where it is a whole number."""
    if call.opset < 11:
        value = np.asarray(call.number("value", 0.0))
    else:
        value = call.constant(2) if call.has(2) else np.zeros(1)
    if value.size != 1:
        call.reject(f"has a value of shape {list(value.shape)} instead of one number")
    number = value.reshape(-1)[0]
    return Const(float(number) if dtype.is_float else int(number), dtype)


LOWERINGS: Mapping[str, Lowering] = {"Pad": _pad}
