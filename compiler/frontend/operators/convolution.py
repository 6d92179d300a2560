"""Convolutions of any rank: grouped, depthwise, dilated, strided, padded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.windows import Window, windowed_load, windows
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.symbol import Axis


def _conv(call: OperatorCall) -> None:
    """Emit y[n, c, o...] = sum i, k... of x[n, group(c) + i, o*stride + k*dilation - pad ...] * w[c, i, k...]."""
    x, w = call.value(0), call.value(1)
    float_operands(call, x, w)
    emit_convolution(call, x, w, checked_windows(call, x, w))


def checked_windows(call: OperatorCall, x: str, w: str) -> tuple[Window, ...]:
    """The windows of a convolution of x with w; raises ModelError where shapes and attributes do not fit."""
    shape, weights = call.builder.shapes[x], call.builder.shapes[w]
    _check_shapes(call, shape, weights, call.integer("group", 1))
    return windows(call, shape[2:], weights[2:])


@dataclass(frozen=True)
class Convolution:
    """A convolution: its axes, and the elements that it multiplies; `guard` puts a value where there is padding."""

    axes: tuple[Axis, ...]
    inner: ReduceAxes
    data: Load
    weights: Load
    bounds: tuple[Bound, ...]

    def guarded(self, inside: Expr, outside: Const) -> Expr:
        """The value inside of the input, the constant in its padding."""
        return Guard(self.bounds, inside, outside) if self.bounds else inside


def convolution(call: OperatorCall, x: str, w: str, slides: Sequence[Window]) -> Convolution:
    """The parts of a convolution of x with w of shape [channels out, channels in of a group, kernel...]."""
    weights, groups = call.builder.shapes[w], call.integer("group", 1)
    axes = output_axes((call.builder.shapes[x][0], weights[0], *(s.outputs for s in slides)))
    inner = ReduceAxes()
    channel = inner.index(weights[1])
    taps = [inner.index(n) for n in weights[2:]]
    batch, out_channel, *places = at(axes)
    leading = (batch, _input_channel(out_channel, channel, weights, groups))
    element = windowed_load(x, leading, list(zip(slides, places, taps, strict=True)), Const(0.0))
    data, bounds = (element.inside, element.bounds) if isinstance(element, Guard) else (element, ())
    assert isinstance(data, Load)
    return Convolution(axes, inner, data, Load(w, (out_channel, channel, *taps)), bounds)


def emit_convolution(call: OperatorCall, x: str, w: str, slides: Sequence[Window]) -> None:
    """Convolve x with w; add input 2 where given."""
    w, slides = _without_unseen_taps(call, x, w, slides)
    found = convolution(call, x, w, slides)
    axes, out_channel = found.axes, at(found.axes)[1]
    weights = call.builder.shapes[w]
    element = found.guarded(found.data, Const(0.0))
    compute = reduced(axes, found.inner, "sum", apply("mul", element, found.weights))
    if not call.has(2):
        return call.emit(compute)
    bias = call.value(2)
    float_operands(call, bias)
    if call.shape(2) != (weights[0],):
        call.reject(f"has a bias of shape {list(call.shape(2))} for {weights[0]} channels")
    value = Load(call.intermediate(compute, "convolution"), at(axes))
    return call.emit(Compute(axes, (), None, apply("add", value, Load(bias, (out_channel,)))))


def _without_unseen_taps(
    call: OperatorCall, x: str, w: str, slides: Sequence[Window]
) -> tuple[str, Sequence[Window]]:
    """The weights and windows without outer taps that only ever see padding: those of gaps wider than the image."""
    taps = [s.seen for s in slides]
    sizes = range(2, 2 + len(slides))
    if all(len(t) == s.kernel for t, s in zip(taps, slides, strict=True)) or call.builder.is_open(x, sizes):
        return w, slides
    axes = output_axes((*call.builder.shapes[w][:2], *map(len, taps)))
    out_channel, channel, *places = at(axes)
    kept = (p + t.start for p, t in zip(places, taps, strict=True))
    some = Compute(axes, (), None, Load(w, (out_channel, channel, *kept)))
    narrow = tuple(s.narrowed(t) for s, t in zip(slides, taps, strict=True))
    return call.intermediate(some, "seen"), narrow


def _check_shapes(call: OperatorCall, x: tuple[int, ...], w: tuple[int, ...], groups: int) -> None:
    if len(x) < 3 or len(w) != len(x):
        call.reject(f"has an input of shape {list(x)} and weights of shape {list(w)}")
    if groups < 1 or x[1] != w[1] * groups or w[0] % groups:
        call.reject(f"has {groups} groups for {x[1]} channels and weights of shape {list(w)}")
    kernel = call.ints("kernel_shape")
    if kernel is not None and tuple(kernel) != w[2:]:
        call.reject(f"has kernel_shape {kernel} and weights of shape {list(w)}")


def _input_channel(out_channel: Index, channel: Index, weights: tuple[int, ...], groups: int) -> Index:
    if groups == 1:
        return channel
    return (out_channel // (weights[0] // groups)) * weights[1] + channel


LOWERINGS: Mapping[str, Lowering] = {"Conv": _conv}
