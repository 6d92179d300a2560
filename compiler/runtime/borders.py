"""Borders: the parts of a value that its producer leaves alone and its readers find zero, as Strips of memory."""

from __future__ import annotations

import numpy as np

from compiler.codegen.clear import Strip
from compiler.grid import index_arrays
from compiler.workload.ir import Operand, Stage

_MAX_STRIPS = 16


def border_strips(output: Operand, stage: Stage) -> tuple[Strip, ...] | None:
    """What `stage` leaves of its target, static extents; None where it is in too many pieces to clear in each run."""
    left = np.ones(output.sizes, np.int8)
    ranges = {axis.name: axis.size for axis in stage.axes}
    left[tuple(np.broadcast_arrays(*index_arrays(stage.target_indices, ranges)))] = 0
    edges = np.flatnonzero(np.diff(left.reshape(-1), prepend=0, append=0)).reshape(-1, 2)
    strips = _collected(edges[:, 0], edges[:, 1] - edges[:, 0])
    if len(strips) > _MAX_STRIPS:
        return None
    size = output.dtype.size_bytes
    return tuple(Strip(size * s.start, size * s.length, size * s.stride, s.count) for s in strips)


def _collected(starts: np.ndarray, lengths: np.ndarray) -> list[Strip]:
    """Pieces, in elements, with those of equal length and distance together."""
    strips: list[Strip] = []
    place = 0
    while place < len(starts):
        alike = _alike(starts[place:], lengths[place:])
        stride = int(starts[place + 1] - starts[place]) if alike > 1 else 0
        strips.append(Strip(int(starts[place]), int(lengths[place]), stride, alike))
        place += alike
        if len(strips) > _MAX_STRIPS:
            break
    return strips


def _alike(starts: np.ndarray, lengths: np.ndarray) -> int:
    """How many pieces from the first on have its length and the distance of the first two."""
    if len(starts) == 1 or lengths[1] != lengths[0]:
        return 1
    other = np.flatnonzero((np.diff(starts) != starts[1] - starts[0]) | (lengths[1:] != lengths[0]))
    return int(other[0]) + 1 if len(other) else len(starts)
