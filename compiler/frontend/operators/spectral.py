"""Spectra: Fourier transforms as products with constant matrices, and the weights of mel bins.

DFT   y[k] = sum over n of x[n] * e^(-2 pi i k n / N)       complex numbers are a last dimension of 2
STFT  the same of a window that moves over a signal
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto, helper

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.fourier import (
    Floats,
    Places,
    Signal,
    check_elements,
    double,
    emit_stages,
    radices,
    turns,
)
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Cast, Load, apply
from compiler.symbol import Axis


def _dft(call: OperatorCall) -> None:
    value, shape = call.value(0), call.shape(0)
    float_operands(call, value)
    if len(shape) < 2 or shape[-1] not in (1, 2):
        call.reject(f"has an input of shape {list(shape)}, which are neither real nor complex numbers")
    if call.opset >= 20:
        given = int(call.constant(2).reshape(-1)[0]) if call.has(2) else -2
    else:
        given = call.integer("axis", 1)
    axis = positive_axis(call, given, len(shape))
    if axis == len(shape) - 1:
        call.reject("transforms the real and imaginary parts")
    inverse, one_sided = bool(call.integer("inverse")), bool(call.integer("onesided"))
    if inverse and one_sided:
        length = int(call.constant(1).reshape(-1)[0]) if call.has(1) else 2 * (shape[axis] - 1)
        matrix = _real_inverse(_length(call, length), shape[axis])
    else:
        length = int(call.constant(1).reshape(-1)[0]) if call.has(1) else shape[axis]
        if 1 <= length <= shape[axis] and len(radices(length, shape[-1])) > 1:
            bins = length // 2 + 1 if one_sided else length
            outputs = (*shape[:axis], bins, *shape[axis + 1 : -1], 2)
            return emit_stages(call, outputs, axis, _signal(value, shape[-1], inverse=inverse), length)
        matrix = _transform(_length(call, length), inverse=inverse)
        matrix = matrix[: length // 2 + 1] if one_sided else matrix
    matrix = matrix[:, : shape[axis], :, : shape[-1]]
    outputs, taken, parts, _ = matrix.shape
    weights = call.intermediate_constant(matrix, "weights")
    axes = output_axes((*shape[:axis], outputs, *shape[axis + 1 : -1], parts))
    inner, places = ReduceAxes(), at(axes)
    n, part = inner.index(taken), inner.index(shape[-1])
    x = Load(value, (*places[:axis], n, *places[axis + 1 : -1], part))
    _emit_sum(call, axes, inner, x, Load(weights, (places[axis], n, places[-1], part)))


def _signal(value: str, parts: int, *, inverse: bool) -> Signal:
    def element(before: Places, n: Index, part: Index, behind: Places) -> Load:
        return Load(value, (*before, n, *behind, part))

    return Signal(element, parts, inverse=inverse)


def _emit_sum(call: OperatorCall, axes: tuple[Axis, ...], inner: ReduceAxes, x: Load, weight: Load) -> None:
    """Emit the sum of x * weight, added up in double precision: much of a spectrum cancels out."""
    dtype = call.dtype(x.buffer)
    term = apply("mul", double(x, dtype), double(weight, call.dtype(weight.buffer)))
    total = reduced(axes, inner, "sum", term, DType.F64)
    if dtype is DType.F64:
        return call.emit(total)
    value = Load(call.intermediate(total, "sum"), at(axes))
    return call.emit(Compute(axes, (), None, Cast(value, dtype), dtype))


def _length(call: OperatorCall, length: int) -> int:
    check_elements(call, length, 4 * length**2)
    return length


def _transform(length: int, *, inverse: bool = False) -> Floats:
    """[outputs, inputs, 2, 2]: what the parts of an input add to the parts of an output."""
    n = np.arange(length)
    matrix = turns(np.outer(n, n), length, inverse=inverse)
    return matrix / length if inverse else matrix


def _real_inverse(length: int, given: int) -> Floats:
    """From the first half of a spectrum, whose other half is its mirror, to real numbers."""
    matrix = _transform(length, inverse=True)[:, :, :1]
    half = np.zeros((length, max(given, length // 2 + 1), 1, 2))
    for k in range(length):
        mirrored = min(k, length - k)
        sign = np.array([1.0, 1.0 if k == mirrored else -1.0])
        half[:, mirrored] += matrix[:, k] * sign
    return half


def _stft(call: OperatorCall) -> None:
    """Outputs: [batch, frames, bins, 2]."""
    signal, shape = call.value(0), call.shape(0)
    float_operands(call, signal)
    window = call.shape(2) if call.has(2) else None
    length = int(call.constant(3).reshape(-1)[0]) if call.has(3) else window[0] if window else 0
    step = int(call.constant(1).reshape(-1)[0])
    if len(shape) not in (2, 3) or not 1 <= length <= shape[1] or step < 1:
        call.reject(f"has frames of {length} every {step} elements of a signal of shape {list(shape)}")
    if window is not None and window != (length,):
        call.reject(f"has a window of shape {list(window)} for frames of {length}")
    parts = shape[2] if len(shape) == 3 else 1
    one_sided = bool(call.integer("onesided", 1))
    if one_sided and parts == 2:
        call.reject("wants one side of the spectrum of complex numbers")
    frames, bins = (shape[1] - length) // step + 1, length // 2 + 1 if one_sided else length
    if len(radices(length, parts)) > 1:

        def element(before: Places, n: Index, part: Index, behind: Places) -> Load:
            return Load(signal, (before[0], before[1] * step + n, *((part,) if len(shape) == 3 else ())))

        outputs = (shape[0], frames, bins, 2)
        framed = Signal(element, parts, call.value(2) if window is not None else None)
        return emit_stages(call, outputs, 2, framed, length)
    matrix = _transform(_length(call, length))[:bins, ..., :parts]
    weights = call.intermediate_constant(matrix, "weights")
    if window is not None:
        weights = _windowed(call, weights, matrix.shape)
    axes = output_axes((shape[0], frames, bins, 2))
    batch, frame, k, out = at(axes)
    inner = ReduceAxes()
    n, part = inner.index(length), inner.index(parts)
    x = Load(signal, (batch, frame * step + n, *((part,) if len(shape) == 3 else ())))
    _emit_sum(call, axes, inner, x, Load(weights, (k, n, out, part)))


def _windowed(call: OperatorCall, weights: str, shape: tuple[int, ...]) -> str:
    """The weights times the window, once for all frames."""
    axes = output_axes(shape)
    window = Load(call.value(2), (at(axes)[1],))
    body = apply("mul", Load(weights, at(axes)), double(window, call.dtype(window.buffer)))
    return call.intermediate(Compute(axes, (), None, body, DType.F64), "windowed")


def _mel_weights(call: OperatorCall) -> None:
    """Triangles over the bins of a spectrum, equally wide in mel; all inputs are known."""
    bins, length, rate, low, high = (call.constant_float(position) for position in range(5))
    if not (1 <= bins < 1 << 16 and 1 <= length < 1 << 24 and rate > 0 and 0 <= low < high):
        call.reject(f"has {bins} bins of a transform of {length} from {low} to {high} Hz at {rate}")
    to = call.integer("output_datatype", TensorProto.FLOAT)
    ends = 2595 * np.log10(1 + np.array([low, high]) / 700)
    edges = ends[0] + np.arange(int(bins) + 2) * ((ends[1] - ends[0]) / (int(bins) + 2))
    places = np.floor((int(length) + 1) * (700 * (10 ** (edges / 2595) - 1)) / rate).astype(np.int64)
    at_bin = np.arange(int(length) // 2 + 1)[:, None]
    left, middle, right = places[:-2], places[1:-1], places[2:]
    rising = (at_bin - left) / np.maximum(middle - left, 1)
    falling = (right - at_bin) / np.maximum(right - middle, 1)
    weights = np.where((left <= at_bin) & (at_bin < middle), rising, 0.0)
    weights = np.where((middle < at_bin) & (at_bin < right), falling, weights)
    weights = np.where(at_bin == middle, 1.0, weights)
    call.emit_constant(weights.astype(helper.tensor_dtype_to_np_dtype(to)))


LOWERINGS: Mapping[str, Lowering] = {"DFT": _dft, "STFT": _stft, "MelWeightMatrix": _mel_weights}
