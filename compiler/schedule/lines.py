"""Lines: windows that move by one place, along a line and from line to line, are rows of one matrix.

    t[y, x] = sum(i, j) data[y + i, x + j] * w[i, j]                                        x < m, data[n, l]
    →  t[p]        = sum(i, j) data[p + l*i + j] * w[i, j]                                  data[n*l]
       lines[p]    = t[p]
       what reads t[y, x] reads lines[l*y + x]

Windows that reach from one line into the next are computed as well, and not read: little beside the places that the
last rows of an instruction on matrices would leave empty on every line. Where none does, the map itself is over `p`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Expr, Load, loads, rewrite, substitute
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Operand, Stage, Workload

STAGE, BUFFER, AXIS = "lines", "lines_buffer", "place_on_lines"


@dataclass(frozen=True, slots=True)
class _Lines:
    """Axes of a sum over its lines and the places on each.

    Attributes:
        dimension: of what it reads, that which goes by lines; the next goes by places, `width` to a line.
        stored: dimensions of the sums that go by lines and by places.
    """

    line: Axis
    place: Axis
    dimension: int
    width: int
    stored: tuple[int, int]

    @property
    def apart(self) -> dict[str, Index]:
        """Line and place of a place on the joined axis."""
        place = Index.of(AXIS)
        line = place // self.width
        return {self.line.name: line, self.place.name: place - line * self.width}

    @property
    def joined(self) -> Axis:
        """The axis over all places, from the first of the first line to the last of the last."""
        return axis(AXIS, (self.line.size - 1) * self.width + self.place.size)

    def at(self, line: Index, place: Index) -> Index:
        """A place on the joined axis."""
        return line * self.width + place


def in_lines(workload: Workload) -> Workload:
    """The rewritten Workload, whose first stage makes the data, and the second sums it up."""
    copy, anchor, *rest = workload.stages
    (read,) = (load for load in loads(anchor.body) if load.buffer == copy.target)
    found = _find(workload, anchor, read)
    data, sums = workload.buffers[copy.target], workload.buffers[anchor.target]
    kept = [d for d, index in enumerate(anchor.target_indices) if index.name != found.line.name]
    first, second = found.stored

    def joined(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        merged = found.at(indices[first], indices[second])
        return tuple(merged if d == second else indices[d] for d in kept)

    d, flat = found.dimension, Index.of(AXIS)
    window = (read.indices[d] - found.line.name, read.indices[d + 1] - found.place.name)
    moved = Load(read.buffer, (*read.indices[:d], flat + found.at(*window), *read.indices[d + 2 :]))
    axes = tuple(found.joined if a is found.place else a for a in anchor.axes if a is not found.line)
    at = tuple(flat if d == second else anchor.target_indices[d] for d in kept)
    shape = tuple(found.joined.extent if d == second else sums.shape[d] for d in kept)
    exact = found.width == found.place.size
    source = sums.name if exact else BUFFER

    def follow(e: Expr) -> Expr | None:
        return Load(source, joined(e.indices)) if isinstance(e, Load) and e.buffer == sums.name else None

    after = tuple(s.rewritten(lambda body: rewrite(body, follow)) for s in rest)
    if exact:
        after = tuple(_over_places(s, found) for s in after)
    else:
        stored = Stage(STAGE, axes, (), None, Load(sums.name, at), BUFFER, at, anchor.dtype)
        after = (stored, *after)
    places = copy.target_indices
    merged = (*places[:d], found.at(places[d], places[d + 1]), *places[d + 2 :])
    length = Index.of(static(data.shape[d], data.name) * found.width)
    changed = {
        data.name: replace(data, shape=(*data.shape[:d], length, *data.shape[d + 2 :])),
        sums.name: replace(sums, shape=shape),
    }
    summed = replace(
        anchor,
        axes=axes,
        body=rewrite(anchor.body, lambda e: moved if e == read else None),
        target_indices=at,
    )
    return replace(
        workload,
        temporaries=(
            *(changed.get(t.name, t) for t in workload.temporaries),
            *(() if exact else (Operand(BUFFER, shape, sums.dtype),)),
        ),
        stages=(replace(copy, target_indices=merged), summed, *after),
    )


def _over_places(stage: Stage, found: _Lines) -> Stage:
    """A map over lines and the places on them, over all places."""
    names = {found.line.name, found.place.name}
    if stage.reducer is not None or not names <= {a.name for a in stage.axes}:
        msg = "the sum is not read by a map over its lines"
        raise ScheduleError(msg)
    axes = tuple(
        found.joined if a.name == found.place.name else a for a in stage.axes if a.name != found.line.name
    )
    apart = found.apart
    moved = stage.rewritten(
        lambda body: substitute(body, apart), lambda _, indices: tuple(i.substitute(apart) for i in indices)
    )
    return replace(moved, axes=axes)


def _find(workload: Workload, anchor: Stage, read: Load) -> _Lines:
    known = {a.name: a for a in anchor.axes if a.extent.constant is not None}
    moves = [[name for name in index.names() if name in known] for index in read.indices]
    others = {n for e in loads(anchor.body) if e != read for index in e.indices for n in index.names()}
    for d in range(len(moves) - 2):  # the last dimension is that of an instruction's groups
        names = [*moves[d], *moves[d + 1]]
        if len(moves[d]) != 1 or len(moves[d + 1]) != 1 or names[0] == names[1] or set(names) & others:
            continue
        line, place = known[names[0]], known[names[1]]
        steps = (read.indices[d].coefficient(line.name), read.indices[d + 1].coefficient(place.name))
        window = (read.indices[d] - line.name, read.indices[d + 1] - place.name)
        alone = not any({line.name, place.name} & index.names() for index in window)
        stored = tuple(
            n for a in (line, place) for n, i in enumerate(anchor.target_indices) if i.name == a.name
        )
        if steps == (1, 1) and alone and line.size > 1 and len(stored) == len((line, place)):
            width = static(workload.buffers[read.buffer].shape[d + 1], read.buffer)
            return _Lines(line, place, d, width, (stored[0], stored[1]))
    msg = "the sum has no windows that move by one place along lines and from line to line"
    raise ScheduleError(msg)
