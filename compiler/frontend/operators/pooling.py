"""Pooling: reductions over sliding windows or over the whole image."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from compiler.frontend.call import Lowering, OperatorCall, size_of
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.windows import Window, windowed_load, windows
from compiler.graph.ir import Compute
from compiler.scalar import Const, Expr, Load, apply


def _max_pool(call: OperatorCall) -> None:
    call.emit(_pooled(call, _windows(call), "max", -math.inf))


def _average_pool(call: OperatorCall) -> None:
    """Sums over windows, then divided by how many elements each window has."""
    slides = _windows(call)
    total = call.intermediate(_pooled(call, slides, "sum", 0.0), "sum")
    axes = output_axes(call.builder.shapes[total])
    count = _count(call, slides)
    value = Load(total, at(axes))
    if count.min() == count.max():
        body: Expr = apply("mul", value, Const(1.0 / float(count.flat[0])))
    else:
        name = call.intermediate_constant(count.astype(np.float32), "count")
        body = apply("div", value, Load(name, at(axes)[2:]))
    call.emit(Compute(axes, (), None, body))


def _global_average_pool(call: OperatorCall) -> None:
    sizes = _image(call)
    total = call.intermediate(_pooled(call, _whole(sizes), "sum", 0.0), "sum")
    axes = output_axes(call.builder.shapes[total])
    body = apply("mul", Load(total, at(axes)), Const(1.0 / size_of(sizes)))
    call.emit(Compute(axes, (), None, body))


def _global_max_pool(call: OperatorCall) -> None:
    call.emit(_pooled(call, _whole(_image(call)), "max", -math.inf))


def _image(call: OperatorCall) -> tuple[int, ...]:
    """Spatial sizes of the input."""
    float_operands(call, call.value(0))
    shape = call.shape(0)
    if len(shape) < 3:
        call.reject(f"has an input of shape {list(shape)} instead of batch, channels and an image")
    return shape[2:]


def _whole(sizes: tuple[int, ...]) -> tuple[Window, ...]:
    return tuple(Window(n, n, 1, 1, 0, 0, 1) for n in sizes)


def _windows(call: OperatorCall) -> tuple[Window, ...]:
    sizes = _image(call)
    kernel = call.ints("kernel_shape")
    if kernel is None or len(kernel) != len(sizes):
        call.reject(f"has kernel_shape {kernel} for an image of {len(sizes)} dimensions")
    return windows(call, sizes, kernel)


def _pooled(call: OperatorCall, slides: tuple[Window, ...], reducer: str, outside: float) -> Compute:
    axes = output_axes((*call.shape(0)[:2], *(s.outputs for s in slides)))
    inner = ReduceAxes()
    taps = [inner.index(s.kernel) for s in slides]
    batch, channel, *places = at(axes)
    moves = list(zip(slides, places, taps, strict=True))
    return reduced(axes, inner, reducer, windowed_load(call.value(0), (batch, channel), moves, outside))


def _count(call: OperatorCall, slides: tuple[Window, ...]) -> np.ndarray:
    """Elements of the window at each place of the output image."""
    include = bool(call.integer("count_include_pad"))
    total = np.ones((1,) * len(slides), np.int64)
    for dimension, slide in enumerate(slides):
        counts = np.maximum(slide.taps_inside(padding_counts=include), 1)
        total = total * counts.reshape([-1 if d == dimension else 1 for d in range(len(slides))])
    return total


LOWERINGS: Mapping[str, Lowering] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average_pool,
    "GlobalMaxPool": _global_max_pool,
}
