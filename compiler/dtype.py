"""Element types, with what each layer needs to know of them."""

from __future__ import annotations

import enum

import numpy as np


class DType(enum.Enum):
    """An element type; the value is its name in every printed or stored form."""

    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    U8 = "u8"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type with the same bytes."""
        return np.dtype(_NUMPY[self])

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return int(self.numpy.itemsize)

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it is floating point."""
        return self in (DType.F32, DType.F64)

    @staticmethod
    def from_numpy(dtype: np.dtype[np.generic]) -> DType:
        """The DType of a NumPy type; raises KeyError where there is none."""
        return _FROM_NUMPY[np.dtype(dtype)]


_NUMPY: dict[DType, str] = {
    DType.F32: "float32",
    DType.F64: "float64",
    DType.I8: "int8",
    DType.U8: "uint8",
    DType.I32: "int32",
    DType.I64: "int64",
    DType.BOOL: "bool",
}
_FROM_NUMPY: dict[np.dtype[np.generic], DType] = {np.dtype(n): d for d, n in _NUMPY.items()}
