"""DeformConv: a convolution whose taps are moved by offsets, each read between the elements around it.

y[n, c, o...] = sum over i, k... of w[c, i, k...] * mask[n, k..., o...] * x[n, i, o*stride + k*dilation - pad + offset]
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.sampling import Taps, sampled, taps
from compiler.frontend.windows import Window, windows
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Const, Load, apply


def _deform_conv(call: OperatorCall) -> None:
    x, w, offset = (call.value(position) for position in range(3))
    float_operands(call, *(call.value(p) for p in range(5) if call.has(p)))
    shape, weights = call.shape(0), call.shape(1)
    groups, sets = call.integer("group", 1), call.integer("offset_group", 1)
    kernel = weights[2:]
    if len(shape) < 3 or len(weights) != len(shape) or min(groups, sets) < 1:
        call.reject(f"has an input of shape {list(shape)} and weights of shape {list(weights)}")
    if shape[1] != weights[1] * groups or weights[0] % groups or shape[1] % sets:
        call.reject(f"has {groups} groups and {sets} sets of offsets for weights of shape {list(weights)}")
    slides = windows(call, shape[2:], kernel)
    outputs = tuple(slide.outputs for slide in slides)
    if call.shape(2) != (shape[0], sets * prod(kernel) * len(kernel), *outputs):
        call.reject(f"has offsets of shape {list(call.shape(2))} for outputs of {list(outputs)}")
    found = [_taps(call, offset, d, slides, sets) for d in range(len(kernel))]
    columns = _columns(call, x, found, (sets, *kernel), outputs)
    axes = output_axes((shape[0], weights[0], *outputs))
    batch, out_channel, *places = at(axes)
    inner = ReduceAxes()
    channel = inner.index(weights[1])
    steps = [inner.index(n) for n in kernel]
    whole = out_channel // (weights[0] // groups) * weights[1] + channel if groups > 1 else channel
    term = apply(
        "mul", Load(columns, (batch, whole, *steps, *places)), Load(w, (out_channel, channel, *steps))
    )
    compute = reduced(axes, inner, "sum", term)
    if not call.has(3):
        return call.emit(compute)
    if call.shape(3) != weights[:1]:
        call.reject(f"has a bias of shape {list(call.shape(3))} for {weights[0]} channels")
    total = Load(call.intermediate(compute, "convolution"), at(axes))
    return call.emit(Compute(axes, (), None, apply("add", total, Load(call.value(3), (out_channel,)))))


def _taps(call: OperatorCall, offset: str, d: int, slides: tuple[Window, ...], sets: int) -> Taps:
    """The elements around each tap in dimension d: [batch, set, kernel..., outputs..., 2]."""
    kernel = [slide.kernel for slide in slides]
    axes = output_axes((call.shape(0)[0], sets, *kernel, *(slide.outputs for slide in slides)))
    batch, own, *rest = at(axes)
    steps, places = rest[: len(kernel)], rest[len(kernel) :]
    row = _row(own, steps, kernel) * len(kernel) + d
    slide = slides[d]
    starts = np.arange(slide.outputs, dtype=np.float32) * slide.stride - slide.before
    reach = np.arange(slide.kernel, dtype=np.float32) * slide.dilation
    start = Load(call.intermediate_constant(starts, f"starts{d}"), (places[d],))
    step = Load(call.intermediate_constant(reach, f"steps{d}"), (steps[d],))
    moved = apply("add", apply("add", start, step), Load(offset, (batch, row, *places)))
    return taps(call, axes, moved, slide.size, "linear", None, f"place{d}")


def _columns(
    call: OperatorCall, x: str, found: list[Taps], sets: tuple[int, ...], outputs: tuple[int, ...]
) -> str:
    """What the taps read, times the mask: [batch, channels, kernel..., outputs...]."""
    shape, kernel = call.shape(0), sets[1:]
    axes = output_axes((*shape[:2], *kernel, *outputs))
    batch, channel, *rest = at(axes)
    steps, places = rest[: len(kernel)], rest[len(kernel) :]
    own = channel // (shape[1] // sets[0]) if sets[0] > 1 else Index()
    inner = ReduceAxes()
    ends = [inner.index(t.count) for t in found]
    zero = Const(0.0, DType.F32)
    element = sampled(found, (batch, own, *rest), ends, Load(x, (batch, channel, *ends)), zero)
    columns = call.intermediate(reduced(axes, inner, "sum", element), "columns")
    if not call.has(4):
        return columns
    if call.shape(4) != (shape[0], prod(sets), *outputs):
        call.reject(f"has a mask of shape {list(call.shape(4))} for outputs of {list(outputs)}")
    mask = Load(call.value(4), (batch, _row(own, steps, list(kernel)), *places))
    return call.intermediate(Compute(axes, (), None, apply("mul", Load(columns, at(axes)), mask)), "masked")


def _row(own: Index, steps: list[Index], kernel: list[int]) -> Index:
    """The place of a tap among those of all sets."""
    row = own
    for step, size in zip(steps, kernel, strict=True):
        row = row * size + step
    return row


LOWERINGS: Mapping[str, Lowering] = {"DeformConv": _deform_conv}
