"""Overlap: what neighbouring windows of a reduction read, and how much of it they share."""

from __future__ import annotations

from math import gcd

from compiler.scalar import Load, loads
from compiler.workload.ir import Stage

APART = 2 / 3
"""Share of what windows read that is their own, above which they share little."""


def distinct(anchor: Stage, load: Load, along: str, windows: int) -> float:
    """Elements that so many windows along an axis read, per step of the reduction; the axis is one of the load's."""
    least = float(windows)
    for index in load.indices:
        step = index.coefficient(along)
        for axis in anchor.reduce_axes:
            tap = index.coefficient(axis.name)
            if step > 0 and tap > 0:
                places = ((windows - 1) * step + (axis.size - 1) * tap) // gcd(step, tap) + 1
                least = min(least, places / axis.size)
    return least


def own_share(anchor: Stage, along: str, windows: int) -> float:
    """Of what so many windows read, the largest share that no two of them read both, over operands of every window."""
    own = (load for load in loads(anchor.body) if any(along in index.names() for index in load.indices))
    return max((distinct(anchor, load, along, windows) / windows for load in own), default=0.0)


def steps_apart(anchor: Stage, row: str, name: str) -> int:
    """Steps of the sum `name` after which a row reads what another row has read, as in windows that overlap.

    Rows that stand two elements apart share every second step: what all of them read at one step waits for the step
    after the next, and takes registers.
    """
    indices = [index for load in loads(anchor.body) for index in load.indices]
    strides = [(index.coefficient(row), index.coefficient(name)) for index in indices]
    return max((a // gcd(a, b) for a, b in strides if a > 0 and b > 0), default=1)
