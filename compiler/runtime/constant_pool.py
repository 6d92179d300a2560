"""Constants that several compiled models have in common: one copy of each is kept."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from compiler.runtime.image import Image

_SMALL_BYTES = 1 << 12


class ConstantPool:
    """Arrays by content, as long as some Image has them. Not thread-safe."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: WeakValueDictionary[tuple[Any, ...], np.ndarray[Any, Any]] = WeakValueDictionary()

    def shared(self, image: Image) -> Image:
        """The same Image, with the arrays of those before it where they are equal."""
        return replace(image, constants=tuple(map(self._one, image.constants)))

    def _one(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if array.nbytes < _SMALL_BYTES:
            return array
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        key = (array.shape, array.dtype.name, hashlib.blake2b(data.data, digest_size=16).digest())
        return self._known.setdefault(key, array)
