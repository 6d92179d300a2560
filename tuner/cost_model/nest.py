"""NestView: the loops around a Workload's anchor under a Schedule, as arrays for the features.

The path leads from the outermost loop of the stage that the anchor is attached to (if any) to the anchor's innermost
loop. A span says over how many values an axis runs inside a loop, and from spans follow the elements of each buffer
that the inside touches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from compiler.index import Atom, FloorDiv, Index, LookedUp
from compiler.loop.ir import LoopKind
from compiler.scalar import lookup_names
from compiler.schedule.state import Loop, ScheduledStage, State
from compiler.workload.ir import Operand, Stage, Workload, stage_loads

Array = NDArray[np.float64]
AccessClass = Literal["input", "constant", "output"]
_LINE_BYTES = 64
_Name = tuple[str, str]  # of a stage and of a loop in it


@dataclass(frozen=True, slots=True)
class PathLoop:
    """A loop of the path."""

    limit: int
    reduces: bool
    kind: LoopKind


@dataclass(frozen=True)
class Access:
    """How the anchor reads or writes a buffer.

    Attributes:
        matrix: shape (n_dims, n_axes), steps of each dimension's index per step of an axis.
        sizes, strides: of the buffer in elements, shape (n_dims,).
    """

    kind: AccessClass
    buffer: str
    matrix: Array
    sizes: Array
    strides: Array
    element_bytes: int


@dataclass(frozen=True)
class NestView:
    """The path and what its loops touch.

    Attributes:
        loops: outermost first.
        steps: shape (n_loops, n_axes), how far a loop moves each axis with one iteration.
        spans: shape (n_loops + 1, n_axes), values of each axis inside loops[d:] (1 in the last row).
        packed: buffers that lie in the order in which they are read.
        outer_loops: loops of the path that belong to the stage around the anchor.
    """

    loops: tuple[PathLoop, ...]
    steps: Array
    spans: Array
    packed: frozenset[str]
    outer_loops: int

    def elements(self, access: Access) -> Array:
        """Distinct elements that the inside of loops[d:] touches, shape (n_loops + 1,)."""
        return np.asarray(self._extents(access).prod(axis=1))

    def line_bytes(self, access: Access) -> Array:
        """Bytes of the cache lines that the inside of loops[d:] touches, shape (n_loops + 1,)."""
        extents = self._extents(access)
        if access.buffer in self.packed or not access.sizes.size:
            return np.asarray(extents.prod(axis=1) * access.element_bytes)
        whole_rows = extents[:, -1] >= access.sizes[-1]
        row = extents[:, -1] * access.element_bytes
        row = np.where(whole_rows, row, np.ceil(row / _LINE_BYTES) * _LINE_BYTES)
        return np.asarray(extents[:, :-1].prod(axis=1) * row)

    def stride(self, access: Access, loop: int) -> float:
        """Elements between two iterations of a loop; in a packed buffer 1 where it moves at all."""
        moved = float(np.abs(access.matrix @ self.steps[loop]) @ access.strides)
        return min(moved, 1.0) if access.buffer in self.packed else moved

    def same_axis(self, loop: int, other: int) -> bool:
        """Whether two loops move a common axis."""
        return bool(((self.steps[loop] > 0) & (self.steps[other] > 0)).any())

    def _extents(self, access: Access) -> Array:
        return np.minimum(access.sizes, 1.0 + (self.spans - 1.0) @ access.matrix.T)


def accesses(workload: Workload, stage: Stage) -> tuple[Access, ...]:
    """The reads of a stage, then its writes."""
    constants = {o.name for o in workload.operands if o.constant}
    moved_by = {n: axes for result in stage.results for n, axes in lookup_names(result.body).items()}
    found: dict[tuple[str, tuple[Index, ...]], Access] = {}
    for load in stage_loads(stage):
        kind: AccessClass = "constant" if load.buffer in constants else "input"
        key = (load.buffer, load.indices)
        found.setdefault(key, _access(kind, workload.buffers[load.buffer], stage, load.indices, moved_by))
    written = (
        _access("output", workload.buffers[r.target], stage, r.indices, moved_by) for r in stage.results
    )
    return (*found.values(), *written)


def view(state: State, stage: ScheduledStage) -> NestView:
    """The path to a stage's innermost loop."""
    loops: list[PathLoop] = []
    places: dict[_Name, tuple[int, int]] = {}
    chain = _chain(state, stage)
    for owner, own_loops in chain:
        for loop in own_loops:
            parts = [(p.name, p.extent) for p in owner.lets if p.of == loop.name]
            for name, extent in parts or [(loop.name, loop.extent.limit)]:
                places[owner.stage.name, name] = len(loops), extent
            # What an instruction takes in is part of the tile, as an unrolled loop would be.
            taken = owner.dot is not None and owner.dot[0] == loop.name
            kind = LoopKind.UNROLLED if taken else loop.kind
            loops.append(PathLoop(loop.extent.limit, loop.reduces, kind))
    sizes = [a.size for a in (*stage.stage.axes, *stage.stage.reduce_axes)]
    steps = np.zeros((len(loops), len(sizes)))
    reach = np.zeros_like(steps)
    for column, axis in enumerate((*stage.stage.axes, *stage.stage.reduce_axes)):
        for key, coefficient in _axis_terms(state, stage, axis.name):
            if key in places:
                row, limit = places[key]
                steps[row, column] += abs(coefficient)
                reach[row, column] += abs(coefficient) * (limit - 1)
    inside = np.vstack([np.cumsum(reach[::-1], axis=0)[::-1], np.zeros((1, len(sizes)))])
    spans = np.minimum(1.0 + inside, np.array(sizes, dtype=np.float64))
    return NestView(tuple(loops), steps, spans, frozenset(stage.packed), len(loops) - len(stage.loops))


def _chain(state: State, stage: ScheduledStage) -> list[tuple[ScheduledStage, tuple[Loop, ...]]]:
    """The stages around a stage with those of their loops that it lies in, outermost first, and the stage itself."""
    chain = [(stage, stage.loops)]
    attachment = stage.attachment
    while attachment is not None:
        consumer = state.stage(attachment.consumer)
        chain.insert(0, (consumer, consumer.loops[: consumer.position(attachment.loop) + 1]))
        attachment = consumer.attachment
    return chain


def _axis_terms(state: State, stage: ScheduledStage, axis: str) -> list[tuple[_Name, int]]:
    """An axis as a sum over loops: the stage's own, and those around it that move its region."""
    own = stage.bindings[axis]
    terms: list[tuple[_Name, int]] = [
        ((stage.stage.name, name), own.coefficient(name)) for name in sorted(own.names())
    ]
    if stage.attachment is None:
        return terms
    consumer = state.stage(stage.attachment.consumer)
    read = next((r for r in stage_loads(consumer.stage) if r.buffer == stage.stage.target), None)
    if read is None:
        return terms + _origin_terms(stage, axis)
    around = set(_defined(consumer, stage.attachment.loop))
    for stored, index in zip(stage.stage.target_indices, read.indices, strict=True):
        if stored.name == axis:
            for name in sorted(index.names()):
                moved = _axis_terms(state, consumer, name)
                terms += [
                    (n, c * index.coefficient(name))
                    for n, c in moved
                    if n in around or n[0] != consumer.stage.name
                ]
    return terms


def _origin_terms(stage: ScheduledStage, axis: str) -> list[tuple[_Name, int]]:
    """What moves the region of a stage that stands in a loop of another one than its reader."""
    terms: list[tuple[_Name, int]] = []
    if stage.attachment is not None:
        for stored, start in zip(stage.stage.target_indices, stage.attachment.origin, strict=True):
            if stored.name == axis:
                plain = [(atom, c) for atom, c in start.terms if isinstance(atom, str)]
                terms += [((str(a).split(":")[0], str(a).split(":", 1)[1]), c) for a, c in plain]
    return terms


def _defined(stage: ScheduledStage, innermost: str) -> list[_Name]:
    """Names of a stage's loops down to one of them, parts of fused loops included."""
    loops = [loop.name for loop in stage.loops[: stage.position(innermost) + 1]]
    names = loops + [part.name for part in stage.lets if part.of in loops]
    return [(stage.stage.name, name) for name in names]


def _access(
    kind: AccessClass,
    buffer: Operand,
    stage: Stage,
    indices: Sequence[Index],
    moved_by: Mapping[str, frozenset[str]],
) -> Access:
    names = [a.name for a in (*stage.axes, *stage.reduce_axes)]
    return Access(
        kind,
        buffer.name,
        np.array([[_slope(index, name, moved_by) for name in names] for index in indices]).reshape(
            len(indices), len(names)
        ),
        np.array(buffer.sizes, dtype=np.float64),
        np.array(buffer.strides, dtype=np.float64),
        buffer.dtype.size_bytes,
    )


def _slope(index: Index, name: str, moved_by: Mapping[str, frozenset[str]]) -> float:
    """Average step of an index per step of a name, quotients included; lookups count as uniformly distributed."""
    return sum(abs(c) * _atom_slope(atom, name, moved_by) for atom, c in index.terms)


def _atom_slope(atom: Atom, name: str, moved_by: Mapping[str, frozenset[str]]) -> float:
    if isinstance(atom, str):
        return float(atom == name)
    if isinstance(atom, LookedUp):
        return atom.extent / 3 if name in moved_by[atom.name] else 0.0
    inner = _slope(atom.value, name, moved_by)
    return inner / atom.divisor if isinstance(atom, FloorDiv) else inner
