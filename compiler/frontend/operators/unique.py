"""Unique: slices that are equal are one class; a class is where its first slice is, or in the order of its elements.

differ[i, j] = min over k of (k where x[i, k] is not x[j, k], else the width)
first[i]     = min over j of (j where differ[i, j] is the width): the first slice of the class
class[i]     = how many classes come before
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import helper

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall, positive_axis, size_of
from compiler.frontend.computes import at, output_axes
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.operators.selections import own_node
from compiler.graph.ir import Compute
from compiler.index import ZERO, Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply
from compiler.symbol import axis

_MOST_PAIRS = 1 << 28
_NONE, _ONE = Const(0, DType.I32), Const(1, DType.I32)


def _unique(call: OperatorCall) -> None:
    """A segment finds the classes and counts them, the next takes a slice of each."""
    along = call.attribute("axis", 2)
    shape = call.shape(0)
    dim = -1 if along is None else positive_axis(call, along.i, len(shape))
    n = size_of(shape) if along is None else shape[dim]
    width = size_of(shape) // n if n else 0
    if n * n * max(width, 1) > _MOST_PAIRS:
        call.unsupported(f"{n} slices of {width} elements, each compared with all others")
    names = {
        name: call.fresh(name) for name in ("first", "flags", "count", "class", "indices", "sizes", "places")
    }
    given = [*call.proto.output, "", "", "", ""]
    outputs = [given[k] or call.fresh(f"output.{k}") for k in range(4)]
    nodes = [
        own_node(
            "Classes",
            [call.proto.input[0]],
            [names["flags"], names["class"]],
            dim=dim,
            sorted=call.integer("sorted", 1),
        ),
        own_node("Count", [names["flags"]], [names["count"]]),
        own_node("ClassPlaces", [names["class"], names["count"]], [outputs[1], outputs[3]]),
        helper.make_node("Identity", [names["class"]], [outputs[2]]),
        own_node("Take", [call.proto.input[0], outputs[1]], [outputs[0]])
        if along is None
        else helper.make_node("Gather", [call.proto.input[0], outputs[1]], [outputs[0]], axis=dim),
    ]
    call.expand(nodes)


def _classes(call: OperatorCall) -> None:
    """[n]: 1 where a slice is the first of its class, and the number of the class of each slice."""
    value, shape, dim = call.value(0), call.shape(0), call.integer("dim")
    n = size_of(shape) if dim < 0 else shape[dim]
    if not n:
        call.emit_constant(np.zeros(0, np.int32))
        return call.emit_constant(np.zeros(0, np.int64), 1)
    rest = () if dim < 0 else (*shape[:dim], *shape[dim + 1 :])
    width = size_of(rest)
    kind = call.dtype(value)

    def element(i: Index, k: Index) -> Expr:
        if dim < 0:
            indices = tuple(x.substitute({"f": i}) for x in reshaped_indices(shape, (n,), (Index.of("f"),)))
        else:
            others = tuple(x.substitute({"f": k}) for x in reshaped_indices(rest, (width,), (Index.of("f"),)))
            indices = (*others[:dim], i, *others[dim:])
        load = Load(value, indices)
        return Cast(load, kind.computed) if kind.is_stored_only else load

    pairs = output_axes((n, n))
    i, j = at(pairs)
    numbers = call.intermediate_constant(np.arange(max(n, width), dtype=np.int32), "numbers")
    r = Index.of("r0") if width > 1 else ZERO
    inner = (axis("r0", width),) if width > 1 else ()
    same = apply("equal", element(i, r), element(j, r))
    place = apply("select", same, Const(width, DType.I32), Load(numbers, (r,)))
    # Where two slices first differ; `width` where they do not.
    differ = call.intermediate(Compute(pairs, inner, "min" if inner else None, place, DType.I32), "differ")
    axes = output_axes((n,))
    (a,) = at(axes)
    s = Index.of("r0")
    reduce_ = (axis("r0", n),)
    is_same = apply("equal", Load(differ, (a, s)), Const(width, DType.I32))
    first_body = apply("select", is_same, Load(numbers, (s,)), Const(n, DType.I32))
    first = call.intermediate(Compute(axes, reduce_, "min", first_body, DType.I32), "first")
    own = apply("equal", Load(first, (a,)), Load(numbers, (a,)))
    flags = Compute(axes, (), None, apply("select", own, _ONE, _NONE), DType.I32)
    flag = call.intermediate(flags, "flag")
    call.emit(Compute(axes, (), None, Load(flag, (a,)), DType.I32))
    if call.integer("sorted"):
        found = LookedUp(f"@{differ}", width)
        below: Expr = Lookup(
            found,
            Load(differ, (s, a)),
            apply("less", element(s, Index.of(found)), element(a, Index.of(found))),
        )
        below = apply("and", below, apply("less", Load(differ, (s, a)), Const(width, DType.I32)))
    else:
        below = apply("less", Load(numbers, (s,)), Load(first, (a,)))
    counted = apply("select", below, Load(flag, (s,)), _NONE)
    number = call.intermediate(Compute(axes, reduce_, "sum", counted, DType.I32), "number")
    return call.emit(Compute(axes, (), None, Cast(Load(number, (a,)), DType.I64), DType.I64), 1)


def _class_places(call: OperatorCall) -> None:
    """[classes]: the first place of each, and how many have it."""
    (n,), count = call.shape(0), int(call.constant(1))
    if not count:
        call.emit_constant(np.zeros(0, np.int64))
        return call.emit_constant(np.zeros(0, np.int64), 1)
    numbers = call.intermediate_constant(np.arange(max(n, count), dtype=np.int64), "numbers")
    axes = output_axes((count,))
    (k,) = at(axes)
    s = Index.of("r0")
    hit = apply("equal", Load(call.value(0), (s,)), Load(numbers, (k,)))
    inner = (axis("r0", n),)
    last, none, one = Const(n, DType.I64), Const(0, DType.I64), Const(1, DType.I64)
    call.emit(Compute(axes, inner, "min", apply("select", hit, Load(numbers, (s,)), last), DType.I64))
    return call.emit(Compute(axes, inner, "sum", apply("select", hit, one, none), DType.I64), 1)


LOWERINGS: Mapping[str, Lowering] = {"Unique": _unique}
OWN_LOWERINGS: Mapping[str, Lowering] = {"Classes": _classes, "ClassPlaces": _class_places}
