"""Which operands of a Workload hold indices, so that whoever makes values for them stays in range."""

from __future__ import annotations

from compiler.scalar import Lookup, loads, walk
from compiler.workload.ir import Workload


def index_extents(workload: Workload) -> dict[str, int]:
    """By operand: its elements are looked up in dimensions of at least so many elements."""
    integers = {operand.name for operand in workload.operands if operand.dtype.is_integer}
    found: dict[str, int] = {}
    for stage in workload.stages:
        for e in walk(stage.body):
            if not isinstance(e, Lookup):
                continue
            for load in loads(e.value):
                if load.buffer in integers:
                    found[load.buffer] = min(e.found.extent, found.get(load.buffer, e.found.extent))
    return found
