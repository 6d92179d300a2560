"""Sequences and optionals. Which values a sequence has is known when code is made, so its operators compute nothing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import NodeProto, helper

from compiler.frontend.call import Lowering, OperatorCall, positive_axis, size_of
from compiler.frontend.computes import at, output_axes
from compiler.frontend.operators.reshaping import reshaped_indices
from compiler.frontend.subgraphs import inlined
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Load


def _empty(call: OperatorCall) -> None:
    call.emit_sequence(())


def _construct(call: OperatorCall) -> None:
    call.emit_sequence(call.values())


def _at(call: OperatorCall) -> None:
    values = call.sequence(0)
    call.emit_same(values[_position(call, 1, len(values))])


def _insert(call: OperatorCall) -> None:
    values = list(call.sequence(0))
    place = _position(call, 2, len(values) + 1, count=len(values)) if call.has(2) else len(values)
    values.insert(place, call.value(1))
    call.emit_sequence(values)


def _erase(call: OperatorCall) -> None:
    values = list(call.sequence(0))
    del values[_position(call, 1, len(values)) if call.has(1) else -1]
    call.emit_sequence(values)


def _position(call: OperatorCall, position: int, places: int, *, count: int | None = None) -> int:
    """An index into a sequence; a negative one counts from the end of its `count` elements."""
    count = places if count is None else count
    (index,) = call.constant_ints(position)
    if not -count <= index < places:
        call.reject(f"has position {index} in a sequence of {count}")
    return index if index >= 0 else index + count


def _length(call: OperatorCall) -> None:
    call.emit_constant(np.asarray(len(call.sequence(0)), np.int64))


def _split(call: OperatorCall) -> None:
    """A slice each; without given sizes they are of 1, and `keepdims` says whether that dimension stays."""
    shape = call.shape(0)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    size, given = shape[axis], call.constant(1) if call.has(1) else None
    if given is None:
        sizes = [1] * size
    elif given.ndim == 0:
        step = int(given)
        if step < 1:
            call.reject(f"splits into parts of {step}")
        sizes = [min(step, size - start) for start in range(0, size, step)]
    else:
        sizes = call.constant_ints(1)
    if sum(sizes) != size or any(n < 0 for n in sizes):
        call.reject(f"splits {size} elements into {sizes}")
    drop = given is None and not call.integer("keepdims", 1)
    starts = np.cumsum([0, *sizes])
    parts = [_part(call, axis, int(start), n, drop=drop) for start, n in zip(starts, sizes, strict=False)]
    call.emit_sequence(parts)


def _part(call: OperatorCall, axis: int, start: int, size: int, *, drop: bool) -> str:
    shape = call.shape(0)
    axes = output_axes((*shape[:axis], *((size,) if not drop else ()), *shape[axis + 1 :]))
    places = list(at(axes))
    if drop:
        places.insert(axis, Index.of(start))
    else:
        places[axis] = places[axis] + start
    return call.intermediate(Compute(axes, (), None, Load(call.value(0), tuple(places))), f"{start}")


def _concat(call: OperatorCall) -> None:
    values = list(call.sequence(0))
    if not values:
        call.unsupported("of an empty sequence")
    axis, new = call.integer("axis"), call.integer("new_axis")
    rank = len(call.builder.shapes[values[0]]) + new
    axis = positive_axis(call, axis, rank)
    if new:
        values = [_with_axis(call, value, axis) for value in values]
    call.expand([helper.make_node("Concat", values, [call.proto.output[0]], axis=axis)])


def _with_axis(call: OperatorCall, value: str, axis: int) -> str:
    shape = call.builder.shapes[value]
    wanted = (*shape[:axis], 1, *shape[axis:])
    if value in call.builder.constants:
        return call.intermediate_constant(call.builder.constants[value].reshape(wanted), "element")
    axes = output_axes(wanted)
    load = Load(value, reshaped_indices(shape, wanted, at(axes)) if size_of(shape) else at(axes)[:-1])
    return call.intermediate(Compute(axes, (), None, load), "element")


def _map(call: OperatorCall) -> None:
    """The body for each element of the first sequence; other inputs are sequences of as many, or the same for all."""
    body, first = call.graph("body"), call.sequence(0)
    given = [
        call.sequence(p) if call.is_sequence(p) else (call.value(p),) * len(first)
        for p in range(len(call.proto.input))
    ]
    if any(len(values) != len(first) for values in given):
        call.reject(f"has sequences of {sorted({len(values) for values in given})} elements")
    nodes: list[NodeProto] = []
    collected: list[list[str]] = [[] for _ in body.output]
    for place in range(len(first)):
        new, outputs = inlined(body, [values[place] for values in given], call.fresh)
        nodes += new
        for into, name in zip(collected, outputs, strict=True):
            into.append(name)
    for names, output in zip(collected, call.proto.output, strict=False):
        if output:
            kind = "SequenceConstruct" if names else "SequenceEmpty"
            nodes.append(helper.make_node(kind, names, [output]))
    call.expand(nodes)


def _optional(call: OperatorCall) -> None:
    if call.has(0):
        call.emit_alias(0)
    else:
        call.emit_absent()


def _has_element(call: OperatorCall) -> None:
    call.emit_constant(np.asarray(call.has(0) and not call.is_absent(0)))


def _get_element(call: OperatorCall) -> None:
    if not call.has(0) or call.is_absent(0):
        call.reject("takes the element of an optional that has none")
    call.emit_alias(0)


LOWERINGS: Mapping[str, Lowering] = {
    "SequenceEmpty": _empty,
    "SequenceConstruct": _construct,
    "SequenceAt": _at,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceLength": _length,
    "SequenceMap": _map,
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalHasElement": _has_element,
    "OptionalGetElement": _get_element,
}
