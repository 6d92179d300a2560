"""Col2Im: columns of blocks added up to the image that they cover.

y[n, c, p...] = sum over k... of x[n, c * K + k, b]   where the block b has its element k at p
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.limits import checked_shape
from compiler.frontend.windows import Window, numbers
from compiler.index import ZERO, Index
from compiler.scalar import Bound, Const, Expr, Guard, Load


def _col2im(call: OperatorCall) -> None:
    x, shape = call.value(0), call.shape(0)
    float_operands(call, x)
    image, block = call.constant_ints(1), call.constant_ints(2)
    if len(shape) != 3 or not image or len(image) != len(block) or min(*image, *block) < 1:
        call.reject(f"has an input of shape {list(shape)}, image {image} and blocks {block}")
    slides = _slides(call, image, block)
    if shape[1] % prod(block) or shape[2] != prod(s.outputs for s in slides):
        call.reject(
            f"has an input of shape {list(shape)} for {[s.outputs for s in slides]} blocks of {block}"
        )
    channels = shape[1] // prod(block)
    axes = output_axes(checked_shape((shape[0], channels, *image), f"the output of node {call.label!r}"))
    batch, channel, *places = at(axes)
    inner = ReduceAxes()
    row, column = channel, ZERO
    bounds: list[Bound] = []
    for slide, place in zip(slides, places, strict=True):
        tap = inner.index(slide.kernel)
        start = place + slide.before - tap * slide.dilation
        # The block that begins there, if one does.
        if slide.stride > 1:
            bounds.append(Bound(start % slide.stride, 0, 1))
        bounds.append(Bound(start, 0, (slide.outputs - 1) * slide.stride + 1))
        row = row * slide.kernel + tap
        column = column * slide.outputs + start // slide.stride
    element: Expr = Guard(tuple(bounds), Load(x, (batch, row, Index.of(column))), Const(0.0, call.dtype(x)))
    call.emit(reduced(axes, inner, "sum", element, call.dtype(x)))


def _slides(call: OperatorCall, image: list[int], block: list[int]) -> list[Window]:
    rank = len(image)
    strides, dilations = numbers(call, "strides", rank, 1), numbers(call, "dilations", rank, 1)
    pads = numbers(call, "pads", 2 * rank, 0)
    found = []
    for d in range(rank):
        room = image[d] + pads[d] + pads[rank + d] - (block[d] - 1) * dilations[d] - 1
        if room < 0:
            call.reject(f"has blocks of {block} in an image of {image}")
        outputs = room // strides[d] + 1
        found.append(Window(image[d], block[d], strides[d], dilations[d], pads[d], pads[rank + d], outputs))
    return found


LOWERINGS: Mapping[str, Lowering] = {"Col2Im": _col2im}
