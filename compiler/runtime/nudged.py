"""Nudged images: what a model computes where its constants are off by as much as its kernels round.

Kernels that take fewer operations or bytes round more than single precision does: those of numbers cut into parts, of
constants in three bytes, and of transformed tiles (compiler/schedule/parts.py, short_constants.py, winograd.py). Each
keeps to its Task's error budget; whether all of them together keep to the model's depends on how the model enlarges
what it is given. A run with such constants nudged at random, next to a run without, tells, for an error in a product is
as good as one in its factor. It needs neither other code nor a reference.

Source: the idea of random perturbation in J. Vignes, A stochastic arithmetic for reliable scientific computation,
Mathematics and Computers in Simulation 35, 1993.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.dtype import DType
from compiler.packing import Packing, Parts, Shortened
from compiler.runtime.aligned import Array, aligned_empty
from compiler.runtime.image import Image

MOST_BYTES = 512 << 20
"""Of constants that are nudged: the first ones, whose errors the rest of the model may enlarge."""
NUDGES = 2
"""That must agree before a model is taken to enlarge errors."""
_PERIOD = 1 << 20
"""Elements after which the random bits begin again."""
_TRANSFORMED_BIT = 5
"""Of a single's fraction: 2**-18 of it, which is what the usual transforms of tiles lose."""


def nudged(image: Image, seed: int = 0) -> Image | None:
    """The Image with the last bits of half of its rounded constants turned, up to MOST_BYTES; None if it has none.

    Parts are turned by 1.6 times what products of parts are off by, constants in three bytes by 2.4 times (root mean
    squares, for numbers of all sizes alike).
    """
    bits = np.random.default_rng(seed).integers(0, 2, _PERIOD, np.uint8)
    constants, left = list(image.constants), MOST_BYTES
    for number, packing in _rounded(image).items():
        array = constants[number]
        if array.nbytes <= left:
            left -= array.nbytes
            constants[number] = _turned(array, packing, bits)
    changed = any(new is not old for new, old in zip(constants, image.constants, strict=True))
    return replace(image, constants=tuple(constants), named=()) if changed else None


def _rounded(image: Image) -> dict[int, Packing]:
    """Constants of kernels that round, by number, in the order in which they are read first."""
    found: dict[int, Packing] = {}
    for call in image.calls:
        for param, number in zip(image.kernels[call.kernel].params, call.slots, strict=False):
            slot, packing = image.slots[number], param.packing
            if slot.kind == "constant" and packing is not None and packing.transform is not None:
                found.setdefault(slot.where, packing)
    return found


def _turned(array: Array, packing: Packing, bits: Array) -> Array:
    """A copy with last bits turned; the array itself where it has none to turn."""
    match packing.transform:
        case Parts(count, DType.BF16):
            along = [d for d, c in enumerate(packing.coefficients) if c[-1] and packing.shape[d] == count]
            if len(along) != 1:
                return array
            copy = _copied(array)
            places = np.moveaxis(copy.view(np.uint16).reshape(packing.shape), along[0], 0)[-1]
            bit = 0
        case Shortened():
            copy = _copied(array)
            places, bit = copy.view(np.uint8).reshape(-1, array.dtype.itemsize)[:, 0], 0
        case _ if array.dtype == np.float32:
            copy = _copied(array)
            places, bit = copy.view(np.uint32).reshape(-1), _TRANSFORMED_BIT
        case _:
            return array
    _turn(places, bits, bit)
    return copy


def _copied(array: Array) -> Array:
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _turn(places: Array, bits: Array, bit: int) -> None:
    """Turn a bit of about half of the elements, in place; `places` may be strided."""
    shape = places.shape[1:] if places.ndim > 1 else (min(places.size, bits.size),)
    mask = np.resize(bits, shape).astype(places.dtype) << places.dtype.type(bit)
    if places.ndim > 1:
        places ^= mask
        return
    for start in range(0, places.size, mask.size):
        part = places[start : start + mask.size]
        part ^= mask[: part.size]
