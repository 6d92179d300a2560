"""Constants that several compiled models have in common: each is packed once, and one copy is kept."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from compiler.runtime.image import Image

_SMALL_BYTES = 1 << 12

Array = np.ndarray[Any, Any]


class ConstantPool:
    """Arrays by content, as long as some Image has them. Not thread-safe."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: WeakValueDictionary[tuple[Any, ...], Array] = WeakValueDictionary()
        self._packed: dict[Hashable, tuple[weakref.ref[Array], weakref.ref[Array]]] = {}
        self._own: WeakValueDictionary[int, Array] = WeakValueDictionary()

    def shared(self, image: Image) -> Image:
        """The same Image, with the arrays of those before it where they are equal."""
        return replace(image, constants=tuple(map(self._one, image.constants)))

    def packed(self, source: Array, how: Hashable, pack: Callable[[Array], Array]) -> Array:
        """`pack(source)`, or what it gave before for the same array, packed the same way."""
        key = (id(source), how)
        before = self._packed.get(key)
        if before is not None and before[0]() is source:
            known = before[1]()
            if known is not None:
                return known
        made = self._one(pack(source))
        self._packed[key] = weakref.ref(source), weakref.ref(made)
        return made

    def _one(self, array: Array) -> Array:
        if array.nbytes < _SMALL_BYTES or self._own.get(id(array)) is array:
            return array
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        key = (array.dtype.name, hashlib.blake2b(data.data, digest_size=16).digest())
        # Packed for other loops, the same elements may lie in the same order.
        kept = self._known.setdefault(key, array)
        kept = kept if kept.shape == array.shape else kept.reshape(array.shape)
        self._own[id(kept)] = kept
        return kept
