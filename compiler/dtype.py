"""Element types, with what each layer needs to know of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np


class DType(enum.Enum):
    """An element type; the value is its name in every printed or stored form.

    Floats of 16 bits and fewer, and whole numbers of fewer than 8, are types of storage: values are cast to the type
    that `computed` names before anything is computed with them. An element takes a byte or more.

    F24 is what a packed constant may be stored as, and nothing else (compiler/three_bytes.py).
    """

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    BOOL = "bool"
    I4 = "i4"
    U4 = "u4"
    I2 = "i2"
    U2 = "u2"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F4E2M1 = "f4e2m1"
    F24 = "f24"

    # By identity, in C: members are looked up in tables at every instruction that is emitted.
    __hash__ = object.__hash__

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type with the same bytes."""
        return _NUMPY[self]

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return _SIZE_BYTES[self]

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it is floating point."""
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether it holds whole numbers; arithmetic on them wraps around."""
        return not self.is_float and self is not DType.BOOL

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values."""
        return self not in _UNSIGNED

    @property
    def is_stored_only(self) -> bool:
        """Whether nothing is computed in it."""
        return self in _COMPUTED

    @property
    def computed(self) -> DType:
        """The type in which values of this one are computed with; it has all of them."""
        return _COMPUTED.get(self, self)

    @property
    def is_narrow_float(self) -> bool:
        """Whether it is a float that single precision has every value of, and more."""
        return self in _COMPUTED and self.is_float

    @property
    def bits(self) -> int:
        """Bits that the value has; the others of its bytes are 0."""
        return _BITS.get(self, 8 * self.size_bytes)

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type; raises ValueError for floats."""
        if self.is_float:
            msg = f"{self.value} has no smallest whole number"
            raise ValueError(msg)
        if self is DType.BOOL:
            return 0, 1
        if self.is_signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def holds(self, low: float, high: float) -> bool:
        """Whether an integer type has every whole number from low to high."""
        if self.is_float:
            return False
        least, most = self.limits
        return least <= low and high <= most

    @staticmethod
    def from_numpy(dtype: np.dtype[np.generic]) -> DType:
        """The DType of a NumPy type; raises KeyError where there is none."""
        return _FROM_NUMPY[np.dtype(dtype)]


@dataclass(frozen=True, slots=True)
class TinyFloat:
    """A float of 8 bits or fewer: sign, exponent, mantissa, from the highest bit on.

    Attributes:
        bias: of the exponent.
        largest: bits of the largest finite value.
        beyond: bits of what is larger than that; the sign of the value is added.
        nan: bits that a NaN becomes.
        first_special: the least bits without the sign that are no finite number; the sign's own where there are none.
        negative_zero: whether it has one; else its bits are NaN.
        infinity: its bits, where it has one.
    """

    mantissa_bits: int
    bias: int
    largest: int
    beyond: int
    nan: int
    first_special: int
    negative_zero: bool = True
    infinity: int | None = None


TINY_FLOATS: Mapping[DType, TinyFloat] = {
    DType.F8E4M3FN: TinyFloat(3, 7, 0x7E, 0x7F, 0x7F, 0x7F),
    DType.F8E4M3FNUZ: TinyFloat(3, 8, 0x7F, 0x80, 0x80, 0x80, negative_zero=False),
    DType.F8E5M2: TinyFloat(2, 15, 0x7B, 0x7C, 0x7E, 0x7C, infinity=0x7C),
    DType.F8E5M2FNUZ: TinyFloat(2, 16, 0x7F, 0x80, 0x80, 0x80, negative_zero=False),
    DType.F4E2M1: TinyFloat(1, 1, 0x7, 0x7, 0x8, 0x8),
}
"""The last has neither NaN nor infinity: what is too large is its largest value."""

_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.I16: np.dtype(np.int16),
    DType.U16: np.dtype(np.uint16),
    DType.I32: np.dtype(np.int32),
    DType.U32: np.dtype(np.uint32),
    DType.I64: np.dtype(np.int64),
    DType.U64: np.dtype(np.uint64),
    DType.BOOL: np.dtype(np.bool_),
    DType.I4: np.dtype(ml_dtypes.int4),
    DType.U4: np.dtype(ml_dtypes.uint4),
    DType.I2: np.dtype(ml_dtypes.int2),
    DType.U2: np.dtype(ml_dtypes.uint2),
    DType.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.F8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.F8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.F4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.F24: np.dtype("V3"),
}
_SIZE_BYTES = {dtype: int(kind.itemsize) for dtype, kind in _NUMPY.items()}
_BITS = {DType.I4: 4, DType.U4: 4, DType.I2: 2, DType.U2: 2, DType.F4E2M1: 4}
_FLOATS = frozenset({DType.F32, DType.F64, DType.F16, DType.BF16, DType.F24, *TINY_FLOATS})
_UNSIGNED = frozenset({DType.BOOL, DType.U8, DType.U16, DType.U32, DType.U64, DType.U4, DType.U2})
_COMPUTED: Mapping[DType, DType] = {
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.F24: DType.F32,
    **dict.fromkeys(TINY_FLOATS, DType.F32),
    DType.I4: DType.I8,
    DType.I2: DType.I8,
    DType.U4: DType.U8,
    DType.U2: DType.U8,
}
TENSOR_TYPES = tuple(dtype for dtype in DType if dtype is not DType.F24)
"""Types that a tensor of a model may have."""
_FROM_NUMPY: dict[np.dtype[np.generic], DType] = {kind: dtype for dtype, kind in _NUMPY.items()}
