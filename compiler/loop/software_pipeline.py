"""Software pipeline: loops beside each other become one, each behind those whose results it waits for.

    for s in 0..8 pipelined: m[s] = largest of x[s]       for t in 0..10:
    for s in 0..8 pipelined: e[s] = exp(x[s] - m[s])        if t < 8:          s = t;     m[s % 2] = ...
    for s in 0..8 pipelined: n[s] = sum of e[s]        →    if 0 <= t-1 < 8:   s = t - 1; e[s % 2] = ...; n[s % 2] = ...
    for s in 0..8 pipelined: y[s] = e[s] / n[s]             if 0 <= t-2 < 8:   s = t - 2; y[s] = ...

A stage that waits for the end of the previous one's sum leaves the processor's units idle, for it looks ahead no
further than some hundred instructions. Here each turn has all stages, and none needs what another one ends in it. What
is kept between two stages is as long as they are apart. Software pipelining (Lam, PLDI 1988), of stages instead of
instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.ir import (
    Block,
    Buffer,
    Extent,
    For,
    If,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    buffers_of,
    walk_statements,
    with_parts,
)
from compiler.loop.simplify import substitute_statement
from compiler.loop.slices import Slice, slices
from compiler.scalar import FAR, Bound, Expr, Load, loads, rewrite


def software_pipeline(nest: LoopNest) -> LoopNest:
    """Make one loop of those beside each other that are bound so, or a serial one where there is none beside.

    Raises ScheduleError where a stage reads what another iteration of an earlier one stores.
    """
    if not any(_is_pipelined(stmt) for stmt in walk_statements(nest.body)):
        return nest
    work = _Pipelining(nest)
    body = work.statement(nest.body)
    return replace(nest, buffers=tuple(work.buffers.values()), body=body)


class _Pipelining:
    def __init__(self, nest: LoopNest) -> None:
        self.buffers: dict[str, Buffer] = dict(nest.by_name)
        self._uses = Counter(access.buffer for access in _accesses(nest.body))

    def statement(self, stmt: Stmt) -> Stmt:
        if _is_pipelined(stmt):
            return self._joined([self._inside(stmt)])
        if not isinstance(stmt, Block):
            return with_parts(stmt, self.statement)
        statements: list[Stmt] = []
        for together, parts in groupby(stmt.statements, _is_pipelined):
            if together:
                statements.append(self._joined([self._inside(part) for part in parts]))
            else:
                statements += [self.statement(part) for part in parts]
        return block(*statements)

    def _inside(self, loop: Stmt) -> For:
        assert isinstance(loop, For)
        return replace(loop, body=self.statement(loop.body))

    def _joined(self, loops: Sequence[For]) -> Stmt:
        """One loop for several."""
        if len(loops) == 1:
            return replace(loops[0], kind=LoopKind.SERIAL)
        apart = _slices(loops)
        behind = _behind(loops)
        turn = f"{loops[-1].var}.turn"
        loops = self._kept_shorter(loops, behind, apart)
        numbered = zip(behind, loops, strict=True)
        groups = groupby(numbered, lambda both: (both[0], both[1].extent))
        parts = [_guarded(turn, late, [loop for _, loop in group]) for (late, _), group in groups]
        return For(turn, _extent(loops, behind), LoopKind.SERIAL, block(*parts))

    def _kept_shorter(
        self, loops: Sequence[For], behind: Sequence[int], apart: Mapping[str, Slice]
    ) -> list[For]:
        """The loops, with what they alone use of the thread's own kept for as many iterations as are under way."""
        new = list(loops)
        uses = Counter(access.buffer for loop in loops for access in _accesses(loop))
        for name, part in apart.items():
            if self.buffers[name].scope != "local" or uses[name] != self._uses[name]:
                continue
            users = [i for i, loop in enumerate(loops) if name in buffers_of(loop)]
            length = 1
            while length <= behind[users[-1]] - behind[users[0]]:
                length *= 2
            if length >= min(loop.extent.limit for loop in loops):
                continue
            shape = list(self.buffers[name].shape)
            shape[part.dimension] = length * part.step
            self.buffers[name] = replace(self.buffers[name], shape=tuple(shape))
            for i in users:
                new[i] = replace(new[i], body=_in_ring(new[i].body, new[i].var, name, part, length))
        return new


def _is_pipelined(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.PIPELINED


def _guarded(turn: str, behind: int, loops: Sequence[For]) -> Stmt:
    """The bodies of loops that are equally far behind, where they have an iteration in this turn."""
    first, at = loops[0], Index.of(turn) - behind
    bodies = [substitute_statement(loop.body, {loop.var: Index.of(first.var)}) for loop in loops]
    body: Stmt = Let(first.var, at, first.extent.limit, block(*bodies))
    if first.extent.bound is not None:
        body = If(Bound(first.extent.bound - at, 1, FAR), body, Block(()))
    return If(Bound(at, 0, first.extent.limit), body, Block(()))


def _extent(loops: Sequence[For], behind: Sequence[int]) -> Extent:
    """Turns until the last loop has ended."""
    limit = max(loop.extent.limit + late for loop, late in zip(loops, behind, strict=True))
    bounds = {loop.extent.bound for loop in loops}
    bound = bounds.pop() if len(bounds) == 1 else None
    return Extent(limit, None if bound is None else bound + max(behind))


def _behind(loops: Sequence[For]) -> list[int]:
    """How many turns each loop is behind the first: one more than those whose sums it reads.

    What a map makes is there at once. The order of loops that have nothing to do with each other is kept.
    """
    found: list[int] = []
    for number, loop in enumerate(loops):
        read = {load.buffer for load in _loaded(loop)}
        late = found[-1] if found else 0
        for earlier, first in zip(found, loops[:number], strict=True):
            late = max(late, earlier + int(not _sums(first).isdisjoint(read)))
        found.append(late)
    return found


def _sums(loop: For) -> set[str]:
    """Buffers to whose elements the loop adds, or which it combines otherwise."""
    return {s.buffer for s in _stores(loop) if any(load.buffer == s.buffer for load in loads(s.value))}


def _slices(loops: Sequence[For]) -> dict[str, Slice]:
    """What an iteration touches of each buffer that one of the loops stores to and another one uses.

    Raises ScheduleError where that is not the same part of it in both, apart from all other iterations'.
    """
    stored = [{s.buffer for s in _stores(loop)} for loop in loops]
    touched = [buffers_of(loop) for loop in loops]
    shared = {
        name
        for i, names in enumerate(stored)
        for name in names
        if any(name in other for j, other in enumerate(touched) if j != i)
    }
    found = {}
    for name in sorted(shared):
        parts = [_common(loop, name) for loop, used in zip(loops, touched, strict=True) if name in used]
        common = set.intersection(*parts)
        if not common:
            msg = f"cannot pipeline {loops[-1].var}: {name} is not read at the iteration alone that stores it"
            raise ScheduleError(msg)
        found[name] = min(common, key=lambda part: part.dimension)
    return found


def _common(loop: For, name: str) -> set[Slice]:
    """The slices of a buffer that hold all accesses of an iteration."""
    inner = {s.var: s.extent.limit for s in walk_statements(loop.body) if isinstance(s, For)}
    inner |= {s.var: s.extent for s in walk_statements(loop.body) if isinstance(s, Let)}
    found: set[Slice] | None = None
    for load in _accesses(loop):
        if load.buffer == name:
            own = set(slices(load, loop.var, inner))
            found = own if found is None else found & own
    return found or set()


def _in_ring(stmt: Stmt, var: str, name: str, part: Slice, length: int) -> Stmt:
    """The statement with the accesses of a buffer at the iteration's remainder by `length`."""

    def moved(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        index = indices[part.dimension]
        ring = index - part.begin - Index.of(var) * part.step + (Index.of(var) % length) * part.step
        return (*indices[: part.dimension], ring, *indices[part.dimension + 1 :])

    def rule(e: Expr) -> Expr | None:
        return Load(name, moved(e.indices)) if isinstance(e, Load) and e.buffer == name else None

    if isinstance(stmt, Store):
        indices = moved(stmt.indices) if stmt.buffer == name else stmt.indices
        return Store(stmt.buffer, indices, rewrite(stmt.value, rule))
    return with_parts(stmt, lambda inner: _in_ring(inner, var, name, part, length))


def _stores(stmt: Stmt) -> list[Store]:
    return [inner for inner in walk_statements(stmt) if isinstance(inner, Store)]


def _loaded(stmt: Stmt) -> list[Load]:
    return [load for store in _stores(stmt) for load in loads(store.value)]


def _accesses(stmt: Stmt) -> list[Load]:
    """Every place that is read or written, as a Load."""
    return [Load(s.buffer, s.indices) for s in _stores(stmt)] + _loaded(stmt)
