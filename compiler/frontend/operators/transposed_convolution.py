"""Transposed convolution: one convolution with stride 1 for every place that an output can have within a stride.

    stride 2, 3 taps, 1 cut off in front:   y[2q]     = x[q] * w[1]
                                            y[2q + 1] = x[q] * w[2] + x[q + 1] * w[0]

so that no product with a zero between inputs is computed. Where all of these have the same inputs, they are one:

    stride 2, 2 taps:                       y[o]      = x[o // 2] * w[o % 2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.windows import Window, numbers, windowed_load
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, apply
from compiler.symbol import Axis

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Slide:
    """One dimension: output o gets x[i] * w[k] for all o + before = i*stride + k*dilation."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    outputs: int

    def phases(self) -> list[tuple[int, _Phase | None]]:
        """The first output of each phase, and its convolution; None where no tap reaches it."""
        whole = self.kernel % self.stride == self.before % self.stride == self.outputs % self.stride == 0
        first = self._phase(0)
        if first is not None and whole and self.dilation == 1:
            # All phases have the same inputs, each taps of its own: they are one.
            return [(0, replace(first, places=self.stride))]
        return [(n, self._phase(n)) for n in range(min(self.stride, self.outputs))]

    def _phase(self, first: int) -> _Phase | None:
        """The convolution that the outputs first, first + stride ... are."""
        taps = [k for k in range(self.kernel) if (first + self.before - k * self.dilation) % self.stride == 0]
        if not taps:
            return None
        step = self.stride // gcd(self.stride, self.dilation)
        apart = step * self.dilation // self.stride
        start = (first + self.before - taps[0] * self.dilation) // self.stride
        outputs = -(-(self.outputs - first) // self.stride)
        before = (len(taps) - 1) * apart - start
        return _Phase(Window(self.size, len(taps), 1, apart, before, 0, outputs), taps[-1], step)


@dataclass(frozen=True, slots=True)
class _Phase:
    """A window with stride 1 over the input, whose tap t has the weights at last - t*step.

    `places`: of so many outputs side by side that have one window, number p has the weights p behind these.
    """

    window: Window
    last: int
    step: int
    places: int = 1


def _conv_transpose(call: OperatorCall) -> None:
    """Emit y[n, c, o...] = sum of x[n, i, p...] * w[i, c, k...] over all o = p*stride + k*dilation - pad."""
    x, w = call.value(0), call.value(1)
    float_operands(call, x, w)
    shape, weights, groups = call.shape(0), call.shape(1), call.integer("group", 1)
    if len(shape) < 3 or len(weights) != len(shape) or groups < 1:
        call.reject(f"has an input of shape {list(shape)} and weights of shape {list(weights)}")
    if shape[1] != weights[0] or shape[1] % groups:
        call.reject(f"has {groups} groups for {shape[1]} channels and weights of shape {list(weights)}")
    slides = _slides(call, shape[2:], weights[2:])
    if min(slide.outputs for slide in slides) < 1:
        call.reject("has no output elements")
    axes = output_axes((shape[0], weights[1] * groups, *(slide.outputs for slide in slides)))
    body = _interleaved(call, x, w, slides, axes)
    if call.has(2):
        bias = call.value(2)
        float_operands(call, bias)
        if call.shape(2) != (weights[1] * groups,):
            call.reject(f"has a bias of shape {list(call.shape(2))} for {weights[1] * groups} channels")
        body = apply("add", body, Load(bias, (at(axes)[1],)))
    call.emit(Compute(axes, (), None, body))


def _slides(call: OperatorCall, sizes: Shape, kernel: Shape) -> list[_Slide]:
    rank = len(sizes)
    strides, dilations = numbers(call, "strides", rank, 1), numbers(call, "dilations", rank, 1)
    extra = numbers(call, "output_padding", rank, 0)
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    whole = [(n - 1) * s + r + e for n, s, r, e in zip(sizes, strides, reaches, extra, strict=True)]
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
    return [_Slide(*parts) for parts in zip(sizes, kernel, strides, dilations, before, outputs, strict=True)]


def _interleaved(
    call: OperatorCall, x: str, w: str, slides: Sequence[_Slide], axes: tuple[Axis, ...]
) -> Expr:
    """An output: of the phase that its place modulo the strides tells; 0 where no tap reaches."""
    batch, channel, *places = at(axes)
    body: Expr = Const(0.0)
    for chosen in product(*(slide.phases() for slide in slides)):
        phases = [phase for _, phase in chosen if phase is not None]
        if len(phases) < len(slides):
            continue
        value = _convolution(call, x, w, phases)
        strides = [slide.stride // phase.places for slide, phase in zip(slides, phases, strict=True)]
        load = Load(value, (batch, channel, *(o // s for o, s in zip(places, strides, strict=True))))
        bounds = tuple(
            Bound(o % s, first, first + 1)
            for o, s, (first, _) in zip(places, strides, chosen, strict=True)
            if s > 1
        )
        body = Guard(bounds, load, body) if bounds else load
    return body


def _convolution(call: OperatorCall, x: str, w: str, phases: Sequence[_Phase]) -> str:
    """The outputs of one phase, side by side."""
    (batch, inputs, *_), (_, outputs, *_) = call.builder.shapes[x], call.builder.shapes[w]
    groups = call.integer("group", 1)
    axes = output_axes((batch, outputs * groups, *(p.window.outputs * p.places for p in phases)))
    inner = ReduceAxes()
    first, out, *places = at(axes)
    channel = inner.index(inputs // groups)
    taps = [inner.index(phase.window.kernel) for phase in phases]
    reads = [(p.window, o // p.places, tap) for p, o, tap in zip(phases, places, taps, strict=True)]
    element = windowed_load(x, (first, _input_channel(call, w, out, channel)), reads, Const(0.0))
    within = [o % p.places for o, p in zip(places, phases, strict=True) if p.places > 1]
    weights = Load(_kernel(call, w, phases), (out, channel, *taps, *within))
    return call.intermediate(reduced(axes, inner, "sum", apply("mul", element, weights)), "phase")


def _kernel(call: OperatorCall, w: str, phases: Sequence[_Phase]) -> str:
    """The taps of a phase, of weights [channels in, channels out of a group, ...], as a convolution has them.

    Behind these dimensions come the places within a stride.
    """
    inputs, outputs, *_ = call.builder.shapes[w]
    groups = call.integer("group", 1)
    sizes = [phase.window.kernel for phase in phases]
    axes = output_axes(
        (outputs * groups, inputs // groups, *sizes, *(p.places for p in phases if p.places > 1))
    )
    out, channel, *rest = at(axes)
    own = out % outputs if groups > 1 else out
    taps, within = iter(rest[: len(phases)]), iter(rest[len(phases) :])
    turned = [
        Index.of(phase.last) - next(taps) * phase.step + (next(within) if phase.places > 1 else 0)
        for phase in phases
    ]
    return call.intermediate(
        Compute(axes, (), None, Load(w, (_input_channel(call, w, out, channel), own, *turned))), "kernel"
    )


def _input_channel(call: OperatorCall, w: str, out: Index, channel: Index) -> Index:
    """Channel `channel` of the group of an output channel."""
    (inputs, outputs, *_), groups = call.builder.shapes[w], call.integer("group", 1)
    return out // outputs * (inputs // groups) + channel if groups > 1 else channel


LOWERINGS: Mapping[str, Lowering] = {"ConvTranspose": _conv_transpose}
