"""Operators on values that are only stored: computed in a wider type, their results rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx import NodeProto

from compiler.dtype import DType
from compiler.frontend.call import Lowering, OperatorCall
from compiler.frontend.computes import at, output_axes
from compiler.graph.ir import Compute
from compiler.scalar import Cast, Load

Wider = Mapping[DType, DType]
"""The type in which values of another are computed with."""

_SINGLE: Wider = {DType.F16: DType.F32, DType.BF16: DType.F32}
_BYTES: Wider = {DType.BOOL: DType.U8}


def in_single(lowerings: Mapping[str, Lowering], *, rounded: int | None = None) -> dict[str, Lowering]:
    """The lowerings for floats of 16 bits too; `rounded`: how many outputs have the type of the inputs, else all.

    For operators that compute. Those that only move elements take any type as it is.
    """
    return {name: _widened(lowering, _SINGLE, rounded) for name, lowering in lowerings.items()}


def in_bytes(lowerings: Mapping[str, Lowering]) -> dict[str, Lowering]:
    """The lowerings for truth values too, computed as the numbers 0 and 1."""
    return {name: _widened(lowering, _BYTES, None) for name, lowering in lowerings.items()}


def _widened(lowering: Lowering, wider: Wider, rounded: int | None) -> Lowering:
    def lower(call: OperatorCall) -> None:
        kinds = {p: kind for p in range(len(call.proto.input)) if (kind := _type(call, p)) is not None}
        narrow = {p: kind for p, kind in kinds.items() if kind in wider}
        if not narrow:
            return lowering(call)
        inputs = [
            _cast(call, call.value(p), wider[narrow[p]], "wide") if p in narrow else name
            for p, name in enumerate(call.proto.input)
        ]
        count = len(call.proto.output) if rounded is None else rounded
        outputs = [
            call.builder.fresh(f"{name}.wide") if name and place < count else name
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
                _emit_rounded(call, found, wider[kind], kind, place)
        return None

    return lower


def _type(call: OperatorCall, position: int) -> DType | None:
    """The type of an input, where it is one of ours."""
    if not call.has(position):
        return None
    name = call.builder.resolve(call.proto.input[position])
    if name not in call.builder.shapes:
        return None
    try:
        return DType.from_numpy(call.builder.dtype(name))
    except KeyError:
        return None


def _emit_rounded(call: OperatorCall, value: str, wide: DType, kind: DType, output: int) -> None:
    if call.dtype(value) is not wide:
        return call.emit_same(value, output)
    axes = output_axes(call.builder.shapes[value])
    return call.emit(Compute(axes, (), None, Cast(Load(value, at(axes)), kind), kind), output)


def _cast(call: OperatorCall, value: str, kind: DType, suffix: str) -> str:
    axes = output_axes(call.builder.shapes[value])
    return call.intermediate(Compute(axes, (), None, Cast(Load(value, at(axes)), kind), kind), suffix)
