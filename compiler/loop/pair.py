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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

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
    extent,
    sub_statements,
    walk_statements,
)
from compiler.loop.simplify import simplify, substitute_statement
from compiler.scalar import Apply, Load, loads, rename_buffers
from compiler.symbol import Size, size_at

ROWS = 2
"""In a vector: joining more takes as many instructions as it saves."""
LEAST_LANES = 4
"""Of each row."""

_COPIED = (LoopKind.VECTOR, LoopKind.UNROLLED)


def pair(nest: LoopNest) -> LoopNest:
    """Pair the edges of every sum in local memory. The nest must be simplified."""
    buffers, body = list(nest.buffers), nest.body
    at_edges = {name for stmt in walk_statements(body) if _is_edge(stmt) for name in _buffers(stmt)}
    for buffer in nest.buffers:
        if buffer.scope == "local" and buffer.name in at_edges:
            pairing = _Pairing(buffer)
            body = pairing.whole(body)
            buffers += pairing.made
    return nest if body is nest.body else simplify(replace(nest, body=body, buffers=tuple(buffers)))


def _is_edge(stmt: Stmt) -> bool:
    """Whether it is a vector loop that may be at most half full; most nests have none."""
    match stmt:
        case For(_, Extent(limit, Index() as bound), LoopKind.VECTOR):
            return 0 < bound.const % limit <= limit // ROWS
        case _:
            return False


def _buffers(stmt: Stmt) -> Iterator[str]:
    """Names of what is stored or read below a statement."""
    for inner in walk_statements(stmt):
        if isinstance(inner, Store):
            yield inner.buffer
            yield from (load.buffer for load in loads(inner.value))


class _Refused(Exception):
    """A statement is not of a form that can be paired."""


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


@dataclass(frozen=True, slots=True)
class _Chain:
    """Unrolled and vector loops around one store, all of which move its place in the buffer; `flat` is that place."""

    loops: tuple[For, ...]
    store: Store
    flat: Index

    @property
    def lane(self) -> For:
        return self.loops[-1]

    def row(self, step: int) -> For | None:
        """The loop that moves the place so far each time."""
        found = [loop for loop in self.loops[:-1] if self.flat.coefficient(loop.var) == step]
        return found[0] if len(found) == 1 and found[0].extent.bound is None else None

    def vectors(self) -> For | None:
        """The loop over vectors that the last of them ends early; None where there is one vector."""
        bound = self.lane.extent.bound
        return next((x for x in self.loops[:-1] if bound is not None and x.var in bound.names()), None)

    def cut(self) -> tuple[int, int] | None:
        """Full vectors, and elements of the one that follows; None where the loops do not tell."""
        lanes, bound = self.lane.extent.limit, self.lane.extent.bound
        vectors = self.vectors()
        if bound is None or bound.names() - ({vectors.var} if vectors else set()):
            return None
        if vectors is None:
            return 0, bound.const
        if vectors.extent.bound is not None:
            return None
        counts = [bound.substitute({vectors.var: Index.of(v)}).const for v in range(vectors.extent.limit)]
        return (len(counts) - 1, counts[-1]) if all(n >= lanes for n in counts[:-1]) else None


class _Pairing:
    """The pairing of one buffer."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer, self._name = buffer, buffer.name
        self.made: list[Buffer] = []
        # What was found by the identity of a statement, which is held so that it keeps it.
        self._counts: dict[int, tuple[Stmt, int]] = {}
        self._found: dict[int, tuple[Store, list[Load]]] = {}

    def whole(self, body: Stmt) -> Stmt:
        """The body of a nest, paired where every access is in a block that begins by storing what it reads later."""
        begun = sum(self._accesses(s) for s in walk_statements(body) if self._begins(s))
        return self._outer(body) if 0 < begun == self._accesses(body) else body

    def _accesses(self, stmt: Stmt) -> int:
        """Stores below it that write or read the buffer."""
        if isinstance(stmt, Store):
            return int(bool(self._places(stmt)))
        if id(stmt) not in self._counts:
            self._counts[id(stmt)] = stmt, sum(map(self._accesses, sub_statements(stmt)))
        return self._counts[id(stmt)][1]

    def _places(self, store: Store) -> list[Load]:
        """Where it writes or reads the buffer."""
        if id(store) not in self._found:
            places = [Load(store.buffer, store.indices), *loads(store.value)]
            self._found[id(store)] = store, [place for place in places if place.buffer == self._name]
        return self._found[id(store)][1]

    def _begins(self, stmt: Stmt) -> bool:
        """Whether it is a block whose first access to the buffer only stores, and others follow."""
        if not isinstance(stmt, Block):
            return False
        first = next((s for s in stmt.statements if self._accesses(s)), stmt)
        stores = [s for s in walk_statements(first) if isinstance(s, Store)]
        fresh = all(s.buffer == self._name and len(self._places(s)) == 1 for s in stores)
        return fresh and self._accesses(first) < self._accesses(stmt)

    def _outer(self, stmt: Stmt) -> Stmt:
        """The statement with its blocks paired."""
        if self._begins(stmt):
            return self._block(stmt)
        match stmt:
            case For(body=body) | Let(body=body):
                new = self._outer(body)
                return stmt if new is body else replace(stmt, body=new)
            case If(_, then, otherwise):
                a, b = self._outer(then), self._outer(otherwise)
                return stmt if a is then and b is otherwise else replace(stmt, then=a, otherwise=b)
            case Store():
                return stmt
            case Block(statements):
                parts = tuple(map(self._outer, statements))
                same = all(a is b for a, b in zip(parts, statements, strict=True))
                return stmt if same else block(*parts)
            case _:
                assert_never(stmt)

    def _block(self, stmt: Stmt) -> Stmt:
        try:
            chains = list(self._chains(stmt))
            edge = _edge(chains)
        except _Refused:
            return stmt
        if edge is None:
            return stmt
        own = f"{self._name}.{len(self.made)}"
        self.made.append(replace(self._buffer, name=own, shape=self._room(chains[0], edge)))
        known = {id(chain.loops[0]): _halved(chain, edge) for chain in chains}
        return _renamed(stmt, known, {self._name: own})

    def _room(self, chain: _Chain, edge: _Edge) -> tuple[Size, ...]:
        """The buffer's shape with whole pairs of rows."""
        row = chain.row(edge.step)
        moved = [row is not None and row.var in index.names() for index in chain.store.indices]
        sizes = zip(self._buffer.shape, moved, strict=True)
        return tuple(-(-size_at(n, {}) // ROWS) * ROWS if moves else n for n, moves in sizes)

    def _chains(self, stmt: Stmt) -> Iterator[_Chain]:
        """The chains that have all accesses of a statement."""
        if not self._accesses(stmt):
            return
        match stmt:
            case For(var, _, kind) if kind in _COPIED and self._moves(var, stmt):
                yield self._chain(stmt)
            case Store():
                raise _Refused
            case _:
                for child in sub_statements(stmt):
                    yield from self._chains(child)

    def _moves(self, var: str, stmt: Stmt) -> bool:
        stores = (s for s in walk_statements(stmt) if isinstance(s, Store))
        return any(var in i.names() for s in stores for place in self._places(s) for i in place.indices)

    def _chain(self, stmt: For) -> _Chain:
        loops: list[For] = []
        inner: Stmt = stmt
        while isinstance(inner, For) and inner.kind in _COPIED and self._moves(inner.var, inner):
            loops.append(inner)
            inner = inner.body
        vectors = [loop for loop in loops if loop.kind is LoopKind.VECTOR]
        if (
            not isinstance(inner, Store)
            or vectors != loops[-1:]
            or loops[-1].extent.limit < ROWS * LEAST_LANES
        ):
            raise _Refused
        places = {self._buffer.flat(place.indices) for place in self._places(inner)}
        if len(places) != 1:
            raise _Refused
        return _Chain(tuple(loops), inner, places.pop())


def _edge(chains: list[_Chain]) -> _Edge | None:
    """What all chains agree on; None where they do not, or where nothing is to be gained."""
    cuts = {chain.cut() for chain in chains}
    steps = {step for chain in chains for step in _steps(chain)}
    cut = cuts.pop()
    if cuts or cut is None or len(steps) != 1:
        return None
    step, lanes = steps.pop(), chains[0].lane.extent.limit // ROWS
    if cut[1] > lanes or any(chain.row(step) is None for chain in chains):
        return None
    return _Edge(step, *cut, lanes)


def _steps(chain: _Chain) -> list[int]:
    """How far apart those rows are of a sum of products that share a factor, where the lanes share the other."""
    match chain.store.value:
        case Apply("add", (Load() as total, Apply("mul", (first, second)))) if (
            total.indices == chain.store.indices
        ):
            used = [
                {n for load in loads(f) for i in load.indices for n in i.names()} for f in (first, second)
            ]
        case _:
            return []
    lane = chain.lane.var
    ends = chain.vectors()
    return [
        chain.flat.coefficient(row.var)
        for row in chain.loops[:-1]
        if row is not ends
        and row.extent.limit >= ROWS
        and any(a and b and lane not in a and row.var not in b for a, b in (used, used[::-1]))
    ][-1:]


def _halved(chain: _Chain, edge: _Edge) -> Stmt:
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
        return _nested([pairs if loop is row else loop for loop in loops], joined)
    full = replace(lane, extent=Extent(lane.extent.limit))
    front = [replace(x, extent=Extent(edge.whole)) if x is vectors else x for x in loops]
    rest = [pairs if x is row else x for x in loops if x is not vectors]
    place = min(loops.index(row), loops.index(vectors))
    around, front, rest = loops[:place], front[place:], rest[place:]
    if loops[place] is vectors:
        return _nested(around, block(_nested([*front, full], chain.store), _nested(rest, joined)))
    whole = substitute_statement(_nested([*front[1:], full], chain.store), here)
    return _nested(
        [*around, pairs], block(For(one, rows, LoopKind.UNROLLED, whole), _nested(rest[1:], joined))
    )


def _nested(loops: Sequence[For], inner: Stmt) -> Stmt:
    for loop in reversed(loops):
        inner = replace(loop, body=inner)
    return inner


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
