"""Promote: local buffers become registers where every access is at a constant place.

    local t: f32[4, 8]                                    register t: f32[4, 8]     (4 vectors of 8 lanes)
    for i in 0..4 unrolled: for j in 0..8 vector: t[i, j]    →  the same accesses

A place is constant when only unrolled loops and the lanes of a vector move it. Accesses that overlap must agree in
their vectors: a register cannot be written as a vector and read element by element. The rest stays in memory, its
innermost dimension padded to whole vectors, with room behind the rows of each of many parts (compiler.loop.room); so
do sums of an instruction on matrices, whose registers hand them over in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import assert_never

from compiler.index import Index
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import Block, Buffer, For, If, Let, LoopKind, LoopNest, Stmt, Store, walk_statements
from compiler.loop.room import spread_rows
from compiler.scalar import Dot, loads
from compiler.symbol import size_at

MANY_PARTS = 16
"""Parts from which on those that share a few sets of a first cache drive each other out."""
LEAST_SHARE = 8
"""Rows for each row of room behind them, at least: local memory is counted without it."""

_Slot = tuple[int, ...]
"""The elements of a vector, or a single one."""


def promote(nest: LoopNest) -> LoopNest:
    """Change the scope of local buffers that need no memory. The nest must be simplified."""
    local = {b.name: b for b in nest.buffers if b.scope == "local"}
    if not local:
        return nest
    summed = _matrices(nest)
    slots: dict[str, set[_Slot] | None] = {name: None if name in summed else set() for name in local}
    widest = dict.fromkeys(local, 1)
    for name, indices, around in _accesses(nest.body, _Around({}, {})):
        if name not in local:
            continue
        widest[name] = max(widest[name], around.lanes(indices))
        known = slots[name]
        if known is not None:
            found = around.slots(local[name].flat(indices))
            if found is None:
                slots[name] = None
            else:
                known |= found
    kept = {name for name, found in slots.items() if found is not None and _disjoint(found)}
    buffers = []
    for buffer in nest.buffers:
        if buffer.name in kept:
            buffers.append(replace(buffer, scope="register"))
        else:
            buffers.append(
                _with_room(_padded(buffer, widest[buffer.name])) if buffer.name in local else buffer
            )
    return replace(nest, buffers=tuple(buffers))


def _matrices(nest: LoopNest) -> set[str]:
    """Buffers that instructions on matrices add to."""
    return {
        stmt.buffer
        for stmt in walk_statements(nest.body)
        if isinstance(stmt, Store)
        and isinstance(stmt.value, Dot)
        and INSTRUCTIONS[stmt.value.instruction].takes_matrices
    }


def local_bytes(nest: LoopNest) -> int:
    """Memory of its own that each thread needs."""
    return sum(_bytes(b) for b in nest.buffers if b.scope == "local")


def _padded(buffer: Buffer, lanes: int) -> Buffer:
    """Whole vectors along the innermost dimension that has more than one element."""
    sizes = [size_at(size, {}) for size in buffer.shape]
    place = max((d for d, size in enumerate(sizes) if size > 1), default=len(sizes) - 1)
    padded = -(-sizes[place] // lanes) * lanes
    if padded == sizes[place]:
        return buffer
    return replace(buffer, shape=(*sizes[:place], padded, *sizes[place + 1 :]))


def _with_room(buffer: Buffer) -> Buffer:
    """Parts that do not lie a power of two apart; a dimension of one element is none."""
    sizes = [size_at(size, {}) for size in buffer.shape]
    long = [d for d, size in enumerate(sizes) if size > 1]
    if len(long) < 3 or prod(sizes[: long[-2]]) < MANY_PARTS:
        return buffer
    place, row_bytes = long[-2], sizes[long[-1]] * buffer.dtype.size_bytes
    rows = spread_rows(sizes[place], row_bytes)
    if (rows - sizes[place]) * LEAST_SHARE > sizes[place]:
        return buffer
    return replace(buffer, shape=(*sizes[:place], rows, *sizes[place + 1 :]))


def _bytes(buffer: Buffer) -> int:
    return buffer.elements * buffer.dtype.size_bytes


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops and lets around an access: `loops` by name, `lets` in terms of loops."""

    loops: Mapping[str, For]
    lets: Mapping[str, Index]

    def lanes(self, indices: tuple[Index, ...]) -> int:
        """Length of the vector loop that an access moves with; 1 where there is none."""
        names = {name for index in indices for name in index.substitute(self.lets).names()}
        found = [self.loops[n] for n in names if n in self.loops and self.loops[n].kind is LoopKind.VECTOR]
        return max((loop.extent.limit for loop in found), default=1)

    def slots(self, place: Index) -> set[_Slot] | None:
        """All slots that an access touches; None where it moves with a loop that runs."""
        place = place.substitute(self.lets)
        names = sorted(place.names())
        kinds = {name: self.loops[name].kind for name in names if name in self.loops}
        if (
            place.looked_up()
            or len(kinds) < len(names)
            or set(kinds.values()) - {LoopKind.UNROLLED, LoopKind.VECTOR}
        ):
            return None
        around = [name for name, loop in self.loops.items() if loop.kind is LoopKind.VECTOR]
        vectors = [name for name in around if name in kinds]
        if vectors and (vectors[-1] != around[-1] or place.coefficient(vectors[-1]) != 1):
            return None
        lanes = self._steps(place, vectors)
        starts = self._steps(place, [name for name in names if name not in vectors])
        return {tuple(place.const + start + lane for lane in lanes) for start in starts}

    def _steps(self, place: Index, names: Sequence[str]) -> list[int]:
        """How far the iterations of these loops move a place."""
        if place.is_affine():
            steps = [0]
            for name in names:
                step = place.coefficient(name)
                steps = [at + i * step for at in steps for i in range(self.loops[name].extent.limit)]
            return steps
        still = dict.fromkeys(map(str, place.names()), 0)
        ranges = [range(self.loops[name].extent.limit) for name in names]
        return [
            place.evaluate({**still, **dict(zip(names, at, strict=True))}) - place.const
            for at in product(*ranges)
        ]


def _accesses(stmt: Stmt, around: _Around) -> Iterator[tuple[str, tuple[Index, ...], _Around]]:
    match stmt:
        case For(var, _, _, body):
            yield from _accesses(body, _Around({**around.loops, var: stmt}, around.lets))
        case Let(var, value, _, body):
            lets = {**around.lets, var: value.substitute(around.lets)}
            yield from _accesses(body, _Around(around.loops, lets))
        case If(_, then, otherwise):
            yield from _accesses(then, around)
            yield from _accesses(otherwise, around)
        case Store(buffer, indices, value):
            yield buffer, indices, around
            for load in loads(value):
                yield load.buffer, load.indices, around
        case Block(statements):
            for statement in statements:
                yield from _accesses(statement, around)
        case _:
            assert_never(stmt)


def _disjoint(slots: set[_Slot]) -> bool:
    """Whether no two slots share an element."""
    elements = [element for slot in slots for element in slot]
    return len(elements) == len(set(elements))
