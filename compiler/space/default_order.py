"""The analytic default of the order of loops over tiles: the one that fetches the fewest bytes from far away.

What an operand's elements cost is counted loop by loop. A loop that the operand does not depend on reads it again; if
all that is touched within one iteration fits in half the second cache, that costs NEAR of a fetch from beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from compiler.scalar import loads
from compiler.space.structure import TileAxes
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

NEAR = 0.3
"""Cost of a byte from the second cache, where one from beyond it costs 1."""

Loop = tuple[str, int]
"""The axis that a loop runs over (or part of it), and its trip count."""


@dataclass(frozen=True, slots=True)
class _Read:
    """An operand of the reduction: the axes that it depends on, and its bytes."""

    axes: frozenset[str]
    size_bytes: int


def cheapest_order(
    orders: Mapping[str, Sequence[Loop]], workload: Workload, anchor: Stage, target: Target
) -> str:
    """The name of the order, loops outermost first, with the least traffic; the first of equals."""
    reads = _reads(workload, anchor)
    near = target.l2_bytes // 2
    return min(orders, key=lambda name: sum(_cost(read, reads, orders[name], near) for read in reads))


def tile_loops(axes: TileAxes, rows: int, columns: int, order: str, block: int = 0) -> list[Loop]:
    """The loops over tiles under the order `outside`, `inside` or `block` (with its length), outermost first."""
    panel = (axes.vector.name, -(-axes.vector.size // columns))
    rest = [(a.name, a.size) for a in axes.others]
    if axes.row is not None:
        rest.append((axes.row.name, -(-axes.row.size // rows)))
    if order == "outside" or not rest:
        return [panel, *rest]
    if order == "inside":
        return [*rest, panel]
    (name, size), *inner = rest
    return [(name, -(-size // block)), panel, (name, block), *inner]


def _reads(workload: Workload, anchor: Stage) -> list[_Read]:
    found = {}
    for load in loads(anchor.body):
        names = frozenset(name for index in load.indices for name in index.names())
        found[load.buffer] = _Read(names, workload.buffers[load.buffer].size_bytes)
    return list(found.values())


def _cost(read: _Read, reads: Sequence[_Read], loops: Sequence[Loop], near: int) -> float:
    far, again = 1.0, 1.0
    for place, (axis, count) in enumerate(loops):
        inside = {name for name, _ in loops[place + 1 :]}
        if axis in read.axes or not inside & read.axes:
            continue
        if sum(_footprint(r, loops[: place + 1]) for r in reads) <= near:
            again *= count
        else:
            far *= count
    return read.size_bytes * far * (1 + NEAR * (again - 1))


def _footprint(read: _Read, around: Sequence[Loop]) -> float:
    """Bytes of an operand that one iteration of all these loops touches."""
    return read.size_bytes / prod(count for axis, count in around if axis in read.axes)
