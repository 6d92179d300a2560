"""Boxes: places that known indices count through in order, one dimension for each dimension of the updates.

x[:, 1:, 1:] = u      exported as      y = scatter(x, grid, u),  grid[i, j, k] = (i, j + 1, k + 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.frontend.call import Array
from compiler.index import Index
from compiler.scalar import Bound


@dataclass(frozen=True, slots=True)
class Box:
    """Where a grid of updates goes.

    Attributes:
        extents: of the data, along the dimensions that indices choose in.
        starts: the first place along each of them.
        along: of each of them the dimension of the grid that moves it; None where all updates have one place there.
        sizes: of the grid.
    """

    extents: tuple[int, ...]
    starts: tuple[int, ...]
    along: tuple[int | None, ...]
    sizes: tuple[int, ...]

    def bounds(self, place: Sequence[Index]) -> tuple[Bound, ...]:
        """Where an update goes to a place of the data: no test along what the grid covers."""
        ranges = (1 if d is None else self.sizes[d] for d in self.along)
        tests = zip(place, self.starts, ranges, self.extents, strict=True)
        return tuple(Bound(index, start, start + n) for index, start, n, extent in tests if n < extent)

    def update(self, place: Sequence[Index]) -> tuple[Index, ...]:
        """The update that goes there."""
        found = [Index()] * len(self.sizes)
        for index, start, d in zip(place, self.starts, self.along, strict=True):
            if d is not None:
                found[d] = index - start
        return tuple(found)


def find_box(indices: Array, extents: Sequence[int]) -> Box | None:
    """The box that indices [*grid, dimensions] from the front count through; None where they do anything else."""
    sizes = indices.shape[:-1]
    starts, along = list[int](), list[int | None]()
    for number in range(len(extents)):
        places = indices[..., number]
        start = int(places.flat[0])
        moving = [
            d for d in range(len(sizes)) if sizes[d] > 1 and int(np.take(places, 1, d).flat[0]) != start
        ]
        if len(moving) > 1:
            return None
        steps = np.zeros((1,) * len(sizes), np.int64)
        if moving:
            steps = np.arange(sizes[moving[0]]).reshape(
                [-1 if d == moving[0] else 1 for d in range(len(sizes))]
            )
        if not (places == start + steps).all():
            return None
        starts.append(start)
        along.append(moving[0] if moving else None)
    used = [d for d in along if d is not None]
    if sorted(used) != [d for d in range(len(sizes)) if sizes[d] > 1]:
        return None
    return Box(tuple(extents), tuple(starts), tuple(along), tuple(sizes))
