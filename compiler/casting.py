"""Conversions between element types on NumPy arrays, as the machine makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.dtype import DType

Array = npt.NDArray[Any]


def cast(values: Array, dtype: DType, precision: np.dtype[Any]) -> Array:
    """The values in another type, as `held` keeps them. Types that are only stored are rounded to."""
    array = np.asarray(values)
    if dtype.is_narrow_float:
        with np.errstate(all="ignore"):
            return np.asarray(array.astype(np.float32).astype(dtype.numpy).astype(precision))
    if dtype.is_float:
        return array.astype(precision)
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and dtype.size_bytes < DType.I32.size_bytes and dtype is not DType.BOOL:
            array = array.astype(np.int64)  # then cut down, as the machine does
        if dtype.is_stored_only:
            array = array.astype(dtype.computed.numpy).astype(dtype.numpy)
            return array.astype(dtype.computed.numpy)
        return array.astype(dtype.numpy)


def held(values: Array, precision: npt.DTypeLike) -> Array:
    """Stored values as they are computed with: floats in the precision asked for, whole numbers in their own types."""
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array
    dtype = DType.from_numpy(array.dtype)
    return array.astype(precision if dtype.is_float else dtype.computed.numpy, copy=False)
