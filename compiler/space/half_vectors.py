"""Vectors of half the length, where whole ones are taken in halves and the last of a few would be half empty.

What fills the last vector otherwise, products of several steps folded together (loop/fold.py), costs shuffles and
leaves a tile fewer sums; a half vector costs nothing where an instruction on a whole one is two on its halves.
"""

from __future__ import annotations

from compiler.loop.fold import FOLDS
from compiler.space.dot_phases import instructions
from compiler.space.structure import tile_axes
from compiler.target import Target
from compiler.workload.ir import Workload

MOST_VECTORS = 3
"""Whole vectors along the columns up to which the last one is a large share. Beyond, more columns in one instruction
are worth more."""


def filled(workload: Workload, target: Target) -> Target:
    """The Target of half as long vectors where a reduction's tiles are better made of those, else the Target itself.

    Not where the most products that are folded fill the last vector.
    """
    anchor, store = workload.stages
    if not target.halves_vectors or instructions(workload, anchor, target):
        return target
    axes = tile_axes(workload, store, target, anchor)
    columns, lanes = axes.vector.size, axes.lanes
    rest = columns % lanes
    narrow = lanes < columns <= MOST_VECTORS * lanes and 0 < rest <= lanes // 2
    return target.of_half_vectors if narrow and rest * max(FOLDS) != lanes else target
