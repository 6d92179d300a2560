"""Softmax and its logarithm: exponentials of the distance to the largest element, which never overflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import broadcast_load, output_axes
from compiler.frontend.single import in_single
from compiler.frontend.statistics import Parts, along
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Cast, Const, Expr, apply, substitute

_ADDED_ONE_BY_ONE = 32
"""Elements of a part whose sum of bfloats is rounded after each addition."""


def _parts(call: OperatorCall) -> Parts:
    """Before opset 13 all axes from `axis` on are one."""
    if not call.dtype(call.value(0)).is_float:
        call.unsupported(f"element type {call.builder.dtype(call.value(0))}")
    rank = len(call.shape(0))
    if call.opset >= 13:
        return along(call, call.value(0), [positive_axis(call, call.integer("axis", -1), rank)])
    first = call.integer("axis", 1)
    axis = rank if first == rank else positive_axis(call, first, rank)
    return along(call, call.value(0), range(axis, rank))


def _below(x: Expr, largest: Expr) -> Expr:
    """X - largest, with the upper bound said: shorter code for its exponential than for any number's."""
    return apply("at_most", apply("sub", x, largest), Const(0.0))


def _largest(parts: Parts) -> str:
    """The largest of each part, which may miss a NaN: the sum of the part's exponentials does not, and all read it."""
    return parts.total("largest", parts.element(), "max")


def _softmax(call: OperatorCall) -> None:
    """Emit exp(x - max) as a value of its own, and that times 1 / its sum: fusion decides whether it is stored."""
    parts = _parts(call)
    if call.dtype(parts.value).is_stored_only:
        return _rounded_softmax(call, parts)
    largest = _largest(parts)
    axes = output_axes(call.shape(0))
    x, top = (broadcast_load(call, v, axes) for v in (parts.value, largest))
    power = call.intermediate(Compute(axes, (), None, apply("exp", _below(x, top))), "power")
    raised = replace(parts, value=power)
    weight = raised.total("sum", raised.element(), "weight", lambda total: apply("div", Const(1.0), total))
    e, scale = (broadcast_load(call, v, axes) for v in (power, weight))
    return call.emit(Compute(axes, (), None, apply("mul", e, scale)))


def _rounded_softmax(call: OperatorCall, parts: Parts) -> None:
    """The same for 16 bits: each step of ONNX's definition is rounded to them, as its operators are."""
    kind, axes = call.dtype(parts.value), output_axes(call.shape(0))

    def element(value: str) -> Expr:
        return Cast(broadcast_load(call, value, axes), DType.F32)

    largest = parts.total("max", Cast(parts.element(), DType.F32), "max")
    distance = Cast(apply("sub", element(parts.value), broadcast_load(call, largest, axes)), kind)
    power = Cast(apply("exp", Cast(distance, DType.F32)), kind)
    raised = replace(parts, value=call.intermediate(Compute(axes, (), None, power), "power"))
    total = _rounded_sum(call, raised, kind)
    quotient = apply("div", element(raised.value), element(total))
    call.emit(Compute(axes, (), None, Cast(quotient, kind)))


def _rounded_sum(call: OperatorCall, parts: Parts, kind: DType) -> str:
    """The sum of each part, rounded. Few bfloats are rounded after each addition, as those who define them by it do."""
    inner = parts.inner.axes
    if kind is not DType.BF16 or len(inner) != 1 or inner[0].size > _ADDED_ONE_BY_ONE:
        return parts.total("sum", Cast(parts.element(), DType.F32), "weight", lambda s: Cast(s, kind))
    (axis,) = inner
    first, *others = (
        Cast(substitute(parts.element(), {axis.name: Index.of(place)}), DType.F32)
        for place in range(axis.size)
    )
    total: Expr = first
    for term in others:
        total = Cast(Cast(apply("add", total, term), kind), DType.F32)
    return call.intermediate(Compute(parts.outer, (), None, Cast(total, kind)), "weight")


def _log_softmax(call: OperatorCall) -> None:
    parts = _parts(call)
    largest = _largest(parts)
    weight = parts.total(
        "sum",
        apply("exp", _below(parts.element(), parts.of(largest))),
        "weight",
        lambda total: apply("log", total),
    )
    axes = output_axes(call.shape(0))
    x, top, offset = (broadcast_load(call, v, axes) for v in (parts.value, largest, weight))
    call.emit(Compute(axes, (), None, apply("sub", apply("sub", x, top), offset)))


LOWERINGS: Mapping[str, Lowering] = {"Softmax": _softmax, **in_single({"LogSoftmax": _log_softmax})}
