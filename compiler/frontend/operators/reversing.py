"""ReverseSequence: the first elements of each sequence of a batch the other way round."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply


def _reverse_sequence(call: OperatorCall) -> None:
    """Emit x at length - 1 - t where t is below the length of the sequence, x at t behind it."""
    value, shape, lengths = call.value(0), call.shape(0), call.value(1)
    time = positive_axis(call, call.integer("time_axis", 0), len(shape))
    batch = positive_axis(call, call.integer("batch_axis", 1), len(shape))
    if time == batch or call.shape(1) != (shape[batch],):
        call.reject(f"has {list(call.shape(1))} lengths for an input of shape {list(shape)}")
    own = output_axes((shape[time], shape[batch]))
    t, b = at(own)
    number = Load(call.intermediate_constant(np.arange(shape[time], dtype=np.int64), "numbers"), (t,))
    given: Expr = Load(lengths, (b,))
    length = given if call.dtype(lengths) is DType.I64 else Cast(given, DType.I64)
    turned = apply("sub", apply("sub", length, Const(1, DType.I64)), number)
    body = apply("select", apply("less", number, length), turned, number)
    place = call.intermediate(Compute(own, (), None, body, DType.I64), "places")
    axes = output_axes(shape)
    places = list(at(axes))
    where = Load(place, (places[time], places[batch]))
    found = LookedUp(f"@{place}", shape[time])
    places[time] = Index.of(found)
    element = Lookup(found, where, Load(value, tuple(places)))
    call.emit(Compute(axes, (), None, element, call.dtype(value)))


LOWERINGS: Mapping[str, Lowering] = {"ReverseSequence": _reverse_sequence}
