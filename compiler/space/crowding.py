"""Crowding: places that lie a power of two apart share a few sets of a cache, and drive each other out of it.

A vector of channels at each place of an image with 512 channels, say: the places lie 2 KiB apart, and of the 64 sets of
the first cache they have two. Read from end to end, the same image fills all of them.
"""

from __future__ import annotations

from collections.abc import Set
from math import gcd, prod

from compiler.scalar import Load, loads
from compiler.space.structure import TileAxes
from compiler.target import LINE_BYTES, PAGE_BYTES, Target
from compiler.workload.ir import Stage, Workload


def panel_bytes(stage: Stage, axes: TileAxes, vectors: int) -> int:
    """What a panel of so many vectors has at each place."""
    return vectors * axes.lanes * stage.dtype.size_bytes


def crowds(workload: Workload, stage: Stage, axes: TileAxes, vectors: int, target: Target) -> bool:
    """Whether a panel of so many vectors drives places of some operand out of the first cache too soon."""
    return crowding(workload, stage, axes, vectors, target) > 1


def crowding(workload: Workload, stage: Stage, axes: TileAxes, vectors: int, target: Target) -> float:
    """Lines of an operand that a panel of so many vectors reads, as a share of those that their sets hold; the most.

    These are the places that the stage reads while `axes.others` stand still.
    """
    run_bytes = panel_bytes(stage, axes, vectors)
    fixed = {axes.vector.name, *(a.name for a in axes.others)}
    return max(
        (
            _share(workload, stage, load, fixed, run_bytes, target)
            for load in loads(stage.body)
            if any(axes.vector.name in index.names() for index in load.indices)
        ),
        default=0.0,
    )


def _share(
    workload: Workload, stage: Stage, load: Load, fixed: Set[str], run_bytes: int, target: Target
) -> float:
    buffer = workload.buffers[load.buffer]
    sizes = {name: size for name, size in stage.ranges.items() if name not in fixed}
    places, steps = 1, list[int]()
    for index, stride in zip(load.indices, buffer.strides, strict=True):
        moved = {name: abs(index.coefficient(name)) for name in index.names() & sizes.keys()}
        moved = {name: step for name, step in moved.items() if step and sizes[name] > 1}
        if not moved:
            continue
        least = gcd(*moved.values())
        reach = sum(step * (sizes[name] - 1) for name, step in moved.items()) // least + 1
        places *= min(reach, prod(sizes[name] for name in moved))
        steps.append(least * stride * buffer.dtype.size_bytes)
    lines = -(-run_bytes // LINE_BYTES)
    apart, ways = gcd(*steps, PAGE_BYTES), target.l1_bytes / PAGE_BYTES
    sets = min(PAGE_BYTES // LINE_BYTES, PAGE_BYTES // apart * lines)
    return places * lines / (sets * ways)
