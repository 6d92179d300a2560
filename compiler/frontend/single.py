"""Operators on floats of 16 bits: computed in single precision, their results rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import NodeProto

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Load


def in_single(lowerings: Mapping[str, Lowering], *, rounded: int | None = None) -> dict[str, Lowering]:
    """The lowerings for floats of 16 bits too; `rounded`: how many outputs have the type of the inputs, else all.

    For operators that compute. Those that only move elements take any type as it is.
    """
    return {name: _in_single(lowering, rounded) for name, lowering in lowerings.items()}


def _in_single(lowering: Lowering, rounded: int | None) -> Lowering:
    def lower(call: OperatorCall) -> None:
        narrow = {p: kind for p in range(len(call.proto.input)) if (kind := _narrow(call, p)) is not None}
        if not narrow:
            return lowering(call)
        inputs = [
            _cast(call, call.value(p), DType.F32, "single") if p in narrow else name
            for p, name in enumerate(call.proto.input)
        ]
        count = len(call.proto.output) if rounded is None else rounded
        outputs = [
            call.builder.fresh(f"{name}.single") if name and place < count else name
            for place, name in enumerate(call.proto.output)
        ]
        proto = NodeProto()
        proto.CopyFrom(call.proto)
        del proto.input[:], proto.output[:]
        proto.input.extend(inputs)
        proto.output.extend(outputs)
        lowering(replace(call, proto=proto))
        kind = narrow[min(narrow)]
        for place, name in enumerate(outputs[:count]):
            found = call.builder.resolve(name)
            if name and found in call.builder.shapes:
                _emit_rounded(call, found, kind, place)
        return None

    return lower


def _narrow(call: OperatorCall, position: int) -> DType | None:
    """The type of an input, where it is such a float."""
    if not call.has(position):
        return None
    name = call.builder.resolve(call.proto.input[position])
    if name not in call.builder.shapes:
        return None
    try:
        kind = DType.from_numpy(call.builder.dtype(name))
    except KeyError:
        return None
    return kind if kind in (DType.F16, DType.BF16) else None


def _emit_rounded(call: OperatorCall, value: str, kind: DType, output: int) -> None:
    if call.dtype(value) is not DType.F32:
        return call.emit_same(value, output)
    axes = output_axes(call.builder.shapes[value])
    return call.emit(Compute(axes, (), None, Cast(Load(value, at(axes)), kind), kind), output)


def _cast(call: OperatorCall, value: str, kind: DType, suffix: str) -> str:
    axes = output_axes(call.builder.shapes[value])
    return call.intermediate(Compute(axes, (), None, Cast(Load(value, at(axes)), kind), kind), suffix)
