"""Regions: which elements of a stage's result one iteration of a loop around its readers needs.

A region is a box: per dimension of the result an origin, in the names of the loops around it, and a length.

    for i.o: for i.i < 4: y[i.o*4 + i.i] = t[i.o*4 + i.i] + t[i.o*4 + i.i + 1]      at i.o: origin i.o*4, length 5
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.index import ZERO, Index
from compiler.loop.ir import Extent
from compiler.schedule.state import ScheduledStage, State, qualified
from compiler.symbol import Size, as_size, divides, ranges_of
from compiler.workload.ir import stage_loads


@dataclass(frozen=True, slots=True)
class Region:
    """First element, in qualified names, and number of elements, per dimension of a stage's target.

    A dimension of which an unknown part is needed is there as a whole, with its symbolic extent.
    """

    origin: tuple[Index, ...]
    shape: tuple[Size, ...]


def readers(state: State, buffer: str) -> tuple[ScheduledStage, ...]:
    """The stages that load from a buffer."""
    return tuple(s for s in state.stages if any(r.buffer == buffer for r in stage_loads(s.stage)))


def absolute_axes(stage: ScheduledStage) -> Mapping[str, Index]:
    """Each axis of a stage in qualified names, the origin of the region that it computes included."""
    values = {axis: index.substitute(stage.qualifiers) for axis, index in stage.bindings.items()}
    if stage.attachment is not None:
        for index, start in zip(stage.stage.target_indices, stage.attachment.origin, strict=True):
            if index.name is not None:
                values[index.name] += start
    return values


def limits(stage: ScheduledStage, first: int = 0) -> dict[str, int]:
    """Names that the loops from place `first` on define, parts of fused loops included, and their limits."""
    loops = {loop.name: loop.extent.limit for loop in stage.loops[first:]}
    return loops | {part.name: part.extent for part in stage.lets if part.of in loops}


def needed_region(state: State, buffer: str, consumer: str, loop: str) -> Region:
    """The box that all reads of `buffer` inside one iteration of `loop` of `consumer` lie in.

    Raises ScheduleError where a reader stands elsewhere, or where no box of constant size holds all reads.
    """
    what = f"cannot compute {buffer} at {loop} of {consumer}:"
    around = dict(_all_limits(state))
    inner: dict[str, int] = {}
    reads: list[tuple[Index, ...]] = []
    for reader in readers(state, buffer):
        inner |= _inner_limits(state, reader, consumer, loop, what)
        values = absolute_axes(reader)
        loaded = {load.indices for load in stage_loads(reader.stage) if load.buffer == buffer}
        reads += [tuple(i.substitute(values).simplify(around) for i in indices) for indices in loaded]
    if not reads:
        msg = f"{what} no stage reads it"
        raise ScheduleError(msg)
    opened = _open_names(state) & inner.keys()
    sides: list[tuple[Index, Size]] = []
    for dimension, indices in zip(
        state.workload.buffers[buffer].shape, zip(*reads, strict=True), strict=True
    ):
        names = {name for index in indices for name in index.names()}
        whole = as_size(dimension) if names & opened else None
        sides.append((ZERO, whole) if whole is not None else _side(set(indices), inner, what))
    if any(isinstance(length, Index) for _, length in sides):
        _check_apart(state, sides, state.stage(consumer), loop, what)
    for origin, _ in sides:
        if origin.bounds(around)[0] < 0:
            msg = f"{what} it is read in front of its first element, at {origin}"
            raise ScheduleError(msg)
    return Region(tuple(origin for origin, _ in sides), tuple(length for _, length in sides))


def _check_apart(
    state: State, sides: Sequence[tuple[Index, Size]], consumer: ScheduledStage, loop: str, what: str
) -> None:
    """Raise ScheduleError unless each iteration of the loops around has elements of its own.

    A region of open size has no room in memory of the thread: it stays in the whole buffer, which all threads share.
    """
    limits_of = dict(_all_limits(state))
    separate: set[str] = set()
    for origin, length in sides:
        reach = length if isinstance(length, int) else None
        terms = [(str(atom), c) for atom, c in origin.terms if isinstance(atom, str)]
        if reach is None or len(terms) < len(origin.terms):
            continue
        for name, step in sorted(terms, key=lambda term: term[1]):
            if step < reach:
                break
            separate.add(name)
            reach = step * limits_of.get(name, 1)
    around = set[str]()
    host: ScheduledStage | None = consumer
    while host is not None:
        last = host.position(loop)
        names = {other.name for other in host.loops[: last + 1] if other.extent.limit > 1}
        fused = {part.of for part in host.lets} | {n for part in host.lets for n in part.value.names()}
        names |= {part.name for part in host.lets if part.of in names and part.extent > 1}
        around |= {qualified(host.stage.name, name) for name in names - fused}
        at = host.attachment
        host, loop = (None, loop) if at is None else (state.stage(at.consumer), at.loop)
    if around - separate:
        msg = (
            f"{what} its size is open, and iterations of {sorted(around - separate)[0]} would share elements"
        )
        raise ScheduleError(msg)


def region_extent(state: State, length: Size, whole: Index, origin: Index) -> Extent:
    """The trip count along one dimension of a region: `length`, or less where the region sticks out of the whole."""
    if isinstance(length, Index):
        return Extent(length.bounds(ranges_of(state.workload.symbols))[1], length)
    left = whole - origin
    if divides(length, left):
        return Extent(length)
    room = whole - _largest(state, origin) - length
    return Extent(length) if room.bounds(ranges_of(state.workload.symbols))[0] >= 0 else Extent(length, left)


def _largest(state: State, origin: Index) -> Index:
    """What an origin cannot exceed, over the symbols: its loops in their last iterations."""
    last: dict[str, Index] = {}
    for stage in state.stages:
        for loop in stage.loops:
            if loop.extent.bound is not None and state.is_open(loop.extent):
                last[qualified(stage.stage.name, loop.name)] = loop.extent.bound - 1
        for part in stage.lets:
            if part.bound is not None:
                last[qualified(stage.stage.name, part.name)] = part.bound - 1
    opened = [(atom, c) for atom, c in origin.terms if isinstance(atom, str) and atom in last and c > 0]
    rest = origin - Index.sum(opened)
    total = Index.of(rest.bounds(dict(_all_limits(state)))[1])
    for atom, coefficient in opened:
        total += last[str(atom)] * coefficient
    return total


def _all_limits(state: State) -> Iterator[tuple[str, int]]:
    for stage in state.stages:
        yield from ((qualified(stage.stage.name, name), size) for name, size in limits(stage).items())


def _open_names(state: State) -> set[str]:
    """Names of loops whose extent is only known at run time, and of their parts."""
    found = set()
    for stage in state.stages:
        opened = {loop.name for loop in stage.loops if state.is_open(loop.extent)}
        opened |= {part.name for part in stage.lets if part.of in opened}
        found |= {qualified(stage.stage.name, name) for name in opened}
    return found


def _inner_limits(
    state: State, reader: ScheduledStage, consumer: str, loop: str, what: str
) -> dict[str, int]:
    """Names between `loop` of `consumer` and a read, with their limits."""
    inner: dict[str, int] = {}
    while reader.stage.name != consumer:
        inner |= {qualified(reader.stage.name, n): size for n, size in limits(reader).items()}
        at = reader.attachment
        if at is None:
            msg = f"{what} its result is read elsewhere too, by {reader.stage.name}; attach that first"
            raise ScheduleError(msg)
        host = state.stage(at.consumer)
        if at.consumer == consumer and host.position(at.loop) < host.position(loop):
            msg = f"{what} {reader.stage.name} reads its result outside that loop"
            raise ScheduleError(msg)
        reader = host
    own = limits(reader, reader.position(loop) + 1)
    return inner | {qualified(consumer, n): size for n, size in own.items()}


def _side(indices: set[Index], inner: Mapping[str, int], what: str) -> tuple[Index, int]:
    """Origin and length along one dimension."""
    spans: dict[Index, tuple[int, int]] = {}
    for index in indices:
        if index.looked_up():
            msg = f"{what} it is read at {index}, which is only known at run time"
            raise ScheduleError(msg)
        outside = Index.sum([(a, c) for a, c in index.terms if not Index.of(a).names() & inner.keys()])
        moving = index - outside
        if not moving.names() <= inner.keys():
            msg = f"{what} it is read at {index}, which mixes loops inside and outside"
            raise ScheduleError(msg)
        low, high = moving.bounds(inner)
        known = spans.get(outside, (low, high))
        spans[outside] = (min(low, known[0]), max(high, known[1]))
    if len(spans) != 1:
        places = " and ".join(sorted(str(origin) for origin in spans))
        msg = f"{what} it is read at {len(spans)} places, from {places}, which lie in no box of constant size"
        raise ScheduleError(msg)
    ((outside, (low, high)),) = spans.items()
    return outside + low, high - low + 1
