"""LLVM's names of our types, constants and operations; and values that carry their type."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from math import copysign
from typing import NamedTuple

import numpy as np

from compiler.dtype import TINY_FLOATS, DType

SCALAR: Mapping[DType, str] = {
    DType.F32: "float",
    DType.F64: "double",
    DType.F16: "half",
    DType.BF16: "bfloat",
    DType.I8: "i8",
    DType.U8: "i8",
    DType.I16: "i16",
    DType.U16: "i16",
    DType.I32: "i32",
    DType.U32: "i32",
    DType.I64: "i64",
    DType.U64: "i64",
    DType.BOOL: "i8",
    DType.I4: "i8",
    DType.U4: "i8",
    DType.I2: "i8",
    DType.F24: "i24",
    DType.U2: "i8",
    **dict.fromkeys(TINY_FLOATS, "i8"),
}

_SHORT_FLOATS: Mapping[DType, str] = {DType.F16: "H", DType.BF16: "R"}
"""LLVM writes the bits of these with a letter in front."""

_FLOAT_BINARY: Mapping[str, str] = {
    "add": "fadd",
    "accumulate": "fadd nsz",
    "sub": "fsub",
    "mul": "fmul",
    "div": "fdiv",
    "rem": "frem",
}
_INT_BINARY: Mapping[str, str] = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
_FLOAT_COMPARES: Mapping[str, str] = {"equal": "oeq", "less": "olt", "less_equal": "ole"}
_INT_COMPARES: Mapping[str, str] = {"equal": "eq", "less": "lt", "less_equal": "le"}
_FLOAT_INTRINSICS: Mapping[str, str] = {
    "max": "maximum",
    "min": "minimum",
    "abs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
}


@cache
def llvm_type(dtype: DType, lanes: int) -> str:
    """`float`, or `<16 x float>` where lanes > 0."""
    return f"<{lanes} x {SCALAR[dtype]}>" if lanes else SCALAR[dtype]


class Value(NamedTuple):
    """An SSA value (or literal); lanes 0 for a scalar. `short`: the same in bf16, of floats that it holds exactly."""

    text: str
    dtype: DType
    lanes: int
    short: str = ""

    @property
    def llvm_type(self) -> str:
        """Its LLVM type."""
        return llvm_type(self.dtype, self.lanes)


@cache
def suffix(dtype: DType, lanes: int) -> str:
    """Overload suffix of an intrinsic: f32, v16f32, i64, ..."""
    is_whole = SCALAR[dtype].startswith("i")
    scalar = f"i{8 * dtype.size_bytes}" if is_whole else dtype.value
    return f"v{lanes}{scalar}" if lanes else scalar


def literal(value: float | int, dtype: DType, lanes: int = 0) -> str:
    """A constant; floats as the exact bits of a double, as LLVM wants them."""
    return _literal(value, dtype, lanes, copysign(1.0, value) < 0)


@cache
def _literal(value: float | int, dtype: DType, lanes: int, _negative: bool) -> str:  # noqa: FBT001 - tells two zeros apart
    if dtype is DType.F32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if dtype in TINY_FLOATS:
        text = str(int(np.asarray(value, np.float32).astype(dtype.numpy).view(np.uint8)))
    elif dtype in _SHORT_FLOATS:
        bits = int(np.asarray(value, np.float32).astype(dtype.numpy).view(np.uint16))
        text = f"0x{_SHORT_FLOATS[dtype]}{bits:04X}"
    else:
        text = f"0x{_double_bits(float(value)):016X}" if dtype.is_float else str(int(value))
    return f"splat ({SCALAR[dtype]} {text})" if lanes else text


def _double_bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def float_binary(op: str) -> str | None:
    """Instruction of a float operation, where there is one."""
    return _FLOAT_BINARY.get(op)


def int_binary(op: str) -> str | None:
    """Instruction of an integer operation, where there is one."""
    return _INT_BINARY.get(op)


def float_intrinsic(op: str) -> str | None:
    """Intrinsic of a float operation, where there is one; all of them propagate NaN as ONNX and NumPy do."""
    return _FLOAT_INTRINSICS.get(op)


def comparison(op: str, dtype: DType) -> str | None:
    """Instruction and condition of a comparison; one with NaN never holds."""
    if dtype.is_float:
        return f"fcmp {_FLOAT_COMPARES[op]}" if op in _FLOAT_COMPARES else None
    if op not in _INT_COMPARES:
        return None
    sign = "" if op == "equal" else "s" if dtype.is_signed else "u"
    return f"icmp {sign}{_INT_COMPARES[op]}"
