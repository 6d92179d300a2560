"""Resize and Upsample: an image at other sizes, one dimension after the other.

Scales and sizes are known at compile time, and so is every place that an output is taken from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, distinct_axes
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.limits import checked_shape
from compiler.frontend.resampling import (
    Floats,
    Resampling,
    cubic_kernel,
    interpolated,
    linear_kernel,
    nearest,
)
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Const, Expr, Guard, Load, Lookup, apply

_UNROLLED_TAPS = 2


@dataclass(frozen=True)
class _Dimension:
    """One dimension that is resized: its place, sizes, and the part of it that is looked at."""

    place: int
    size: int
    outputs: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class _Method:
    """How outputs are made of the elements around them."""

    mode: str
    coordinates: str
    nearest: str
    sharpness: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def resampling(self, dimension: _Dimension) -> Resampling:
        places = _places(self.coordinates, dimension)
        if self.mode == "nearest":
            return nearest(places, dimension.size, self.nearest)
        kernel, radius = (
            (linear_kernel, 1.0) if self.mode == "linear" else (cubic_kernel(self.sharpness), 2.0)
        )
        stretch = min(dimension.scale, 1.0) if self.antialias else 1.0
        return interpolated(
            places,
            dimension.size,
            lambda distance: kernel(distance * stretch),
            radius / stretch,
            exclude_outside=self.exclude_outside,
        )


_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
_ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_ASYMMETRIC = "asymmetric", "floor"


def _upsample(call: OperatorCall) -> None:
    """Resize's predecessor."""
    rank = len(call.shape(0))
    if call.opset >= 9:
        scales = [float(s) for s in call.constant(1).reshape(-1)]
    elif call.opset >= 7:
        scales = call.floats("scales") or []
    else:
        scales = [1.0] * (rank - 2) + [call.number("height_scale", 1.0), call.number("width_scale", 1.0)]
    _emit(call, _by_scales(call, scales, range(rank)), _Method(_mode(call), *_ASYMMETRIC))


def _resize(call: OperatorCall) -> None:
    if call.opset < 11:
        scales = [float(s) for s in call.constant(1).reshape(-1)]
        dimensions = _by_scales(call, scales, range(len(call.shape(0))))
        return _emit(call, dimensions, _Method(_mode(call), *_ASYMMETRIC))
    coordinates, rounding = (
        call.text("coordinate_transformation_mode", "half_pixel"),
        call.text("nearest_mode", _ROUNDING[0]),
    )
    if coordinates not in _COORDINATES or rounding not in _ROUNDING:
        call.reject(f"has coordinates {coordinates[:30]!r} and rounding {rounding[:30]!r}")
    method = _Method(
        _mode(call),
        coordinates,
        rounding,
        call.number("cubic_coeff_a", -0.75),
        bool(call.integer("antialias")),
        bool(call.integer("exclude_outside")),
    )
    return _emit(call, _dimensions(call, coordinates), method)


def _mode(call: OperatorCall) -> str:
    mode = call.text("mode", "nearest")
    if mode not in _MODES:
        call.reject(f"has the unknown mode {mode[:20]!r}")
    return _MODES[mode]


def _dimensions(call: OperatorCall, coordinates: str) -> list[_Dimension]:
    shape = call.shape(0)
    given = call.ints("axes")
    axes = list(range(len(shape))) if given is None else distinct_axes(call, given, len(shape))
    if call.has(2) and call.constant(2).size:
        found = _by_scales(call, [float(s) for s in call.constant(2).reshape(-1)], axes)
    else:
        found = _by_sizes(call, call.constant_ints(3), axes)
    if coordinates != "tf_crop_and_resize":
        return found
    roi = call.constant(1).reshape(-1)
    if roi.size != 2 * len(axes):
        call.reject(f"has a roi of {roi.size} numbers for {len(axes)} axes")
    ends = {axis: (float(roi[i]), float(roi[len(axes) + i])) for i, axis in enumerate(axes)}
    return [_Dimension(d.place, d.size, d.outputs, d.scale, ends[d.place]) for d in found]


def _by_scales(call: OperatorCall, scales: list[float], axes: range | list[int]) -> list[_Dimension]:
    shape = call.shape(0)
    if len(scales) != len(axes) or not all(0 < s < 1 << 31 for s in scales):
        call.reject(f"has scales {scales} for {len(axes)} axes")
    sizes = checked_shape((int(shape[axis] * s) for axis, s in zip(axes, scales, strict=True)), _output(call))
    parts = zip(axes, sizes, scales, strict=True)
    return [_Dimension(axis, shape[axis], n, s) for axis, n, s in parts]


def _by_sizes(call: OperatorCall, sizes: list[int], axes: list[int]) -> list[_Dimension]:
    shape = call.shape(0)
    if len(sizes) != len(axes):
        call.reject(f"has sizes {sizes} for {len(axes)} axes")
    scales = [n / shape[axis] if shape[axis] else 1.0 for axis, n in zip(axes, sizes, strict=True)]
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        call.reject(f"has the unknown keep_aspect_ratio_policy {policy[:20]!r}")
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales = [scale] * len(axes)
        sizes = [int(scale * shape[axis] + 0.5) for axis in axes]
    parts = zip(axes, checked_shape(sizes, _output(call)), scales, strict=True)
    return [_Dimension(axis, shape[axis], n, s) for axis, n, s in parts]


def _output(call: OperatorCall) -> str:
    return f"the output of node {call.label!r}"


def _emit(call: OperatorCall, dimensions: list[_Dimension], method: _Method) -> None:
    """What shrinks the image comes first."""
    value, dtype = call.value(0), call.dtype(call.value(0))
    shape = list(call.shape(0))
    for d in dimensions:
        if d.outputs and not d.size:
            call.reject(f"makes {d.outputs} places along axis {d.place}, of which there is no element")
        shape[d.place] = d.outputs
    if 0 in shape:
        return call.emit_constant(np.zeros(shape, dtype.numpy))
    if method.mode != "nearest":
        float_operands(call, value)
    resized = {
        d.place: method.resampling(d)
        for d in sorted(dimensions, key=lambda d: d.outputs / d.size)
        if d.outputs != d.size or d.scale != 1 or d.roi != (0.0, 1.0)
    }
    if method.mode == "nearest":
        value = call.intermediate(_picked(call, value, resized, dtype), "resized")
    else:
        for place, found in resized.items():
            value = call.intermediate(_resampled(call, value, place, found), f"resized{place}")
    if method.coordinates == "tf_crop_and_resize":
        value = _extrapolated(call, value, dimensions, dtype)
    return call.emit_same(value)


@dataclass(frozen=True)
class _Start:
    """The first element of each output along an axis: an expression, perhaps of a table to look up."""

    index: Index
    found: Resampling
    table: str | None
    place: Index

    @staticmethod
    def of(call: OperatorCall, found: Resampling, place: Index, name: str) -> _Start:
        steady = found.steady()
        if steady is not None:
            return _Start(steady[0].substitute({"o": place}), steady[1], None, place)
        table = call.intermediate_constant(found.first.astype(np.int32), name)
        looked_up = LookedUp(f"@{table}", found.size - found.taps + 1)
        return _Start(Index.of(looked_up), found, table, place)

    def looked_up(self, body: Expr) -> Expr:
        """The expression, with the table around it where there is one."""
        if self.table is None:
            return body
        (name,) = self.index.looked_up()
        return Lookup(name, Load(self.table, (self.place,)), body)


def _picked(call: OperatorCall, value: str, resized: dict[int, Resampling], dtype: DType) -> Compute:
    """One element each: all dimensions at once."""
    shape = call.builder.shapes[value]
    axes = output_axes(len(resized[d].first) if d in resized else n for d, n in enumerate(shape))
    indices = list(at(axes))
    starts = {d: _Start.of(call, found, indices[d], f"places{d}") for d, found in resized.items()}
    for d, start in starts.items():
        indices[d] = start.index
    body: Expr = Load(value, tuple(indices))
    for start in starts.values():
        body = start.looked_up(body)
    return Compute(axes, (), None, body, dtype)


def _resampled(call: OperatorCall, value: str, place: int, found: Resampling) -> Compute:
    shape = call.builder.shapes[value]
    axes = output_axes((*shape[:place], len(found.first), *shape[place + 1 :]))
    indices = at(axes)
    start = _Start.of(call, found, indices[place], f"places{place}")
    found = start.found
    weights = call.intermediate_constant(found.weights.astype(np.float32), f"weights{place}")

    def term(tap: Index) -> Expr:
        index = start.index + tap
        element: Expr = Load(value, (*indices[:place], index, *indices[place + 1 :]))
        if start.table is None and not _stays_inside(found, tap):
            element = Guard((Bound(index, 0, found.size),), element, Const(0.0))
        return apply("mul", element, Load(weights, (indices[place], tap)))

    inner = ReduceAxes()
    if found.taps <= _UNROLLED_TAPS:
        terms = [term(Index.of(tap)) for tap in range(found.taps)]
        body = terms[0] if len(terms) == 1 else apply("add", *terms)
    else:
        body = term(inner.index(found.taps))
    return reduced(axes, inner, "sum", start.looked_up(body))


def _stays_inside(found: Resampling, tap: Index) -> bool:
    last = found.taps - 1 if tap.terms else tap.const
    return int(found.first.min()) + tap.const >= 0 and int(found.first.max()) + last < found.size


def _extrapolated(call: OperatorCall, value: str, dimensions: list[_Dimension], dtype: DType) -> str:
    """A constant where a place is outside of the input."""
    axes = output_axes(call.builder.shapes[value])
    bounds = []
    for dimension in dimensions:
        places = _places("tf_crop_and_resize", dimension)
        inside = np.flatnonzero((places >= 0) & (places <= dimension.size - 1))
        first, last = (int(inside[0]), int(inside[-1]) + 1) if inside.size else (0, 0)
        if last - first < dimension.outputs:
            bounds.append(Bound(at(axes)[dimension.place], first, last))
    if not bounds:
        return value
    number = call.number("extrapolation_value", 0.0)
    fill = Const(number if dtype.is_float else int(number), dtype)
    body = Guard(tuple(bounds), Load(value, at(axes)), fill)
    return call.intermediate(Compute(axes, (), None, body, dtype), "extrapolated")


def _places(coordinates: str, dimension: _Dimension) -> Floats:
    """Where in the input each output is taken from."""
    outputs = np.arange(dimension.outputs, dtype=np.float64)
    places: Floats = _COORDINATES[coordinates](outputs, dimension)
    return places


def _align_corners(o: Floats, d: _Dimension) -> Floats:
    span = d.scale * d.size - 1
    return o * (d.size - 1) / span if span else o * 0


def _crop(o: Floats, d: _Dimension) -> Floats:
    start, end = (r * (d.size - 1) for r in d.roi)
    span = d.scale * d.size - 1
    return start + o * (end - start) / span if span else (start + end) / 2 + o * 0


def _half_pixel(o: Floats, d: _Dimension) -> Floats:
    return (o + 0.5) / d.scale - 0.5


_COORDINATES: Mapping[str, Callable[[Floats, _Dimension], Floats]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": lambda o, d: _half_pixel(o, d) + (d.size - d.outputs / d.scale) / 2,
    "pytorch_half_pixel": lambda o, d: _half_pixel(o, d) if d.outputs > 1 else o * 0,
    "align_corners": _align_corners,
    "asymmetric": lambda o, d: o / d.scale,
    "tf_half_pixel_for_nn": lambda o, d: (o + 0.5) / d.scale,
    "tf_crop_and_resize": _crop,
}

LOWERINGS: Mapping[str, Lowering] = {"Resize": _resize, "Upsample": _upsample}
