"""Crowding: places that lie a power of two apart share a few sets of a cache, and drive each other out of it.

A vector of channels at each place of an image with 512 channels, say: the places lie 2 KiB apart, and of the 64 sets of
the first cache they have two. Read from end to end, the same image fills all of them.
"""

from __future__ import annotations

from collections.abc import Set
from math import gcd, prod

from compiler.scalar import Load, loads
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

LINE = 64
WAY = 4096
"""Bytes after which a first cache begins with its first set again: those of a page, or fewer."""


def crowds(
    workload: Workload, stage: Stage, vector: str, fixed: Set[str], run_bytes: int, target: Target
) -> bool:
    """Whether places of some operand are driven out of the first cache before all axes but `fixed` have run.

    run_bytes: what is read at each place, along the axis `vector`.
    """
    return any(
        _crowds(workload, stage, load, fixed | {vector}, run_bytes, target)
        for load in loads(stage.body)
        if any(vector in index.names() for index in load.indices)
    )


def _crowds(
    workload: Workload, stage: Stage, load: Load, fixed: Set[str], run_bytes: int, target: Target
) -> bool:
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
    lines = -(-run_bytes // LINE)
    apart = gcd(*steps, WAY)
    held = min(WAY, WAY // apart * lines * LINE) // LINE * (target.l1_bytes // WAY)
    return places * lines > held
