"""Resampling of one dimension: each output is a weighted sum of the few elements around its place in the input.

    y[o] = sum of weights[o, t] * x[start(o) + t]

Places and weights are known at compile time. `start` is (o * p + r) // q where such numbers exist, which holds for
whole and simple scales; what it reads outside of the input has weight 0. Else it is looked up in a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt

from compiler.index import Index

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Kernel = Callable[[Floats], Floats]
"""Weight by distance."""


@dataclass(frozen=True)
class Resampling:
    """The elements and weights of every output of one dimension.

    Attributes:
        size: elements of the input.
        first: first element with a weight, per output.
        weights: [outputs, taps].
    """

    size: int
    first: Ints
    weights: Floats

    @property
    def taps(self) -> int:
        """Elements that an output is made of."""
        return int(self.weights.shape[1])

    def moved(self, starts: Ints) -> Resampling:
        """The same with other first elements; `starts` and as many taps hold every weight that is not 0."""
        moved = np.zeros_like(self.weights)
        rows, taps = np.nonzero(self.weights)
        moved[rows, (self.first - starts)[rows] + taps] = self.weights[rows, taps]
        return Resampling(self.size, starts, moved)

    def steady(self) -> tuple[Index, Resampling] | None:
        """`start` of an axis named "o" as an expression, and the sums that begin there; None where there is none."""
        outputs = len(self.first)
        divisor = gcd(outputs, self.size)
        p, q = self.size // divisor, outputs // divisor
        used = self.weights != 0
        low = self.first + used.argmax(1)
        high = self.first + self.taps - 1 - used[:, ::-1].argmax(1)
        steps = np.arange(outputs) * p
        least = int((q * (high - self.taps + 1) - steps).max())
        most = int((q * (low + 1) - 1 - steps).min())
        if least > most:
            return None
        offset = max(least, min(0, most))
        return (Index.of("o") * p + offset) // q, self.moved((steps + offset) // q)


def nearest(places: Floats, size: int, mode: str) -> Resampling:
    """The nearest element; `mode` says which one is that of a place in the middle of two."""
    rounding: dict[str, Callable[[Floats], Floats]] = {
        "round_prefer_floor": lambda x: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    chosen = np.clip(rounding[mode](places), 0, size - 1).astype(np.int64)
    return Resampling(size, chosen, np.ones((len(places), 1)))


def interpolated(
    places: Floats, size: int, kernel: Kernel, radius: float, *, exclude_outside: bool
) -> Resampling:
    """Sums by a kernel that is 0 from `radius` on; the edge repeats outside of the input, or does not count there."""
    reach = int(np.ceil(radius))
    near = np.floor(places).astype(np.int64)[:, None] + np.arange(-reach, reach + 2)
    weights = kernel(near - places[:, None])
    if exclude_outside:
        weights = np.where((near < 0) | (near >= size), 0.0, weights)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1.0, total)
    inside = np.clip(near, 0, size - 1)
    first = inside.min(1)
    sums = np.zeros((len(places), int((inside.max(1) - first).max()) + 1))
    np.add.at(sums, (np.arange(len(places))[:, None], inside - first[:, None]), weights)
    return _trimmed(size, first, sums)


def _trimmed(size: int, first: Ints, weights: Floats) -> Resampling:
    """With as few taps as hold the weights, all of them inside of the input."""
    used = weights != 0
    skipped = used.argmax(1)
    width = weights.shape[1] - used[:, ::-1].argmax(1) - skipped
    taps = int(width.max())
    spread = np.concatenate([weights, np.zeros((len(first), taps))], 1)
    kept = np.take_along_axis(spread, skipped[:, None] + np.arange(taps), 1)
    starts = first + skipped
    found = Resampling(size, starts, np.where(np.arange(taps) < width[:, None], kept, 0.0))
    return found.moved(np.minimum(starts, size - taps))


def linear_kernel(distance: Floats) -> Floats:
    """A triangle."""
    weights: Floats = np.clip(1 - np.abs(distance), 0, 1)
    return weights


def cubic_kernel(sharpness: float) -> Kernel:
    """Keys' kernel (1981), 0 from a distance of 2 on; `sharpness` is its slope at 1."""
    a = sharpness

    def kernel(distance: Floats) -> Floats:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel
