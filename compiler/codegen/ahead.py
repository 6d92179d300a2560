"""Fetching ahead: while tiles read one panel of a packed constant, the next one comes nearer.

    for p: for rows: for k: a[rows, p] += x[rows, k] * panels[p, k]
    →  for p: for rows: for k: prefetch panels[p + 1, its part for these rows and k]; a[rows, p] += ...

Each iteration asks for its share of the next panel, so that it arrives evenly under the arithmetic. Hardware follows a
stream only while it is read, which would be when all of it is needed at once: at the first tile of the next panel.
Worth an instruction where the panels together are too large for the second cache and each is read several times.

What is read once is a stream, which hardware follows far enough for vectors. Instructions on matrices use it up faster
where the data is in the first cache, for windows share it: each iteration of theirs asks for what is `STREAM` bytes
further on, into that cache. Where data comes from the second one, that would be in its way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeGuard

from compiler.index import Index
from compiler.instruction import INSTRUCTIONS
from compiler.loop.ir import (
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopKind,
    Stmt,
    Store,
    sub_statements,
    walk_statements,
)
from compiler.scalar import Dot, loads
from compiler.target import LINE_BYTES, Target

MOST_LINES, MOST_OF_MATRICES = 8, 32
"""Lines that one iteration may ask for: more at a time than a core waits for at once are not there sooner. The second
of matrices, whose iterations take longer."""
LEAST_PANEL = 4096
"""Bytes of a panel below which hardware has caught up before it matters."""
STREAM = 8192
"""Bytes between what matrices read of a stream and what is fetched; from 4096 to 12288 it made no difference."""
LEAST_READS = 2
"""Times that a panel is read: what is read once is a stream that hardware follows."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What an iteration fetches: so many lines of a buffer, from a place in elements; `near`: into the first cache."""

    buffer: str
    place: Index
    lines: int
    near: bool = False


def fetched_ahead(body: Stmt, buffers: Mapping[str, Buffer], target: Target) -> dict[int, Ahead]:
    """By the identity of an innermost serial loop, what each of its iterations fetches."""
    limit = target.l2_bytes // 2
    large = {
        b.name: _Panels(b)
        for b in buffers.values()
        if b.packing is not None and b.elements * b.dtype.size_bytes > limit
    }
    if not large or target.grid_threads:
        return {}
    for loop, lets in _innermost(body, {}):
        for name, flat in _reads(loop, large.keys(), buffers, lets):
            large[name].read(loop, flat)
    found: dict[int, Ahead] = {}
    for panels in large.values():
        if not panels.visit(body, Index()):
            panels.stream(body, Index())
        found = {**panels.found, **found}
    return found


def _innermost(stmt: Stmt, lets: Mapping[str, Index]) -> Iterator[tuple[For, Mapping[str, Index]]]:
    """Serial loops without others inside, and what the names around them stand for."""
    match stmt:
        case For(_, _, LoopKind.SERIAL, body) if not any(_is_serial(s) for s in walk_statements(body)):
            yield stmt, lets
            return
        case Let(var, value) if value.is_affine():
            lets = {**lets, var: value.substitute(lets)}
        case _:
            pass
    for child in sub_statements(stmt):
        yield from _innermost(child, lets)


def _is_serial(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL


def _reads(
    loop: For, names: Set[str], buffers: Mapping[str, Buffer], lets: Mapping[str, Index]
) -> Iterator[tuple[str, Index]]:
    for stmt in walk_statements(loop.body):
        for load in loads(stmt.value) if isinstance(stmt, Store) else ():
            if load.buffer in names:
                yield load.buffer, buffers[load.buffer].flat(load.indices).substitute(lets)


@dataclass
class _Panels:
    """One packed constant: the loops that read it, and how far in elements each loop moves in it.

    The code of an edge knows some of its loops' numbers: all reads together tell what moves.
    """

    buffer: Buffer
    steps: dict[str, int] = field(default_factory=dict)
    loops: set[int] = field(default_factory=set)
    found: dict[int, Ahead] = field(default_factory=dict)

    def read(self, loop: For, flat: Index) -> None:
        """A read in an innermost loop."""
        self.loops.add(id(loop))
        steps = {str(name): flat.coefficient(str(name)) for name in flat.names()}
        self.steps.update({name: step for name, step in steps.items() if step})

    def visit(self, stmt: Stmt, start: Index) -> bool:
        """Find the innermost loop whose iterations read a panel several times; `start` is the panel's, around it."""
        if not _repeats(stmt):
            return any(tuple(self.visit(child, start) for child in sub_statements(stmt)))
        step = self.steps.get(stmt.var, 0)
        first = start + Index.of(stmt.var) * step
        if self.visit(stmt.body, first):
            return True
        if not step or self._count(stmt.body, elements=True) < LEAST_READS * step:
            return False
        size, iterations = self.buffer.dtype.size_bytes, self._count(stmt.body, elements=False)
        lines = -(-step * size // (iterations * LINE_BYTES))
        most = MOST_LINES if next(_matrix_products(stmt), None) is None else MOST_OF_MATRICES
        if step * size >= LEAST_PANEL and lines <= most:
            self._share(stmt.body, first + step, step / iterations, lines)
        return True

    def stream(self, stmt: Stmt, start: Index) -> None:
        """Have matrices that read all of it once fetch it; `start`: of what the loops around read."""
        if _repeats(stmt):
            step = self.steps.get(stmt.var, 0)
            start += Index.of(stmt.var) * step
            if id(stmt) in self.loops and any(map(self._has_windows, _matrix_products(stmt))):
                size = self.buffer.dtype.size_bytes
                lines = step * size // LINE_BYTES
                self.found[id(stmt)] = Ahead(self.buffer.name, start + STREAM // size, lines, near=True)
                return
        for child in sub_statements(stmt):
            self.stream(child, start)

    def _has_windows(self, dot: Dot) -> bool:
        """Whether products along the sum have data in common: an index of it moves with the constant and without."""
        moves = ([bool(self.steps.get(name)) for name in i.names()] for i in dot.left.indices)
        return any(True in along and False in along for along in moves)

    def _count(self, stmt: Stmt, *, elements: bool) -> int:
        """Iterations of the loops that read, or elements that they read."""
        if isinstance(stmt, For) and id(stmt) in self.loops:
            return stmt.extent.limit * (self.steps.get(stmt.var, 0) if elements else 1)
        counts = [self._count(child, elements=elements) for child in sub_statements(stmt)]
        if isinstance(stmt, If):
            return max(counts)
        return sum(counts) * (_times(stmt) if isinstance(stmt, For | Let) else 1)

    def _share(self, stmt: Stmt, place: Index, share: float, lines: int) -> None:
        """Give each iteration its part of a panel; `share`: elements per iteration."""
        match stmt:
            case For(var) if id(stmt) in self.loops:
                self.found[id(stmt)] = Ahead(self.buffer.name, place + Index.of(var) * int(share), lines)
            case Block(statements):
                before = 0
                for child in statements:
                    self._share(child, place + int(before * share), share, lines)
                    before += self._count(child, elements=False)
            case For(var, _, _, body) | Let(var, _, _, body) if _repeats(stmt):
                each = int(self._count(body, elements=False) * share)
                self._share(body, place + Index.of(var) * each, share, lines)
            case _:
                for child in sub_statements(stmt):
                    self._share(child, place, share, lines)


def _matrix_products(loop: Stmt) -> Iterator[Dot]:
    """What instructions on matrices compute in a loop."""
    for s in walk_statements(loop):
        if (
            isinstance(s, Store)
            and isinstance(s.value, Dot)
            and INSTRUCTIONS[s.value.instruction].takes_matrices
        ):
            yield s.value


def _repeats(stmt: Stmt) -> TypeGuard[For | Let]:
    """Whether it is a loop that runs, or a part of a fused one."""
    match stmt:
        case For(_, _, kind):
            return kind in (LoopKind.SERIAL, LoopKind.PARALLEL)
        case Let(_, value):
            return not value.is_affine()
        case _:
            return False


def _times(stmt: For | Let) -> int:
    """How often the body is there or runs."""
    match stmt:
        case For(_, extent):
            return extent.limit
        case Let(_, _, size):
            return size if _repeats(stmt) else 1
