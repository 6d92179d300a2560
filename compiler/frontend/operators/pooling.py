"""Pooling: reductions over sliding windows or over the whole image."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, size_of
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced, share
from compiler.frontend.powers import power
from compiler.frontend.windows import Window, windowed_load, windows
from compiler.graph.ir import Compute
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.scalar_type import neutral

_ZERO = Const(0.0)
_TURNS = 3
"""Windows have so many times the elements that they take in turns, for what is stored in between to pay."""
_MOST_COUNTS = 1 << 24
"""Places of an image for which the size of the window is stored."""


def _max_pool(call: OperatorCall) -> None:
    """Outputs: the largest elements, and where in the input they are."""
    slides = _windows(call, floats=False)
    largest = _pooled_in_turns(call, slides, "max", neutral("max", call.dtype(call.value(0))))
    if len(call.proto.output) < 2 or not call.proto.output[1]:
        return call.emit(largest)
    value = call.intermediate(largest, "max")
    call.emit_same(value)
    return call.emit(_places(call, slides, value), 1)


def _places(call: OperatorCall, slides: tuple[Window, ...], largest: str) -> Compute:
    """Of the largest element of each window the place in the whole input, the first in row-major order."""
    shape = call.shape(0)
    axes = output_axes(call.builder.shapes[largest])
    batch, channel, *spots = at(axes)
    inner = ReduceAxes()
    taps = [inner.index(slide.taps) for slide in slides]
    flat: Expr = Const(0, DType.I64)
    for d, slide in enumerate(slides):
        reach = np.arange(slide.outputs)[:, None] * slide.stride + np.arange(slide.taps) * slide.dilation
        place = call.intermediate_constant(reach - slide.before, f"place{d}")
        flat = apply("mul", flat, Const(slide.size, DType.I64))
        flat = apply("add", flat, Load(place, (spots[d], taps[d])))
    none = Const(2**62, DType.I64)
    element = Load(
        call.value(0), (batch, channel, *(s.index(o, t) for s, o, t in zip(slides, spots, taps, strict=True)))
    )
    hit = apply("equal", element, Load(largest, at(axes)))
    chosen: Expr = apply("select", hit, flat, none)
    bounds = tuple(
        Bound(index, 0, slide.size)
        for index, slide in zip(element.indices[2:], slides, strict=True)
        if slide.pads
    )
    body = Guard(bounds, chosen, none) if bounds else chosen
    first = Load(call.intermediate(reduced(axes, inner, "min", body, DType.I64), "first"), at(axes))
    image = size_of(shape[2:])
    starts = np.arange(shape[0] * shape[1]).reshape(shape[:2]) * image
    start = Load(call.intermediate_constant(starts, "starts"), (batch, channel))
    within: Expr = first if not call.integer("storage_order") else _column_major(first, shape[2:])
    return Compute(axes, (), None, apply("add", start, within), DType.I64)


def _column_major(flat: Expr, sizes: tuple[int, ...]) -> Expr:
    """The place in column-major order of a place in row-major order."""
    total: Expr = Const(0, DType.I64)
    step = size_of(sizes)
    for size in reversed(sizes):
        step //= size
        extent = Const(size, DType.I64)
        total = apply("add", total, apply("mul", apply("rem", flat, extent), Const(step, DType.I64)))
        flat = apply("div", flat, extent)
    return total


def _average_pool(call: OperatorCall) -> None:
    """Sums over windows, times the share that each of their elements has."""
    slides = _windows(call)
    total = call.intermediate(_pooled_in_turns(call, slides, "sum", _ZERO), "sum")
    axes = output_axes(call.builder.shapes[total])
    value = Load(total, at(axes))
    counts = _counts(call, slides)
    if all(count.min() == count.max() for count in counts):
        body: Expr = apply("mul", value, Const(1.0 / math.prod(int(count[0]) for count in counts)))
    else:
        shares = (1 / reduce(np.multiply.outer, counts)).astype(np.float32)
        body = apply("mul", value, Load(call.intermediate_constant(shares, "share"), at(axes)[2:]))
    call.emit(Compute(axes, (), None, body))


def _global_average_pool(call: OperatorCall) -> None:
    sizes = _image(call)
    total = call.intermediate(_pooled(call, _whole(sizes), "sum", _ZERO), "sum")
    axes = output_axes(call.builder.shapes[total])
    image = range(2, len(call.shape(0)))
    call.emit(Compute(axes, (), None, apply("mul", Load(total, at(axes)), share(call, call.value(0), image))))


def _global_max_pool(call: OperatorCall) -> None:
    call.emit(_pooled(call, _whole(_image(call)), "max", Const(-math.inf)))


def _lp_pool(call: OperatorCall) -> None:
    _emit_norms(call, _windows(call))


def _global_lp_pool(call: OperatorCall) -> None:
    _emit_norms(call, _whole(_image(call)))


def _emit_norms(call: OperatorCall, slides: tuple[Window, ...]) -> None:
    """Emit (sum of |x|^p)^(1/p) under each window."""
    p = call.integer("p", 2)
    if p < 1:
        call.reject(f"has p {p}")
    sums = _pooled(call, slides, "sum", _ZERO)
    size = sums.body if p % 2 == 0 else apply("abs", sums.body)
    total = call.intermediate(replace(sums, body=power(size, p)), "sum")
    axes = output_axes(call.builder.shapes[total])
    call.emit(Compute(axes, (), None, power(Load(total, at(axes)), 1 / p)))


def _image(call: OperatorCall, *, floats: bool = True) -> tuple[int, ...]:
    """Spatial sizes of the input."""
    if floats:
        float_operands(call, call.value(0))
    shape = call.shape(0)
    if len(shape) < 3:
        call.reject(f"has an input of shape {list(shape)} instead of batch, channels and an image")
    return shape[2:]


def _whole(sizes: tuple[int, ...]) -> tuple[Window, ...]:
    return tuple(Window(n, n, 1, 1, 0, 0, 1) for n in sizes)


def _windows(call: OperatorCall, *, floats: bool = True) -> tuple[Window, ...]:
    sizes = _image(call, floats=floats)
    kernel = call.ints("kernel_shape")
    if kernel is None or len(kernel) != len(sizes):
        call.reject(f"has kernel_shape {kernel} for an image of {len(sizes)} dimensions")
    return windows(call, sizes, kernel)


def _pooled_in_turns(call: OperatorCall, slides: tuple[Window, ...], reducer: str, outside: Const) -> Compute:
    """One dimension after the other where large windows overlap: neighbours share what the first ones make."""
    value = call.value(0)
    if _TURNS * _in_turns(slides) > math.prod(s.taps for s in slides):
        return _pooled(call, slides, reducer, outside)
    moved = [d for d, slide in enumerate(slides) if slide.taps > 1]
    still = [Window(s.size, 1, 1, 1, 0, 0, s.size) for s in slides]
    for d in moved[:-1]:
        turn = tuple(slides[d] if other == d else still[other] for other in range(len(slides)))
        value = call.intermediate(_pooled(call, turn, reducer, outside, value), f"{reducer}.{d}")
        still[d] = Window(slides[d].outputs, 1, 1, 1, 0, 0, slides[d].outputs)
    last = tuple(slides[d] if d == moved[-1] else still[d] for d in range(len(slides)))
    return _pooled(call, last, reducer, outside, value)


def _in_turns(slides: tuple[Window, ...]) -> float:
    """Elements that each output takes in turns, those of the turns before included."""
    total, later = 0.0, 1.0
    for slide in reversed(slides):
        total += slide.taps * later
        later *= slide.size / slide.outputs
    return total


def _pooled(
    call: OperatorCall, slides: tuple[Window, ...], reducer: str, outside: Const, value: str = ""
) -> Compute:
    """`value`: what is pooled; the first input, if not said."""
    value = value or call.value(0)
    axes = output_axes((*call.shape(0)[:2], *(s.outputs for s in slides)))
    inner = ReduceAxes()
    taps = [inner.index(s.taps) for s in slides]
    batch, channel, *places = at(axes)
    moves = list(zip(slides, places, taps, strict=True))
    element = windowed_load(value, (batch, channel), moves, outside)
    return reduced(axes, inner, reducer, element, call.dtype(call.value(0)))


def _counts(call: OperatorCall, slides: tuple[Window, ...]) -> list[npt.NDArray[np.int64]]:
    """For each dimension the elements that count under the window, per output, or one number for all of them."""
    if not any(slide.pads or slide.taps < slide.kernel for slide in slides):
        return [np.full(1, slide.kernel, np.int64) for slide in slides]
    if math.prod(slide.outputs for slide in slides) > _MOST_COUNTS:
        call.unsupported(f"padding of an image of more than {_MOST_COUNTS} elements")
    include = bool(call.integer("count_include_pad"))
    return [np.maximum(slide.taps_inside(padding_counts=include), 1) for slide in slides]


LOWERINGS: Mapping[str, Lowering] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
    "LpPool": _lp_pool,
    "GlobalLpPool": _global_lp_pool,
}
