"""Nests of many Schedules at once: those that differ in the factors of their Splits only share one form.

    form ::= Steps with the factors left open        factors: shape (n, number of Splits)

The Steps are followed with an array for each number: loops keep names, limits and what they move, the stages around
keep where they read. That says what `concrete_nest` says of each Schedule, for all of them in the time of a few; tests
hold both against each other. What cannot be followed, such as reads that are not affine, raises Unfollowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from compiler.index import Index
from compiler.loop.ir import LoopKind
from compiler.schedule.state import State
from compiler.schedule.steps import (
    Algorithm,
    Bind,
    ComputeAt,
    Fuse,
    Inline,
    Pack,
    Reorder,
    RFactor,
    Split,
    Step,
    Tensorize,
)
from compiler.workload.ir import Stage, stage_loads
from tuner.cost_model.concrete import spans_of
from tuner.cost_model.form import anchor_after
from tuner.cost_model.nest import Access, Flags, Nests, Terms, accesses

Array = NDArray[np.float64]
_Place = tuple[str, str]  # of a stage and of a loop in it


class Unfollowed(Exception):
    """The Steps do what is not followed here."""


class Tracks:
    """The stages of a State that no Step has changed, ready to be followed; made once for many forms."""

    def __init__(self, start: State) -> None:
        self._stages = [_track(s.stage, start) for s in start.stages]
        reads = {t.name: {buffer for buffer, _ in t.reads} for t in self._stages}
        self._readers = {t.name: [n for n, read in reads.items() if t.target in read] for t in self._stages}

    def copies(self) -> dict[str, _Track]:
        """By name, free to be changed."""
        return {
            t.name: replace(t, loops=[loop.copy() for loop in t.loops], terms=dict(t.terms), origin={})
            for t in self._stages
        }

    def readers(self, name: str) -> list[str]:
        """The stages that read what a stage stores."""
        return self._readers.get(name, [])


def parametric_nests(
    start: Tracks, anchor: str, steps: Sequence[Step], factors: Array, aside: int = 0
) -> Nests:
    """The Nests of Schedules of the form of `steps`, which are those of `path_steps`; raises Unfollowed.

    `factors`: shape (n, number of Splits); `aside`: stages off the path that are attached to others.
    """
    tracks = start.copies()
    column = 0
    for step in steps:
        if isinstance(step, Split):
            _split(tracks, step, factors[:, column])
            column += 1
        else:
            _apply(tracks, step, len(factors))
    return _nests(tracks, tracks[anchor_after(anchor, steps)], len(factors), aside)


@dataclass
class _Loop:
    """A loop, and the loops that were fused into it with their limits."""

    name: str
    limit: Array | float
    reduces: bool
    kind: LoopKind = LoopKind.SERIAL
    parts: tuple[tuple[str, Array | float], ...] = ()

    @property
    def names(self) -> tuple[tuple[str, Array | float], ...]:
        return self.parts or ((self.name, self.limit),)

    def copy(self) -> _Loop:
        return _Loop(self.name, self.limit, self.reduces, self.kind, self.parts)


@dataclass
class _Track:
    """A stage as ScheduledStage has it, with arrays for numbers.

    Attributes:
        sizes: of its axes, the spatial ones first.
        reads: buffers and indices over its axes.
        stores: the axis that each dimension of its target is stored at, None for anything else.
        terms: of each axis, loops and by how much one iteration moves it.
        origin: of each axis, loops of other stages that move the region which it runs over.
        at: consumer and loop, where it is attached.
    """

    name: str
    target: str
    sizes: dict[str, Array | float]
    reads: tuple[tuple[str, tuple[Index, ...]], ...]
    stores: tuple[str | None, ...]
    loops: list[_Loop]
    terms: dict[str, list[tuple[str, Array | float]]]
    accesses: tuple[Access, ...]
    origin: dict[str, list[tuple[_Place, Array | float]]] = field(default_factory=dict)
    at: _Place | None = None
    region: Array | float = 0.0
    packed: frozenset[str] = frozenset()
    taken: str = ""
    instruction: str = ""

    def place(self, name: str) -> int:
        for i, loop in enumerate(self.loops):
            if loop.name == name:
                return i
        raise Unfollowed

    def inside(self, place: int) -> dict[str, Array | float]:
        """Names that the loops after a place define, with their limits."""
        return {name: limit for loop in self.loops[place + 1 :] for name, limit in loop.names}


def _track(stage: Stage, start: State) -> _Track:
    axes = (*stage.axes, *stage.reduce_axes)
    loops = [_Loop(a.name, float(a.size), a in stage.reduce_axes) for a in axes]
    return _Track(
        stage.name,
        stage.target,
        {a.name: float(a.size) for a in axes},
        tuple((load.buffer, load.indices) for load in stage_loads(stage)),
        tuple(index.name for index in stage.target_indices),
        loops,
        {a.name: [(a.name, 1.0)] for a in axes},
        accesses(start.workload, stage),
    )


def _split(tracks: dict[str, _Track], step: Split, factor: Array) -> None:
    track = tracks[step.stage]
    at = track.place(step.loop)
    loop, outer, inner = track.loops[at], f"{step.loop}.o", f"{step.loop}.i"
    if loop.parts:
        raise Unfollowed
    track.loops[at : at + 1] = [
        _Loop(outer, np.ceil(loop.limit / factor), loop.reduces),
        _Loop(inner, factor, loop.reduces),
    ]
    for axis, terms in track.terms.items():
        track.terms[axis] = [
            new
            for name, c in terms
            for new in (((outer, c * factor), (inner, c)) if name == step.loop else ((name, c),))
        ]
    for guest in tracks.values():
        if guest.at == (step.stage, step.loop):
            guest.at = (step.stage, inner)
        for axis, around in guest.origin.items():
            guest.origin[axis] = [
                new
                for place, c in around
                for new in (
                    (((step.stage, outer), c * factor), ((step.stage, inner), c))
                    if place == (step.stage, step.loop)
                    else ((place, c),)
                )
            ]


def _apply(tracks: dict[str, _Track], step: Step, n: int) -> None:
    match step:
        case Reorder(stage, names):
            track = tracks[stage]
            places = sorted(track.place(name) for name in names)
            named = [track.loops[track.place(name)] for name in names]
            for place, loop in zip(places, named, strict=True):
                track.loops[place] = loop
        case Bind(stage, name, kind):
            track = tracks[stage]
            track.loops[track.place(name)].kind = kind
        case Fuse():
            _fuse(tracks, step)
        case ComputeAt():
            _attach(tracks, step)
        case RFactor():
            _factor(tracks, step, n)
        case Pack(stage, operand):
            tracks[stage].packed |= {operand}
        case Tensorize(stage, name, instruction):
            tracks[stage].taken, tracks[stage].instruction = name, instruction
        case Inline() | Algorithm() | Split():
            raise Unfollowed


def _fuse(tracks: dict[str, _Track], step: Fuse) -> None:
    track = tracks[step.stage]
    at = track.place(step.outer)
    outer, inner = track.loops[at], track.loops[track.place(step.inner)]
    name = f"{step.outer}*{step.inner}"
    fused = _Loop(name, outer.limit * inner.limit, outer.reduces, parts=(*outer.names, *inner.names))
    track.loops[at : at + 2] = [fused]
    for guest in tracks.values():
        if guest.at == (step.stage, step.inner):
            guest.at = (step.stage, name)


def _attach(tracks: dict[str, _Track], step: ComputeAt) -> None:
    track, consumer = tracks[step.stage], tracks[step.consumer]
    if any(guest.at is not None and guest.at[0] == step.stage for guest in tracks.values()):
        raise Unfollowed
    reads = [
        (reader, indices)
        for reader in tracks.values()
        for buffer, indices in dict.fromkeys(reader.reads)
        if buffer == track.target
    ]
    inside = {
        place
        for reader, _ in reads
        for place in _between(tracks, reader, consumer, consumer.place(step.loop))
    }
    limits = {(t.name, name): limit for t in tracks.values() for name, limit in t.inside(-1).items()}
    region: Array | float = 1.0
    for dimension, axis in enumerate(track.stores):
        low: Array | float = np.inf
        high: Array | float = -np.inf
        for reader, indices in reads:
            least: Array | float = float(indices[dimension].const)
            most, outside = least, []
            for place, c in _index_terms(tracks, reader, indices[dimension]):
                if place not in inside:
                    outside.append((place, c))
                    continue
                reach = c * (limits[place] - 1)
                least, most = least + np.minimum(reach, 0), most + np.maximum(reach, 0)
            low, high = np.minimum(low, least), np.maximum(high, most)
            if axis is not None:
                track.origin[axis] = outside
        # What nothing outside moves is all of it, and no more than there is.
        most = np.inf if axis is None or outside else track.sizes[axis]
        length: Array | float = np.minimum(high - low + 1, most)
        region = region * length
        for loop in track.loops:
            if loop.name == axis:
                loop.limit = length
    if any(
        np.any(np.asarray(loop.limit) > 1)
        for loop in track.loops
        if not (loop.reduces or loop.name in track.stores)
    ):
        raise Unfollowed
    track.at, track.region = (step.consumer, step.loop), region


def _between(tracks: dict[str, _Track], reader: _Track, consumer: _Track, place: int) -> set[_Place]:
    """Names between a loop of the consumer and a reader inside it."""
    found: set[_Place] = set()
    while reader is not consumer:
        found |= {(reader.name, name) for name in reader.inside(-1)}
        if reader.at is None:
            raise Unfollowed
        reader = tracks[reader.at[0]]
    return found | {(consumer.name, name) for name in consumer.inside(place)}


def _index_terms(
    tracks: dict[str, _Track], reader: _Track, index: Index
) -> list[tuple[_Place, Array | float]]:
    """What moves an index of a read."""
    terms: list[tuple[_Place, Array | float]] = []
    for atom, k in index.terms:
        if not isinstance(atom, str):
            raise Unfollowed
        terms += [(place, c * k) for place, c in _axis_terms(reader, atom)]
    return terms


def _factor(tracks: dict[str, _Track], step: RFactor, n: int) -> None:
    old = tracks[step.stage]
    spatial = [loop for loop in old.loops if not loop.reduces]
    factored = old.loops[old.place(step.loop)]
    rest = [loop for loop in old.loops if loop.reduces and loop is not factored]
    if old.at is not None:
        raise Unfollowed
    new = [*spatial, factored, *rest]
    buffer = f"{old.target}.{step.loop}"
    kept = [factored, *spatial] if step.outermost else [*spatial, factored]
    stored = tuple(Index.of(loop.name) for loop in kept)
    partial = _Track(
        f"{step.stage}.{step.loop}",
        buffer,
        {loop.name: loop.limit for loop in new},
        old.reads,
        tuple(index.name for index in stored),
        [replace(loop, reduces=loop in rest) for loop in new],
        old.terms | {loop.name: [(loop.name, 1.0)] for loop in new},  # it reads at the old axes
        _factored_accesses(old, new, kept, buffer, n) if old.accesses else (),
    )
    tracks[step.stage] = replace(
        old,
        sizes={loop.name: loop.limit for loop in (*spatial, factored)},
        reads=((buffer, stored),),
        loops=[*spatial, replace(factored, reduces=True)],
        terms={loop.name: [(loop.name, 1.0)] for loop in (*spatial, factored)},
        accesses=(),
    )
    tracks[partial.name] = partial


def _factored_accesses(
    old: _Track, new: Sequence[_Loop], stored: Sequence[_Loop], buffer: str, n: int
) -> tuple[Access, ...]:
    """The reads in terms of the new axes, and the write of the partial results."""
    terms = [old.terms[axis] for axis in old.sizes]
    moves = [sum((c for name, c in t if name == loop.name), 0.0) for t in terms for loop in new]
    change = _columns(moves, n).reshape(n, len(old.sizes), len(new))
    found = [
        replace(access, matrix=access.matrix @ change) for access in old.accesses if access.kind != "output"
    ]
    sizes = _columns([loop.limit for loop in stored], n)
    strides = np.cumprod(np.concatenate([np.ones((n, 1)), sizes[:, :0:-1]], axis=1), axis=1)[:, ::-1]
    written = next(access for access in old.accesses if access.kind == "output")
    matrix = np.array([[float(loop is moved) for moved in new] for loop in stored])[None]
    plain = Terms.plain(len(stored))
    found.append(Access("output", buffer, matrix, plain, sizes, strides, written.element_bytes))
    return tuple(found)


def _columns(values: Sequence[Array | float], n: int) -> Array:
    """Numbers and arrays of n, side by side, shape (n, len(values))."""
    found = np.empty((n, len(values)))
    for column, value in enumerate(values):
        found[:, column] = value
    return found


def _nests(tracks: dict[str, _Track], anchor: _Track, n: int, aside: int) -> Nests:
    chain: list[tuple[_Track, Sequence[_Loop]]] = [(anchor, anchor.loops)]
    while (at := chain[0][0].at) is not None:
        host = tracks[at[0]]
        chain.insert(0, (host, host.loops[: host.place(at[1]) + 1]))
    path = [(track, loop) for track, loops in chain for loop in loops]
    places = {
        (track.name, name): (row, limit)
        for row, (track, loop) in enumerate(path)
        for name, limit in loop.names
    }
    steps, reach = np.zeros((2, n, len(path), len(anchor.sizes)))
    for column, axis in enumerate(anchor.sizes):
        for key, c in _axis_terms(anchor, axis):
            if key in places:
                row, limit = places[key]
                steps[:, row, column] += np.abs(c)
                reach[:, row, column] += np.abs(c) * (limit - 1)
    kinds = [LoopKind.UNROLLED if loop.name == track.taken else loop.kind for track, loop in path]
    return Nests(
        accesses=anchor.accesses,
        limits=_columns([loop.limit for _, loop in path], n),
        vector=_flags([kind is LoopKind.VECTOR for kind in kinds], n),
        unrolled=_flags([kind is LoopKind.UNROLLED for kind in kinds], n),
        parallel=_flags([kind is LoopKind.PARALLEL for kind in kinds], n),
        reduces=_flags([loop.reduces for _, loop in path], n),
        steps=steps,
        spans=spans_of(reach, _columns(list(anchor.sizes.values()), n)),
        packed=anchor.packed,
        loops=np.full(n, float(len(path))),
        outer_loops=np.full(n, float(len(path) - len(anchor.loops))),
        region=_columns([anchor.region], n)[:, 0],
        materialised=np.full(n, sum(track.at is None for track in tracks.values()) - 1.0 - aside),
        instruction=anchor.instruction,
    )


def _flags(values: Sequence[bool], n: int) -> Flags:
    """The same for all, shape (n, len(values))."""
    return np.repeat(np.array([values], dtype=np.bool_), n, axis=0)


def _axis_terms(track: _Track, axis: str) -> list[tuple[_Place, Array | float]]:
    """An axis as a sum over loops: the stage's own, and those around it that move its region."""
    return [*(((track.name, name), c) for name, c in track.terms[axis]), *track.origin.get(axis, ())]
