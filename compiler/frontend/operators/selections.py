"""Operators whose result has as many elements as the values say: NonZero and Compress.

flags[i] = 1 or 0                  which elements are chosen
count    = sum of flags            known when the segment that computes it has run
upto[i]  = sum of flags[j], j <= i
place[k] = number of i with upto[i] <= k, for k < count: the place of the k-th that is chosen, found by a search
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, helper

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis, size_of
from compiler.frontend.computes import ReduceAxes, at, counting, output_axes, reduced
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.scans import scanned
from compiler.frontend.searches import largest
from compiler.frontend.work import OWN_DOMAIN
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Bound, Cast, Const, Expr, Guard, Load, Lookup, apply
from compiler.symbol import axis

_MOST_PAIRED = 1 << 13
"""Flags of an open number, so many at most, whose pairs are taken: more have a form for each number."""
_NONE, _ONE = Const(0, DType.I32), Const(1, DType.I32)


def own_node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> NodeProto:
    """A node that only lowerings make."""
    return helper.make_node(kind, inputs, outputs, domain=OWN_DOMAIN, **attributes)


def _non_zero(call: OperatorCall) -> None:
    known = call.builder.constants.get(call.value(0))
    if known is not None:
        flat = np.nonzero(known.reshape(-1))[0]
        return call.emit_constant(
            np.asarray(np.unravel_index(flat, known.shape), np.int64).reshape(known.ndim, flat.size)
        )
    value = call.proto.input[0]
    places, nodes = _chosen(call, value)
    return call.expand([*nodes, own_node("Unravel", [places, value], [call.proto.output[0]])])


def _compress(call: OperatorCall) -> None:
    axis_, (value, condition) = call.attribute("axis", AttributeProto.INT), call.proto.input
    if axis_ is not None:
        positive_axis(call, axis_.i, len(call.shape(0)))
    along = {} if axis_ is None else {"axis": axis_.i}
    places, nodes = _chosen(call, condition, value, **along)
    nodes.append(
        own_node("Take", [value, places], [call.proto.output[0]])
        if axis_ is None
        else helper.make_node("Gather", [value, places], [call.proto.output[0]], axis=axis_.i)
    )
    call.expand(nodes)


def _chosen(call: OperatorCall, *values: str, **along: int) -> tuple[str, list[NodeProto]]:
    """Nodes that find the places of elements of the first value that are not zero, and the name of the places.

    No farther than a second value goes, `along` an axis. No size is in the nodes: they are the same for all sizes.
    """
    flags, number, places = (call.fresh(name) for name in ("flags", "count", "places"))
    return places, [
        own_node("Flags", list(values), [flags], **along),
        own_node("Count", [flags], [number]),
        own_node("Places", [flags, number], [places]),
    ]


def _flags(call: OperatorCall) -> None:
    """[count]: 1 where an element is not zero; `count` as in `_chosen`."""
    value, shape = call.value(0), call.shape(0)
    count = size_of(shape)
    if call.has(1):
        along = call.attribute("axis", AttributeProto.INT)
        count = min(count, size_of(call.shape(1)) if along is None else call.shape(1)[along.i])
    axes = output_axes((count,))
    load = Load(value, reshaped_indices(shape, (size_of(shape),), at(output_axes((size_of(shape),)))))
    kind = call.dtype(value)
    x: Expr = Cast(load, kind.computed) if kind.is_stored_only else load
    body: Expr
    if kind is DType.BOOL:
        body = Cast(x, DType.I32)
    else:
        body = apply(
            "select", apply("equal", x, Const(0.0 if kind.is_float else 0, kind.computed)), _NONE, _ONE
        )
    call.emit(Compute(axes, (), None, body, DType.I32))


def _count(call: OperatorCall) -> None:
    (n,) = call.shape(0)
    total = Compute((), (axis("r0", n),), "sum", Load(call.value(0), (Index.of("r0"),)), DType.I32)
    value = call.intermediate(total, "total") if n else None
    if value is None:
        return call.emit_constant(np.asarray(0, np.int64))
    return call.emit(Compute((), (), None, Cast(Load(value, ()), DType.I64), DType.I64))


def _places(call: OperatorCall) -> None:
    """[count] whole numbers: where the flags are set."""
    (n,), count = call.shape(0), int(call.constant(1))
    if not count:
        return call.emit_constant(np.zeros(0, np.int64))
    if call.builder.is_open(call.value(0), [0]) and call.decided("pairs", n <= _MOST_PAIRED):
        return call.emit(_paired_places(call, n, count))
    upto = scanned(call, call.value(0), 0, "sum", "upto")
    # As many as there could be: a table of `count` numbers would be another one for each count.
    numbers = counting(call, call.value(0), [0], DType.I32, "numbers")
    axes = output_axes((count,))
    wanted = Load(numbers, at(axes))

    def holds(before: Index, yes: Expr, no: Expr) -> Expr:
        return apply("select", apply("less_equal", Load(upto, (before,)), wanted), yes, no)

    body = Cast(largest(call, n, holds, "search"), DType.I64)
    return call.emit(Compute(axes, (), None, body, DType.I64))


def _paired_places(call: OperatorCall, n: int, count: int) -> Compute:
    """The same from all pairs of flags: its form is one for any number of them, where scans and searches have steps."""
    flags, inner = output_axes((n,)), ReduceAxes()
    before = inner.index(n)
    numbers = counting(call, call.value(0), [0], DType.I32, "numbers")
    is_before = apply("less_equal", Load(numbers, (before,)), Load(numbers, at(flags)))
    own = apply("select", is_before, Load(call.value(0), (before,)), _NONE)
    upto = call.intermediate(reduced(flags, inner, "sum", own, DType.I32), "upto")
    axes, inner = output_axes((count,)), ReduceAxes()
    less = apply("less_equal", Load(upto, (inner.index(n),)), Load(numbers, at(axes)))
    places = call.intermediate(
        reduced(axes, inner, "sum", apply("select", less, _ONE, _NONE), DType.I32), "found"
    )
    return Compute(axes, (), None, Cast(Load(places, at(axes)), DType.I64), DType.I64)


def _unravel(call: OperatorCall) -> None:
    """[rank, count]: the index in each dimension of places in a value."""
    shape, (count,) = call.shape(1), call.shape(0)
    if not shape:
        return call.emit_constant(np.zeros((0, count), np.int64))
    axes = output_axes((len(shape), count))
    d, k = at(axes)
    place = call.value(0)
    found = LookedUp(f"@{call.proto.output[0]}.place", size_of(shape))
    body: Expr | None = None
    for dim in reversed(range(len(shape))):
        numbers = counting(call, call.value(1), [dim], DType.I64, f"numbers.{dim}")
        digit = (Index.of(found) // prod(shape[dim + 1 :])) % shape[dim]
        load = Load(numbers, (digit,))
        body = load if body is None else Guard((Bound(d, dim, dim + 1),), load, body)
    assert body is not None
    return call.emit(Compute(axes, (), None, Lookup(found, Load(place, (k,)), body), DType.I64))


def _take(call: OperatorCall) -> None:
    """[count]: the elements at places, of a tensor in row-major order."""
    value, shape, which = call.value(0), call.shape(0), call.shape(1)
    axes = output_axes(which)
    found = LookedUp(f"@{call.proto.output[0]}.place", size_of(shape))
    flat = axis("f", size_of(shape))
    indices = reshaped_indices(shape, (flat.size,), (Index.of("f"),))
    indices = tuple(index.substitute({"f": Index.of(found)}) for index in indices)
    body = Lookup(found, Load(call.value(1), at(axes)), Load(value, indices))
    call.emit(Compute(axes, (), None, body, call.dtype(value)))


LOWERINGS: Mapping[str, Lowering] = {"NonZero": _non_zero, "Compress": _compress}
OWN_LOWERINGS: Mapping[str, Lowering] = {
    "Flags": _flags,
    "Count": _count,
    "Places": _places,
    "Unravel": _unravel,
    "Take": _take,
}
