"""Concat and Split."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from compiler.frontend.call import Lowering, OperatorCall, positive_axis
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.index import Index
from compiler.scalar import Bound, Expr, Guard, Load


def _concat(call: OperatorCall) -> None:
    """Emit y[i] = a[i] if i < n else (b[i - n] if i < n + m else ...)."""
    values = call.values()
    shapes = [call.builder.shapes[value] for value in values]
    axis = positive_axis(call, call.integer("axis"), len(shapes[0]))
    rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rests) > 1 or len({len(shape) for shape in shapes}) > 1:
        call.reject(f"joins shapes {[list(s) for s in shapes]} along axis {axis}")
    # What is empty adds nothing; exporters join the empty slice of a shape before its first axis.
    values = [value for value, shape in zip(values, shapes, strict=True) if shape[axis] != 0] or values[:1]
    if len(values) == 1:
        return call.emit_same(values[0])
    shapes = [call.builder.shapes[value] for value in values]
    ends = list(accumulate(shape[axis] for shape in shapes))
    axes = output_axes((*shapes[0][:axis], ends[-1], *shapes[0][axis + 1 :]))
    indices = at(axes)
    body: Expr = _moved(values[-1], indices, axis, ends[-2])
    for place in reversed(range(len(values) - 1)):
        start = ends[place - 1] if place else 0
        test = Bound(indices[axis], start, ends[place])
        body = Guard((test,), _moved(values[place], indices, axis, start), body)
    return call.emit(Compute(axes, (), None, body, call.dtype(*values)))


def _split(call: OperatorCall) -> None:
    value, shape = call.value(0), call.shape(0)
    axis = positive_axis(call, call.integer("axis"), len(shape))
    sizes = _split_sizes(call, shape[axis])
    if sum(sizes) != shape[axis] or len(sizes) != len(call.proto.output):
        call.reject(f"splits {shape[axis]} elements into {sizes} for {len(call.proto.output)} outputs")
    start = 0
    for output, size in enumerate(sizes):
        axes = output_axes((*shape[:axis], size, *shape[axis + 1 :]))
        body = _moved(value, at(axes), axis, -start)
        call.emit(Compute(axes, (), None, body, call.dtype(value)), output)
        start += size


def _split_sizes(call: OperatorCall, extent: int) -> list[int]:
    given = call.ints("split")
    if call.opset >= 13 and call.has(1):
        given = call.constant_ints(1)
    if given is not None:
        return given
    count = len(call.proto.output)
    size = -(-extent // count)
    return [size] * (count - 1) + [extent - size * (count - 1)]


def _moved(value: str, indices: tuple[Index, ...], axis: int, start: int) -> Load:
    return Load(value, (*indices[:axis], indices[axis] - start, *indices[axis + 1 :]))


LOWERINGS: Mapping[str, Lowering] = {"Concat": _concat, "Split": _split}
