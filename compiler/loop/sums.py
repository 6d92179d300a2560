"""Sums in local memory: where a block of statements stores and reads one, and the loops that move it there.

    t[...] = 0                    a block that begins by storing all that it reads later, and its chains: unrolled loops
    for k: for r unrolled: for v unrolled: for l vector: t[r, v*8 + l] += ...        and a vector loop around one store
    for r unrolled: for v unrolled: for l vector: y[...] = t[r, v*8 + l]

The passes that fill the vectors at the edges of sums find them here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    buffers_of,
    sub_statements,
    walk_statements,
    with_parts,
)
from compiler.loop.simplify import simplify
from compiler.scalar import Apply, Expr, Load, loads

HALVES = 2
"""A vector at an edge is worth filling if it is at most half full."""

_COPIED = (LoopKind.VECTOR, LoopKind.UNROLLED)


def rewrite_sums(nest: LoopNest, rewriting: type[Sums], *, at_edges: bool = True) -> LoopNest:
    """Rewrite every sum in local memory, or only those that have vectors at edges. The nest must be simplified."""
    buffers, body = list(nest.buffers), nest.body
    looked_at = filter(_is_edge, walk_statements(body)) if at_edges else (body,)
    wanted = {name for s in looked_at for name in buffers_of(s)}
    for buffer in nest.buffers:
        if buffer.scope == "local" and buffer.name in wanted:
            found = rewriting(buffer, nest)
            body = found.whole(body)
            buffers += found.made
    return nest if body is nest.body else simplify(replace(nest, body=body, buffers=tuple(buffers)))


def _is_edge(stmt: Stmt) -> bool:
    """Whether it is a vector loop that may be at most half full; most nests have none."""
    match stmt:
        case For(_, Extent(limit, Index() as bound), LoopKind.VECTOR):
            return 0 < bound.const % limit <= limit // HALVES
        case _:
            return False


class Refused(Exception):
    """A statement is not of a form that can be rewritten."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Unrolled and vector loops around one store, all of which move its place in the buffer; `flat` is that place."""

    loops: tuple[For, ...]
    store: Store
    flat: Index

    @property
    def lane(self) -> For:
        """The vector loop."""
        return self.loops[-1]

    @property
    def start(self) -> Index:
        """The place in the first iteration of every loop."""
        return self.flat.substitute({loop.var: Index() for loop in self.loops})

    @property
    def factors(self) -> tuple[Expr, Expr] | None:
        """What is multiplied and added to the sum; None where the statement does something else."""
        match self.store.value:
            case Apply("add", (Load() as total, Apply("mul", (first, second)))) if (
                total.buffer == self.store.buffer and total.indices == self.store.indices
            ):
                return first, second
            case _:
                return None

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


class Sums(ABC):
    """Rewrites the blocks of one buffer; `made`: the buffers that it needs for that."""

    def __init__(self, buffer: Buffer, nest: LoopNest) -> None:
        """Nothing is looked at yet."""
        self._buffer, self._name, self._nest = buffer, buffer.name, nest
        self.made: list[Buffer] = []
        # What was found by the identity of a statement, which is held so that it keeps it.
        self._counts: dict[int, tuple[Stmt, int]] = {}
        self._found: dict[int, tuple[Store, list[Load]]] = {}
        self._names: dict[int, tuple[Stmt, frozenset[str]]] = {}

    def whole(self, body: Stmt) -> Stmt:
        """The body of a nest, rewritten where every access is in a block that begins by storing what it reads later."""
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
        """The statement with its blocks rewritten."""
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

    @abstractmethod
    def _block(self, stmt: Stmt) -> Stmt:
        """A block that begins by storing all that it reads later, rewritten; itself where nothing is to be gained."""

    def _products(self, stmt: Stmt) -> list[tuple[Chain, For, bool]]:
        """Chains that add products of floats, the unrolled loop of the sum around each, whether a loop repeats both.

        Nothing where an access of the statement is in no chain.
        """
        try:
            list(self._chains(stmt))
        except Refused:
            return []
        found = []
        for around, loop, again in _unrolled_around(stmt) if self._buffer.dtype.is_float else ():
            if not self._moves(loop.var, loop):
                continue
            try:
                chain = self._chain(loop)
            except Refused:
                continue
            own = chain.factors is not None and chain.store.buffer == self._name
            if own and around.var not in chain.flat.names():
                found.append((chain, around, again))
        return found

    def _chains(self, stmt: Stmt) -> Iterator[Chain]:
        """The chains that have all accesses of a statement."""
        if not self._accesses(stmt):
            return
        match stmt:
            case For(var, _, kind) if kind in _COPIED and self._moves(var, stmt):
                yield self._chain(stmt)
            case Store():
                raise Refused
            case _:
                for child in sub_statements(stmt):
                    yield from self._chains(child)

    def _moves(self, var: str, stmt: Stmt) -> bool:
        """Whether a loop moves a place in the buffer that is written or read below a statement."""
        return var in self._movers(stmt)

    def _movers(self, stmt: Stmt) -> frozenset[str]:
        """Names in the places below a statement."""
        if id(stmt) not in self._names:
            if isinstance(stmt, Store):
                parts = [index.names() for place in self._places(stmt) for index in place.indices]
            else:
                parts = [self._movers(part) for part in sub_statements(stmt)]
            self._names[id(stmt)] = stmt, frozenset[str]().union(*parts)
        return self._names[id(stmt)][1]

    def _chain(self, stmt: For) -> Chain:
        loops: list[For] = []
        inner: Stmt = stmt
        while isinstance(inner, For) and inner.kind in _COPIED and self._moves(inner.var, inner):
            loops.append(inner)
            inner = inner.body
        vectors = [loop for loop in loops if loop.kind is LoopKind.VECTOR]
        if not isinstance(inner, Store) or vectors != loops[-1:]:
            raise Refused
        places = {self._buffer.flat(at) for at in {place.indices for place in self._places(inner)}}
        if len(places) != 1:
            raise Refused
        return Chain(tuple(loops), inner, places.pop())


def _unrolled_around(stmt: Stmt) -> Iterator[tuple[For, For, bool]]:
    """Unrolled loops around another one, that one, and whether a serial loop repeats both."""
    waiting = [(stmt, False)]
    while waiting:
        found, again = waiting.pop()
        if isinstance(found, For):
            full = found.kind is LoopKind.UNROLLED and found.extent.bound is None
            if full and isinstance(found.body, For):
                yield found, found.body, again
            again = again or found.kind is LoopKind.SERIAL
        waiting += [(part, again) for part in reversed(sub_statements(found))]


def replaced(stmt: Stmt, known: Mapping[int, Stmt]) -> Stmt:
    """The statement with those of known identity replaced."""
    return known[id(stmt)] if id(stmt) in known else with_parts(stmt, lambda s: replaced(s, known))


def nested(loops: Sequence[For], inner: Stmt) -> Stmt:
    """The loops around a statement, outermost first."""
    for loop in reversed(loops):
        inner = replace(loop, body=inner)
    return inner
