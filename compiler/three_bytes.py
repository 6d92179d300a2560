"""Floats of three bytes: the upper three of a single's four, of which the last stands twice.

    bytes of a single, lowest first: [b, b, c, d]  ←→  [b, c, d]

They have 15 bits of a single's fraction of 23, and its range. That their last byte stands twice, where zeros would do,
costs nothing and lets one instruction that permutes bytes make a vector of singles of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

THREE_BYTES = np.dtype("V3")
_BLOCK = 1 << 14
"""Elements whose intermediate results stay in the caches."""
_NAN = 0x7FC000
_NEAREST = 128
"""Half of what is between neighbours, which are 257 places of a single apart."""


def shorten(array: npt.NDArray[np.float32]) -> npt.NDArray[np.void]:
    """The nearest floats of three bytes; infinities and NaN stay what they are."""
    flat = np.ascontiguousarray(array, np.float32).reshape(-1)
    found = np.empty((len(flat), THREE_BYTES.itemsize), np.uint8)
    for start in range(0, len(flat), _BLOCK):
        part = flat[start : start + _BLOCK]
        bits = part.view(np.uint32)
        upper = bits >> 8
        beyond = (bits & 0xFF).astype(np.int16) - (upper & 0xFF).astype(np.int16)
        upper += beyond > _NEAREST
        upper -= beyond < -_NEAREST
        upper[np.isnan(part)] = _NAN
        for place, column in enumerate(upper.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4).T[:3]):
            found[start : start + len(part), place] = column
    return found.view(THREE_BYTES).reshape(array.shape)


def lengthen(array: npt.NDArray[np.void]) -> npt.NDArray[np.float32]:
    """The same numbers as singles."""
    three = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, THREE_BYTES.itemsize)
    four = np.concatenate((three[:, :1], three), axis=1)
    return four.view("<f4").astype(np.float32, copy=False).reshape(array.shape)
