"""What the rules look at: the axes of a Workload by the part they can play in a tile."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from math import prod

from compiler.graph.ir import product_factors
from compiler.scalar import Guard, Load, Lookup, loads, walk
from compiler.schedule.packing import is_of_names
from compiler.symbol import Axis
from compiler.target import Target
from compiler.workload.ir import Stage, Workload, stage_loads

MOST_APART = 4
"""Elements between lanes that are stored one by one, at most."""
STORED_ALONE = 2
"""Products of a vector in the time of taking a lane out of one and storing it."""
LONG_SUM = 32
"""Terms of a sum without products that make up for it: each is an addition."""
LEAST_ROWS = 8
"""Along an axis that is not the innermost: with fewer, tiles are not as high as they could be."""

MANY_CHANNELS = 8
"""For each place, from which on threads share out channels: 392 of an image of 7 x 7."""


@dataclass(frozen=True, slots=True)
class TileAxes:
    """Axes of a stage that stores its output.

    Attributes:
        vector: the axis along which the output is contiguous; its elements fill the lanes. One along which they are a
            few elements apart where that is so short that long sums would leave most lanes empty.
        row: the axis that is blocked so that what is loaded for the lanes is used again; None where there is none.
        others: the remaining axes, outermost first.
        lanes: vector length, a power of two; 1 where nothing is contiguous.
        around: how many of the others stand around the loop over blocks of rows.
        beside: one of the others that is blocked too, inside of the rows; None where a tile is one place long there.
    """

    vector: Axis
    row: Axis | None
    others: tuple[Axis, ...]
    lanes: int
    around: int
    beside: Axis | None = None

    @property
    def blocked(self) -> tuple[Axis, ...]:
        """The axes of which a tile has more than one place, besides that of the lanes."""
        return tuple(a for a in (self.row, self.beside) if a is not None)

    @property
    def still(self) -> tuple[Axis, ...]:
        """The others of which a tile has one place."""
        return tuple(a for a in self.others if a is not self.beside)

    @property
    def is_down(self) -> bool:
        """Whether some of the others are inside of the loop over blocks of rows: rows lie far apart in memory."""
        return self.around < len(self.others)

    @property
    def loops(self) -> tuple[Axis, ...]:
        """The others and the row, in the order of the loops over tiles."""
        rows = () if self.row is None else (self.row,)
        return (*self.others[: self.around], *rows, *self.others[self.around :])


def tile_axes(
    workload: Workload,
    stage: Stage,
    target: Target,
    anchor: Stage | None = None,
    row_name: str = "",
    *,
    inside: bool = False,
) -> TileAxes:
    """Find the axes of a stage's tile.

    anchor: the reduction that the stage stores, whose loads rows should share.
    row_name: the axis to block, at its own place among the loops, and with it the innermost; by default the innermost
        that rows share something along, inside all others.
    inside: the stage is computed at a loop of another one, which is at one place of some axes already: only the axis
        along which the output is contiguous fills the lanes.
    """
    output = workload.buffers[stage.target]
    flat = flat_coefficients(stage, output.strides)
    vector = next((a for a in reversed(stage.axes) if flat[a.name] == 1), stage.axes[-1])
    # Sums are as wide as the reduction computes them, whatever is stored in the end.
    widest = target.lanes(max(output.dtype.size_bytes, anchor.dtype.size_bytes if anchor is not None else 0))
    if (
        anchor is not None
        and not inside
        and 2 * vector.size <= widest
        and _makes_up_for_stores(anchor, lanes_for(vector.size, widest), widest)
    ):
        near = (a for a in reversed(stage.axes) if 1 <= flat[a.name] <= MOST_APART and a.size >= widest)
        vector = next((a for a in near if _is_read_near(workload, anchor, a.name)), vector)
    rest = tuple(a for a in stage.axes if a.name != vector.name)
    named = next((a for a in rest if a.name == row_name), None)
    row = named or _row(rest, vector, anchor or stage)
    return TileAxes(
        vector=vector,
        row=row,
        others=tuple(a for a in rest if a is not row),
        lanes=lanes_for(vector.size, widest) if 1 <= flat[vector.name] <= MOST_APART else 1,
        around=len(rest) - 1 if named is None else rest.index(named),
        beside=None if named is None or named is rest[-1] else rest[-1],
    )


def _makes_up_for_stores(anchor: Stage, lanes: int, more: int) -> bool:
    """Whether sums take less time with more lanes, of which each is stored alone."""
    terms = prod(a.size for a in anchor.reduce_axes)
    if product_factors(anchor.body) is None and terms < LONG_SUM:
        return False
    return terms * (more - lanes) >= STORED_ALONE * more * lanes


def _is_read_near(workload: Workload, anchor: Stage, name: str) -> bool:
    """Whether all that is read along an axis lies no further apart than what is stored."""
    for load in loads(anchor.body):
        pairs = zip(load.indices, workload.buffers[load.buffer].strides, strict=True)
        if sum(abs(index.coefficient(name)) * stride for index, stride in pairs) > MOST_APART:
            return False
    return True


def _row(rest: tuple[Axis, ...], vector: Axis, anchor: Stage) -> Axis | None:
    """The innermost axis along which something that is loaded for the lanes stays the same, else the innermost.

    The one around it, where only the innermost is tested for padding: tiles along it need no code for borders, and no
    tile there has less to do than others.
    """
    read = [{name for index in load.indices for name in index.names()} for load in loads(anchor.body)]
    shared = [a for a in rest if any(vector.name in names and a.name not in names for names in read)]
    guards = [e for e in walk(anchor.body) if isinstance(e, Guard)]
    tested = {name for guard in guards for bound in guard.bounds for name in bound.index.names()}
    whole = [a for a in shared[-2:] if a.name not in tested and a.size >= LEAST_ROWS]
    return next(reversed(whole or shared or rest), None)


def crossing_axis(workload: Workload, stage: Stage, axes: TileAxes) -> str | None:
    """The axis along which an operand is contiguous that is not so along the vector axis; None where there is none."""
    if axes.lanes < 2:
        return None
    for load in loads(stage.body):
        strides = workload.buffers[load.buffer].strides
        steps = {
            a.name: sum(i.coefficient(a.name) * s for i, s in zip(load.indices, strides, strict=True))
            for a in stage.axes
        }
        if steps[axes.vector.name] < 2:
            continue
        for axis in stage.axes:
            if steps[axis.name] == 1 and axis.size >= axes.lanes and all(i.is_affine() for i in load.indices):
                return axis.name
    return None


def outermost_axis(workload: Workload, store: Stage) -> str:
    """The axis along which stored elements lie furthest apart."""
    flat = flat_coefficients(store, workload.buffers[store.target].strides)
    return max((a.name for a in store.axes if a.size > 1), key=lambda name: flat[name], default="")


def shared_axis(workload: Workload, store: Stage, constants: Set[str]) -> str:
    """The axis along which threads share out a value, as far as its size tells: who reads it shares it out alike.

    The outermost one. Where the innermost is far longer than all others together, as of channels of few places, that
    one: constants that go along it are the most that is read. `constants`: the axes along which there are some.
    """
    flat = flat_coefficients(store, workload.buffers[store.target].strides)
    axes = sorted((a for a in store.axes if a.size > 1), key=lambda a: flat[a.name], reverse=True)
    if not axes:
        return ""
    *places, channels = axes
    few = channels.name in constants and channels.size >= MANY_CHANNELS * prod(a.size for a in places)
    return (channels if few else axes[0]).name


def step_along(workload: Workload, load: Load, name: str) -> int:
    """How many elements of its buffer a load moves on with an axis."""
    strides = workload.buffers[load.buffer].strides
    return sum(i.coefficient(name) * s for i, s in zip(load.indices, strides, strict=True))


def gathers(workload: Workload, stage: Stage, vector: Axis) -> bool:
    """Whether an input's elements along the vector axis are apart in memory."""
    constants = {o.name for o in workload.operands if o.constant}
    for load in loads(stage.body):
        if load.buffer not in constants and step_along(workload, load, vector.name) > 1:
            return True
    return False


def looks_rows_up(stage: Stage, vector: str) -> bool:
    """Whether the stage reads, along its vector axis, from places that are looked up once for all of the axis."""
    for e in (e for result in stage.results for e in walk(result.body)):
        if not isinstance(e, Lookup) or any(
            vector in i.names() for load in loads(e.value) for i in load.indices
        ):
            continue
        for load in loads(e.inside):
            if e.found in {f for i in load.indices for f in i.looked_up()} and any(
                i.coefficient(vector) for i in load.indices
            ):
                return True
    return False


def packable(workload: Workload, stage: Stage) -> tuple[str, ...]:
    """Constants worth packing: read at one place, by this stage alone, over two axes or more, from any element on."""
    readers: dict[str, list[Load]] = {}
    for s in workload.stages:
        for load in stage_loads(s):
            readers.setdefault(load.buffer, []).append(load)
    own = {load.buffer for load in loads(stage.body)}
    found = []
    for operand in workload.operands:
        reads = set(readers.get(operand.name, ()))
        if not operand.constant or operand.name not in own or len(reads) != 1:
            continue
        indices = next(iter(reads)).indices
        names = {name for index in indices for name in index.names()}
        plain = all(is_of_names(i) and i.const >= 0 and all(c > 0 for _, c in i.terms) for i in indices)
        elsewhere = any(
            load.buffer == operand.name for s in workload.stages if s is not stage for load in stage_loads(s)
        )
        if plain and len(names) > 1 and not elsewhere:
            found.append(operand.name)
    return tuple(found)


def flat_coefficients(stage: Stage, strides: tuple[int, ...]) -> dict[str, int]:
    """How many elements apart what a stage stores is along each of its axes. `strides`: of its target."""
    return {
        a.name: sum(i.coefficient(a.name) * s for i, s in zip(stage.target_indices, strides, strict=True))
        for a in stage.axes
    }


def lanes_for(size: int, widest: int) -> int:
    """The widest vector, or the smallest power of two that holds the whole axis."""
    lanes = 1
    while lanes < min(size, widest):
        lanes *= 2
    return lanes
