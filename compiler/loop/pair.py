"""Pair: the vectors at an edge that are at most half full hold two rows.

    for r in 0..4 unrolled: for v in 0..3 unrolled: for l in 0..min(8, 20 - v*8) vector: t[r, v*8 + l] += x[r] * w[v, l]
    →  for r.p in 0..2 unrolled:
         for r.q in 0..2 unrolled: for v in 0..2 unrolled: for l in 0..8 vector: t[r, v*8 + l] += x[r] * w[v, l]
         for r.q in 0..2 vector: for l in 0..4 vector: t[r, 16 + l] += x[r] * w[2, l]              r = r.p*2 + r.q

so that 20 columns of two rows are five vectors instead of six; whole vectors stay as they are. It is done to sums of
products in local memory where one factor is the same for all lanes and the other for all rows: what a pair needs is at
hand then. All that stores or reads the sums in a block of statements is changed alike, and the block gets a buffer of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from compiler.index import Index
from compiler.loop.ir import (
    Block,
    Extent,
    For,
    If,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    extent,
)
from compiler.loop.simplify import substitute_statement
from compiler.loop.sums import HALVES, Chain, Refused, Sums, nested, rewrite_sums
from compiler.scalar import loads, rename_buffers
from compiler.symbol import Size, size_at

ROWS = HALVES
"""In a vector: joining more takes as many instructions as it saves."""
LEAST_LANES = 4
"""Of each row."""


def pair(nest: LoopNest) -> LoopNest:
    """Pair the edges of every sum in local memory. The nest must be simplified."""
    return rewrite_sums(nest, _Pairing)


@dataclass(frozen=True, slots=True)
class _Edge:
    """What is paired.

    Attributes:
        step: elements of the buffer from one row to the next.
        whole: full vectors of a row; what follows them is paired.
        active: elements of a row that follow them.
        lanes: that a row has in a pair.
    """

    step: int
    whole: int
    active: int
    lanes: int


class _Pairing(Sums):
    """The pairing of one buffer."""

    def _block(self, stmt: Stmt) -> Stmt:
        try:
            chains = list(self._chains(stmt))
            edge = _edge(chains)
        except Refused:
            return stmt
        if edge is None:
            return stmt
        own = f"{self._name}.{len(self.made)}"
        self.made.append(replace(self._buffer, name=own, shape=self._room(chains[0], edge)))
        known = {id(chain.loops[0]): _halved(chain, edge) for chain in chains}
        return _renamed(stmt, known, {self._name: own})

    def _room(self, chain: Chain, edge: _Edge) -> tuple[Size, ...]:
        """The buffer's shape with whole pairs of rows."""
        row = chain.row(edge.step)
        moved = [row is not None and row.var in index.names() for index in chain.store.indices]
        sizes = zip(self._buffer.shape, moved, strict=True)
        return tuple(-(-size_at(n, {}) // ROWS) * ROWS if moves else n for n, moves in sizes)


def _edge(chains: list[Chain]) -> _Edge | None:
    """What all chains agree on; None where they do not, or where nothing is to be gained."""
    cuts = {chain.cut() for chain in chains}
    steps = {step for chain in chains for step in _steps(chain)}
    cut = cuts.pop()
    if cuts or cut is None or len(steps) != 1:
        return None
    step, lanes = steps.pop(), chains[0].lane.extent.limit // ROWS
    if lanes < LEAST_LANES or cut[1] > lanes or any(chain.row(step) is None for chain in chains):
        return None
    return _Edge(step, *cut, lanes)


def _steps(chain: Chain) -> list[int]:
    """How far apart those rows are of a sum of products that share a factor, where the lanes share the other."""
    factors = chain.factors
    if factors is None:
        return []
    used = [{n for load in loads(f) for i in load.indices for n in i.names()} for f in factors]
    lane = chain.lane.var
    ends = chain.vectors()
    return [
        chain.flat.coefficient(row.var)
        for row in chain.loops[:-1]
        if row is not ends
        and row.extent.limit >= ROWS
        and any(a and b and lane not in a and row.var not in b for a, b in (used, used[::-1]))
    ][-1:]


def _halved(chain: Chain, edge: _Edge) -> Stmt:
    """Whole vectors row by row, and what is left of two rows in one."""
    row, vectors, lane = chain.row(edge.step), chain.vectors(), chain.lane
    assert row is not None
    number, one = f"{row.var}.p", f"{row.var}.q"
    rows = extent(ROWS, Index.of(row.extent.limit) - Index.of(number) * ROWS)
    pairs = replace(row, var=number, extent=Extent(-(-row.extent.limit // ROWS)))
    here = {row.var: Index.of(number) * ROWS + one}
    after = here if vectors is None else {**here, vectors.var: Index.of(edge.whole)}
    half = For(lane.var, extent(edge.lanes, Index.of(edge.active)), LoopKind.VECTOR, chain.store)
    joined = substitute_statement(For(one, rows, LoopKind.VECTOR, half), after)
    loops = list(chain.loops[:-1])
    if vectors is None:
        return nested([pairs if loop is row else loop for loop in loops], joined)
    full = replace(lane, extent=Extent(lane.extent.limit))
    front = [replace(x, extent=Extent(edge.whole)) if x is vectors else x for x in loops]
    rest = [pairs if x is row else x for x in loops if x is not vectors]
    place = min(loops.index(row), loops.index(vectors))
    around, front, rest = loops[:place], front[place:], rest[place:]
    if loops[place] is vectors:
        return nested(around, block(nested([*front, full], chain.store), nested(rest, joined)))
    whole = substitute_statement(nested([*front[1:], full], chain.store), here)
    return nested([*around, pairs], block(For(one, rows, LoopKind.UNROLLED, whole), nested(rest[1:], joined)))


def _renamed(stmt: Stmt, known: Mapping[int, Stmt], names: Mapping[str, str]) -> Stmt:
    """The statement with loops replaced by their identity, and buffers renamed."""
    stmt = known.get(id(stmt), stmt)
    match stmt:
        case For(body=body) | Let(body=body):
            return replace(stmt, body=_renamed(body, known, names))
        case If(_, then, otherwise):
            return replace(
                stmt, then=_renamed(then, known, names), otherwise=_renamed(otherwise, known, names)
            )
        case Store(buffer, indices, value):
            return Store(names.get(buffer, buffer), indices, rename_buffers(value, names))
        case Block(statements):
            return block(*(_renamed(s, known, names) for s in statements))
        case _:
            assert_never(stmt)
