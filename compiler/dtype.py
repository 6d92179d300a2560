"""Element types, with what each layer needs to know of them."""

from __future__ import annotations

import enum
from functools import cached_property

import ml_dtypes
import numpy as np


class DType(enum.Enum):
    """An element type; the value is its name in every printed or stored form.

    F16 and BF16 are types of storage: values are cast to F32 before anything is computed with them.
    """

    F32 = "f32"
    F64 = "f64"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"

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
        return self not in (DType.U8, DType.BOOL)

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type; raises ValueError for floats."""
        if self is DType.BOOL:
            return 0, 1
        info = np.iinfo(self.numpy)  # type: ignore[type-var]
        return int(info.min), int(info.max)

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


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
    DType.F16: np.dtype(np.float16),
    DType.BF16: np.dtype(ml_dtypes.bfloat16),
    DType.I8: np.dtype(np.int8),
    DType.U8: np.dtype(np.uint8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.BOOL: np.dtype(np.bool_),
}
_SIZE_BYTES = {dtype: int(kind.itemsize) for dtype, kind in _NUMPY.items()}
_FLOATS = frozenset({DType.F32, DType.F64, DType.F16, DType.BF16})
_FROM_NUMPY: dict[np.dtype[np.generic], DType] = {kind: dtype for dtype, kind in _NUMPY.items()}
