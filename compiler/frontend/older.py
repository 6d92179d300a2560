"""Nodes of the first operator sets (1 to 6), said as lowerings know them from opset 7 on.

    Add(a, b, broadcast=1, axis=1)   a: [2, 3, 4], b: [3]    becomes   Add(a, b'), b': [3, 1]

`consumed_inputs` of opset 1, a hint about memory, is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from onnx import AttributeProto, NodeProto, TensorProto, helper

from compiler.frontend.call import OperatorCall, positive_axis
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Load

Change = Callable[[OperatorCall], NodeProto]


def as_of_opset_7(call: OperatorCall) -> OperatorCall:
    """The call, changed where its operator had another form."""
    since, change = _CHANGES.get(call.proto.op_type, (0, _unchanged))
    return replace(call, proto=change(call)) if call.opset < since else call


def _unchanged(call: OperatorCall) -> NodeProto:
    return call.proto


def _changed(call: OperatorCall, inputs: list[str] | None = None, **attributes: object) -> NodeProto:
    """The node with other inputs and attributes; None takes one away."""
    node = NodeProto()
    node.CopyFrom(call.proto)
    del node.attribute[:]
    node.attribute.extend(a for a in call.proto.attribute if a.name not in attributes)
    node.attribute.extend(helper.make_attribute(n, v) for n, v in attributes.items() if v is not None)
    if inputs is not None:
        node.input[:] = inputs
    return node


def _broadcast(call: OperatorCall) -> NodeProto:
    """The dimensions of the second operand begin at an axis of the first."""
    if not call.integer("broadcast") or call.attribute("axis", AttributeProto.INT) is None:
        return _changed(call, broadcast=None)
    rank, small = len(call.shape(0)), call.shape(1)
    behind = rank - positive_axis(call, call.integer("axis"), rank) - len(small)
    if behind < 0:
        call.reject(f"has operands of shapes {list(call.shape(0))} and {list(small)}, which do not broadcast")
    second = _with_dimensions_behind(call, 1, behind)
    return _changed(call, [call.value(0), second], broadcast=None, axis=None)


def _with_dimensions_behind(call: OperatorCall, position: int, count: int) -> str:
    """The input, with dimensions of 1 behind its own."""
    value, shape = call.value(position), call.shape(position)
    if not count:
        return value
    known = call.builder.constants.get(value)
    if known is not None:
        return call.intermediate_constant(known.reshape(*shape, *[1] * count), "operand")
    axes = output_axes((*shape, *[1] * count))
    body = Load(value, at(axes)[: len(shape)])
    return call.intermediate(Compute(axes, (), None, body, call.dtype(value)), "operand")


def _prelu(call: OperatorCall) -> NodeProto:
    """One slope for all, or one per channel."""
    slopes, rank = call.shape(1), len(call.shape(0))
    if len(slopes) != 1 or slopes == (1,) or rank < 2:
        return call.proto
    return _changed(call, [call.value(0), _with_dimensions_behind(call, 1, rank - 2)])


def _batch_normalisation(call: OperatorCall) -> NodeProto:
    if not call.integer("is_test"):
        call.unsupported("training mode, which is_test = 0 asks for")
    return _changed(call, is_test=None)


def _dropout(call: OperatorCall) -> NodeProto:
    if not call.integer("is_test"):
        call.unsupported("training mode, which is_test = 0 asks for")
    return _changed(call, is_test=None)


def _cast(call: OperatorCall) -> NodeProto:
    name, kinds = call.text("to", ""), dict(TensorProto.DataType.items())
    if name not in kinds:
        call.reject(f"casts to {name[:20]!r}")
    return _changed(call, to=kinds[name])


def _concat(call: OperatorCall) -> NodeProto:
    return _changed(call, axis=call.integer("axis", 1))


def _reshape(call: OperatorCall) -> NodeProto:
    shape = call.intermediate_constant(np.asarray(call.ints("shape") or [], np.int64), "shape")
    return _changed(call, [call.value(0), shape], shape=None)


def _pad(call: OperatorCall) -> NodeProto:
    return _changed(call, pads=call.ints("paddings") or [], paddings=None)


def _tile(call: OperatorCall) -> NodeProto:
    rank = len(call.shape(0))
    repeats = np.ones(rank, np.int64)
    repeats[positive_axis(call, int(call.constant_float(2)), rank)] = int(call.constant_float(1))
    return _changed(call, [call.value(0), call.intermediate_constant(repeats, "repeats")])


def _split(call: OperatorCall) -> NodeProto:
    if not call.has(1):
        return call.proto
    return _changed(call, [call.value(0)], split=[int(n) for n in call.constant(1).reshape(-1)])


def _selu(call: OperatorCall) -> NodeProto:
    return _changed(call, alpha=call.number("alpha", 1.6732), gamma=call.number("gamma", 1.0507))


def _whole_power(call: OperatorCall) -> NodeProto:
    p = call.number("p", 2.0)
    if not p.is_integer():
        call.unsupported(f"p {p}")
    return _changed(call, p=int(p))


_CHANGES: Mapping[str, tuple[int, Change]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow"), (7, _broadcast)),
    **dict.fromkeys(("And", "Or", "Xor", "Equal", "Greater", "Less"), (7, _broadcast)),
    "PRelu": (7, _prelu),
    "BatchNormalization": (7, _batch_normalisation),
    "Dropout": (7, _dropout),
    "Cast": (6, _cast),
    "Tile": (6, _tile),
    "Selu": (6, _selu),
    "Reshape": (5, _reshape),
    "Concat": (4, _concat),
    "Pad": (2, _pad),
    "Split": (2, _split),
    "LpPool": (2, _whole_power),
    "GlobalLpPool": (2, _whole_power),
}
"""By operator: the opset that brought its later form, and what makes it of the one before."""
