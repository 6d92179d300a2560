"""What a nest reads of one operand, and how the fetching of another part of it is spread over innermost loops.

    for i: for j: for k: a[i, j] += x[i, k] * w[j, k]

Here i moves in x by a row, k by an element, j not at all. What one iteration of i reads is used for as long as all of
its innermost loops take, so each of their iterations can ask for its share of what the next one reads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
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

MOST_LINES = 8
"""Lines that come at once: more than a core waits for at a time are not there sooner."""
LEAST_READS = 2
"""Times that what is fetched is read: what is read once is a stream, which hardware follows."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What an iteration fetches: so many lines of a buffer, from a place in elements; `near`: into the first cache."""

    buffer: str
    place: Index
    lines: int
    near: bool = False


Fetch = Callable[[Index, int], list[Ahead]]
"""What brings so many units from one on; a unit is an element, or a row of a slice."""


@dataclass
class Reads(ABC):
    """Of one operand: how far in elements each loop moves in it, and the innermost loops whose iterations fetch.

    The code of an edge knows some of its loops' numbers: all reads together tell what moves.
    """

    buffer: Buffer
    steps: dict[str, int] = field(default_factory=dict)
    loops: set[int] = field(default_factory=set)
    found: dict[int, list[Ahead]] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def read(self, flat: Index) -> None:
        """A read in an innermost loop."""
        steps = {str(name): flat.coefficient(str(name)) for name in flat.names()}
        self.steps.update({name: step for name, step in steps.items() if step})

    def visit(self, stmt: Stmt, start: Index) -> bool:
        """Find the innermost loop whose iterations read what is worth fetching; `start`: where it begins, around it."""
        if not self.count(stmt) or id(stmt) in self.loops:
            return False
        if not repeats(stmt):
            return any(tuple(self.visit(child, start) for child in sub_statements(stmt)))
        step = self.steps.get(stmt.var, 0)
        first = start + Index.of(stmt.var) * step
        return self.visit(stmt.body, first) or (step > 0 and self.fetch(stmt.body, first, step))

    @abstractmethod
    def fetch(self, body: Stmt, first: Index, step: int) -> bool:
        """Have an iteration of a loop fetch what the next one reads, `step` elements further than its own `first`.

        False where a loop further out may do so.
        """

    @abstractmethod
    def elements_of(self, loop: For) -> int:
        """How many elements an innermost loop reads."""

    def elements(self, stmt: Stmt) -> int:
        """Elements that the loops that fetch read, those of each iteration around them."""
        if isinstance(stmt, For) and id(stmt) in self.loops:
            return self.elements_of(stmt)
        counts = [self.elements(child) for child in sub_statements(stmt)]
        total = max(counts) if isinstance(stmt, If) else sum(counts)
        return total * (times(stmt) if isinstance(stmt, For | Let) else 1)

    def count(self, stmt: Stmt) -> int:
        """Iterations of the loops that fetch."""
        if isinstance(stmt, Store):
            return 0
        if (known := self._counts.get(id(stmt))) is None:
            if isinstance(stmt, For) and id(stmt) in self.loops:
                known = stmt.extent.limit
            else:
                counts = [self.count(child) for child in sub_statements(stmt)]
                total = max(counts) if isinstance(stmt, If) else sum(counts)
                known = total * (times(stmt) if isinstance(stmt, For | Let) else 1)
            self._counts[id(stmt)] = known
        return known

    def spread(self, stmt: Stmt, share: Fraction, most: int, fetch: Fetch, done: Index | None = None) -> None:
        """Give each iteration its part of what is fetched while a statement is carried out.

        `share`: units per iteration; `most`: units that come at once, so that a loop further out fetches where its
        iterations need no more; `fetch`: so many units from one on; `done`: units before the statement.
        """
        number = Index() if done is None else done
        match stmt:
            case For(var) if id(stmt) in self.loops:
                self.found[id(stmt)] = fetch(number + _moved(var, share), ceil(share))
            case Block(statements):
                before = 0
                for child in statements:
                    self.spread(child, share, most, fetch, number + int(before * share))
                    before += self.count(child)
            case For(var, _, _, body) | Let(var, _, _, body) if repeats(stmt):
                each = self.count(body) * share
                if 0 < each <= most and is_serial(stmt):
                    self.found[id(stmt)] = fetch(number + _moved(var, each), ceil(each))
                elif each:
                    self.spread(body, share, most, fetch, number + _done(var, times(stmt), each))
            case _:
                for child in sub_statements(stmt):
                    self.spread(child, share, most, fetch, number)


def _moved(var: str, share: Fraction) -> Index:
    """The units before an iteration, cheap to find: each takes its share, or what is the next simple number to it."""
    return (
        Index.of(var) * ceil(share) if share >= 1 else Index.of(var) // 2 ** (int(1 / share).bit_length() - 1)
    )


def _done(var: str, iterations: int, each: Fraction) -> Index:
    """The units before an iteration of a loop around others."""
    whole = ceil(iterations * each)
    return (
        Index.of(var) * (whole // iterations)
        if whole % iterations == 0
        else Index.of(var) * whole // iterations
    )


def innermost(stmt: Stmt, lets: Mapping[str, Index]) -> Iterator[tuple[For, Mapping[str, Index]]]:
    """Serial loops without others inside, and what the names around them stand for."""
    match stmt:
        case For() if is_serial(stmt) and not any(is_serial(s) for s in walk_statements(stmt.body)):
            yield stmt, lets
            return
        case Let(var, value) if value.is_affine():
            lets = {**lets, var: value.substitute(lets)}
        case _:
            pass
    for child in sub_statements(stmt):
        yield from innermost(child, lets)


def places_read(
    loop: For, names: Set[str], buffers: Mapping[str, Buffer], lets: Mapping[str, Index]
) -> Iterator[tuple[str, Index]]:
    """Which of some buffers a loop reads, and the offset in elements where it does."""
    for stmt in walk_statements(loop.body):
        for load in loads(stmt.value) if isinstance(stmt, Store) else ():
            if load.buffer in names:
                yield load.buffer, buffers[load.buffer].flat(load.indices).substitute(lets)


def matrix_products(stmt: Stmt) -> Iterator[Dot]:
    """What instructions on matrices compute in a statement."""
    for s in walk_statements(stmt):
        if (
            isinstance(s, Store)
            and isinstance(s.value, Dot)
            and INSTRUCTIONS[s.value.instruction].takes_matrices
        ):
            yield s.value


def is_serial(stmt: Stmt) -> TypeGuard[For]:
    """Whether it is a loop whose iterations follow each other in the code of one thread."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL


def repeats(stmt: Stmt) -> TypeGuard[For | Let]:
    """Whether it is a loop that runs, or a part of a fused one."""
    match stmt:
        case For(_, _, kind):
            return kind in (LoopKind.SERIAL, LoopKind.PARALLEL)
        case Let(_, value):
            return not value.is_affine()
        case _:
            return False


def times(stmt: For | Let) -> int:
    """How often the body is there or runs."""
    match stmt:
        case For(_, extent):
            return extent.limit
        case Let(_, _, size):
            return size if repeats(stmt) else 1
