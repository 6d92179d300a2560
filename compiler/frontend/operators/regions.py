"""RoiAlign: regions of an image, each read at a grid of places in each of its bins.

Without a sampling ratio a region has as many places as its bins have elements: how many that is at most must be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from onnx import NodeProto, helper

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, float_operands, output_axes, reduced
from compiler.frontend.sampling import Taps
from compiler.frontend.work import OWN_DOMAIN
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply

_MOST_PLACES = 1 << 12


def _roi_align(call: OperatorCall) -> None:
    _check(call)
    ratio = call.integer("sampling_ratio")
    if ratio > 0:
        return _emit(call, (ratio, ratio))
    counts, half = call.fresh("places"), call.opset >= 16
    ends = helper.make_node("RoiPlaces", [call.proto.input[1]], [counts], domain=OWN_DOMAIN)
    rest = NodeProto()
    rest.CopyFrom(call.proto)
    rest.domain = OWN_DOMAIN
    rest.input.append(counts)
    for node in (ends, rest):
        del node.attribute[:]
        node.attribute.extend(a for a in call.proto.attribute if a.name != "coordinate_transformation_mode")
        mode = call.text("coordinate_transformation_mode", "half_pixel" if half else "output_half_pixel")
        node.attribute.append(helper.make_attribute("coordinate_transformation_mode", mode))
    return call.expand([ends, rest])


def _check(call: OperatorCall) -> None:
    x, rois, shape = call.value(0), call.value(1), call.shape(0)
    float_operands(call, x, rois)
    which = call.shape(1)
    if len(shape) != 4 or len(which) != 2 or which[1] != 4 or call.shape(2) != which[:1]:
        call.reject(f"has regions of shape {list(which)} for an input of shape {list(shape)}")
    if call.text("mode", "avg") not in ("avg", "max") or min(_bins(call)) < 1:
        call.reject(f"has mode {call.text('mode', 'avg')[:20]!r} and bins {_bins(call)}")


def _places(call: OperatorCall) -> None:
    """Emit the largest number of places of a bin in any region, of rows and of columns."""
    regions = call.shape(1) if len(call.proto.input) > 1 else call.shape(0)
    axes = output_axes((regions[0],))
    most = []
    for d in (0, 1):
        counts = call.intermediate(
            Compute(axes, (), None, _Side.of(call, 0, d, at(axes)[0]).wanted()), f"count{d}"
        )
        inner = ReduceAxes()
        total = reduced((), inner, "max", Load(counts, (inner.index(regions[0]),)))
        most.append(call.intermediate(total, f"most{d}"))
    pair = output_axes((2,))
    values = [Load(name, ()) for name in most]
    numbers = Load(call.intermediate_constant(np.arange(2, dtype=np.int32), "numbers"), at(pair))
    body = apply("select", apply("equal", numbers, Const(0, DType.I32)), *values)
    call.emit(Compute(pair, (), None, Cast(body, DType.I64), DType.I64))


def _with_places(call: OperatorCall) -> None:
    _check(call)
    rows, columns = call.constant_ints(3)
    if max(rows, columns) > _MOST_PLACES:
        call.unsupported(f"bins of {rows} x {columns} places")
    _emit(call, (max(rows, 1), max(columns, 1)))


def _bins(call: OperatorCall) -> tuple[int, int]:
    return call.integer("output_height", 1), call.integer("output_width", 1)


@dataclass(frozen=True)
class _Side:
    """The extent of a region in one dimension: 0 for rows, 1 for columns."""

    start: Expr
    size: Expr
    bins: int
    ratio: int

    @staticmethod
    def of(call: OperatorCall, position: int, d: int, region: Index) -> _Side:
        """`position`: the input that has the regions."""
        default = "half_pixel" if call.opset >= 16 else "output_half_pixel"
        half = call.text("coordinate_transformation_mode", default) == "half_pixel"
        scale = Const(call.number("spatial_scale", 1.0))

        def end(column: int) -> Expr:
            scaled = apply("mul", Load(call.value(position), (region, Index.of(column))), scale)
            return apply("sub", scaled, Const(0.5)) if half else scaled

        start = end(1 - d)
        size = apply("sub", end(3 - d), start)
        size = size if half else apply("max", size, Const(1.0))
        return _Side(start, size, _bins(call)[d], call.integer("sampling_ratio"))

    @property
    def bin(self) -> Expr:
        """Size of a bin."""
        return apply("div", self.size, Const(float(self.bins)))

    def wanted(self) -> Expr:
        """Places in a bin."""
        return Const(float(self.ratio)) if self.ratio > 0 else apply("ceil", self.bin)


def _emit(call: OperatorCall, counts: tuple[int, int]) -> None:
    x, shape, regions = call.value(0), call.shape(0), call.shape(1)[0]
    found, exists = [], []
    for d in (0, 1):
        taps, valid = _taps(call, d, shape[2 + d], counts[d])
        found.append(taps)
        exists.append(valid)
    axes = output_axes((regions, shape[1], *_bins(call)))
    region, channel, *spots = at(axes)
    inner = ReduceAxes()
    steps = [inner.index(n) for n in counts]
    ends = [inner.index(2) for _ in counts]
    batch = LookedUp(f"@{call.value(2)}", shape[0])
    names = [LookedUp(f"@{t.place}", t.size) for t in found]
    element: Expr = Load(x, (Index.of(batch), channel, *map(Index.of, names)))
    places = [(region, spot, step, end) for spot, step, end in zip(spots, steps, ends, strict=True)]
    for name, t, place in reversed(list(zip(names, found, places, strict=True))):
        element = Lookup(name, Load(t.place, place), element)
    element = Lookup(batch, Load(call.value(2), (region,)), element)
    for t, place in zip(found, places, strict=True):
        outside = apply("less", Load(t.place, place), Const(0, DType.I32))
        element = apply("select", outside, Const(0.0), element)
    for t, place in zip(found, places, strict=True):
        element = apply("mul", element, Load(t.weight or "", place))
    maximum = call.text("mode", "avg") == "max"
    neutral = Const(-inf if maximum else 0.0)
    for valid, step in zip(exists, steps, strict=True):
        element = apply("select", Load(valid, (region, step)), element, neutral)
    total = call.intermediate(reduced(axes, inner, "max" if maximum else "sum", element), "total")
    value = Load(total, at(axes))
    rows, columns = (_Side.of(call, 1, d, region).wanted() for d in (0, 1))
    count = apply("mul", rows, columns)
    if maximum:
        none = apply("less", count, Const(1.0))
        return call.emit(Compute(axes, (), None, apply("select", none, Const(0.0), value)))
    return call.emit(Compute(axes, (), None, apply("div", value, apply("max", count, Const(1.0)))))


def _taps(call: OperatorCall, d: int, size: int, count: int) -> tuple[Taps, str]:
    """The elements around each place: [regions, bins, places, 2]; and which places exist: [regions, places]."""
    axes = output_axes((call.shape(1)[0], _bins(call)[d], count))
    region, spot, step = at(axes)
    side = _Side.of(call, 1, d, region)
    bins = call.intermediate_constant(np.arange(side.bins, dtype=np.float32), f"bins{d}")
    steps = call.intermediate_constant(np.arange(count, dtype=np.float32), f"steps{d}")
    within = apply(
        "div", apply("mul", apply("add", Load(steps, (step,)), Const(0.5)), side.bin), side.wanted()
    )
    first = apply("add", side.start, apply("mul", Load(bins, (spot,)), side.bin))
    place = Load(call.intermediate(Compute(axes, (), None, apply("add", first, within)), f"at{d}"), at(axes))
    beyond = apply("or", apply("less", place, Const(-1.0)), apply("less", Const(float(size)), place))
    kept = apply("min", apply("max", place, Const(0.0)), Const(size - 1.0))
    low = apply("floor", kept)
    ends = (*axes, *(a for a in output_axes((1, 1, 1, 2))[3:]))
    number = Load(call.intermediate_constant(np.arange(2, dtype=np.float32), f"ends{d}"), at(ends)[3:])
    index = apply("select", beyond, Const(-1.0), apply("min", apply("add", low, number), Const(size - 1.0)))
    above = apply("sub", kept, low)
    weight = apply("select", apply("less", number, Const(0.5)), apply("sub", Const(1.0), above), above)
    index_name = call.intermediate(Compute(ends, (), None, Cast(index, DType.I32), DType.I32), f"place{d}")
    weight_name = call.intermediate(Compute(ends, (), None, weight), f"weight{d}")
    own = output_axes((call.shape(1)[0], count))
    exists = apply("less", Load(steps, at(own)[1:]), _Side.of(call, 1, d, at(own)[0]).wanted())
    valid = call.intermediate(Compute(own, (), None, exists, DType.BOOL), f"exists{d}")
    return Taps(index_name, weight_name, size, 2), valid


LOWERINGS: Mapping[str, Lowering] = {"RoiAlign": _roi_align}
OWN_LOWERINGS: Mapping[str, Lowering] = {"RoiPlaces": _places, "RoiAlign": _with_places}
