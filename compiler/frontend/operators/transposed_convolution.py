"""Transposed convolution: a convolution of the input with zeros in between, with the kernel turned round."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, float_operands, output_axes
from compiler.frontend.operators.convolution import emit_convolution
from compiler.frontend.windows import Window, numbers
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load

Shape = tuple[int, ...]


def _conv_transpose(call: OperatorCall) -> None:
    """Emit y[n, c, o...] = sum of x[n, i, p...] * w[i, c, k...] over all o = p*stride + k*dilation - pad."""
    x, w = call.value(0), call.value(1)
    float_operands(call, x, w)
    shape, weights, groups = call.shape(0), call.shape(1), call.integer("group", 1)
    if len(shape) < 3 or len(weights) != len(shape) or groups < 1:
        call.reject(f"has an input of shape {list(shape)} and weights of shape {list(weights)}")
    if shape[1] != weights[0] or shape[1] % groups:
        call.reject(f"has {groups} groups for {shape[1]} channels and weights of shape {list(weights)}")
    strides = numbers(call, "strides", len(shape) - 2, 1)
    slides = _windows(call, shape[2:], weights[2:], strides)
    if min(slide.outputs for slide in slides) < 1:
        call.reject("has no output elements")
    spread = x if max(strides) == 1 else _spread(call, x, strides)
    emit_convolution(call, spread, _turned(call, w, groups), slides)


def _windows(call: OperatorCall, sizes: Shape, kernel: Shape, strides: list[int]) -> list[Window]:
    """Over the input with zeros in between."""
    rank = len(sizes)
    dilations, extra = numbers(call, "dilations", rank, 1), numbers(call, "output_padding", rank, 0)
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    spread = [(n - 1) * s + 1 for n, s in zip(sizes, strides, strict=True)]
    whole = [n - 1 + reach + e for n, reach, e in zip(spread, reaches, extra, strict=True)]
    mode = call.text("auto_pad", "NOTSET")
    wanted = call.ints("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [n * s for n, s in zip(sizes, strides, strict=True)]
    if wanted is None:
        pads = numbers(call, "pads", 2 * rank, 0)
        before = pads[:rank]
        outputs = [n - b - a for n, b, a in zip(whole, before, pads[rank:], strict=True)]
    else:
        outputs = wanted[-rank:]
        # The spec splits what is cut off; the odd element is cut in front unless SAME_UPPER.
        cut = [max(n - o, 0) for n, o in zip(whole, outputs, strict=True)]
        before = [c // 2 if mode == "SAME_UPPER" else c - c // 2 for c in cut]
    return [
        Window(n, k, 1, d, reach - 1 - b, 0, o)
        for n, k, d, reach, b, o in zip(spread, kernel, dilations, reaches, before, outputs, strict=True)
    ]


def _spread(call: OperatorCall, x: str, strides: list[int]) -> str:
    """The input with stride - 1 zeros between neighbours."""
    shape = call.builder.shapes[x]
    sizes = [(n - 1) * s + 1 for n, s in zip(shape[2:], strides, strict=True)]
    axes = output_axes((*shape[:2], *sizes))
    batch, channel, *places = at(axes)
    bounds = tuple(Bound(i % s, 0, 1) for i, s in zip(places, strides, strict=True) if s > 1)
    load = Load(x, (batch, channel, *(i // s for i, s in zip(places, strides, strict=True))))
    body: Expr = Guard(bounds, load, Const(0.0))
    return call.intermediate(Compute(axes, (), None, body), "spread")


def _turned(call: OperatorCall, w: str, groups: int) -> str:
    """The weights [channels in, channels out of a group, kernel...] as a convolution has them, back to front."""
    inputs, outputs, *kernel = call.builder.shapes[w]
    axes = output_axes((outputs * groups, inputs // groups, *kernel))
    out, channel, *taps = at(axes)
    whole = out // outputs * (inputs // groups) + channel if groups > 1 else channel
    own = out % outputs if groups > 1 else out
    turned = (Index.of(n - 1) - tap for n, tap in zip(kernel, taps, strict=True))
    return call.intermediate(Compute(axes, (), None, Load(w, (whole, own, *turned))), "kernel")


LOWERINGS: Mapping[str, Lowering] = {"ConvTranspose": _conv_transpose}
