"""The loop nest: a Workload with all decisions made, ready to become machine code.

    nest    ::= LoopNest(name, buffers, body, symbols)
    stmt    ::= For(var, extent, kind, body)        var runs over 0 .. extent - 1
              | Let(var, value, extent, body)       a name for an index that lies in 0 .. extent - 1
              | If(condition, then, otherwise)      condition: a Bound on an index
              | Store(buffer, indices, value)       value: a scalar expression over the buffers
              | Block(statements)
    extent  ::= Extent(limit, bound)                max(0, min(limit, bound)); without a bound just the limit
    kind    ::= serial | parallel | vector | unrolled | pipelined | block | thread
    scope   ::= global | shared | local | register  where a buffer lives

A global buffer is the caller's, shared by all threads. A local buffer is memory of one thread (its stack): it holds
values only between a store and a load in the same iteration of the loops around both. A register buffer is a local one
whose every access is at a constant place, so that it needs no memory. A CPU uses serial, parallel, vector and unrolled
loops, and global, local and register buffers; block, thread and shared are for GPUs. A vector loop's limit is the
vector length; where its extent is smaller the rest of the lanes is masked. Pipelined loops beside each other become a
serial one (compiler/loop/software_pipeline.py).

An extent may depend on symbols, whose values a kernel gets when it runs; so may the dimensions of a global buffer, and
its strides are then products. Where the bound has symbols only, the limit is the largest value that their ranges allow.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal, Union, assert_never

from compiler.dtype import DType
from compiler.index import Atom, Index
from compiler.packing import Packing, Role
from compiler.scalar import Bound, Expr, loads
from compiler.symbol import Size, Symbol, as_size, product, row_major, size_at


class LoopKind(enum.StrEnum):
    """How the iterations of a loop are carried out."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTOR = "vector"
    UNROLLED = "unrolled"
    PIPELINED = "pipelined"
    BLOCK = "block"
    THREAD = "thread"


ROOT_KINDS = (LoopKind.PARALLEL, LoopKind.BLOCK)
"""Kinds that share the iterations of a phase's outermost loop out: over a team of threads, over a grid."""
MAX_GRID_DIMENSIONS = 3
"""Block loops that a stage may have, and thread loops."""

Scope = Literal["global", "shared", "local", "register"]


@dataclass(frozen=True, slots=True)
class Extent:
    """`max(0, min(limit, bound))`: the bound is there only where a tile does not divide its extent."""

    limit: int
    bound: Index | None = None

    @property
    def whole(self) -> Index:
        """The trip count of a loop that is as long as its bound, where there is one."""
        return Index.of(self.limit) if self.bound is None else self.bound

    def substitute(self, bindings: Mapping[str, Index]) -> Extent:
        """Replace names in the bound."""
        if self.bound is None:
            return self
        bound = self.bound.substitute(bindings)
        return self if bound is self.bound else extent(self.limit, bound)

    def __str__(self) -> str:
        return str(self.limit) if self.bound is None else f"min({self.limit}, {self.bound})"


def extent(limit: int, bound: Index | None = None) -> Extent:
    """An Extent with a constant bound folded into the limit."""
    value = None if bound is None else bound.constant
    if value is None:
        return Extent(limit, bound)
    return Extent(limit) if value >= limit else Extent(limit, Index.of(max(0, value)))


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a nest reads or writes; `role` is None for buffers of its own."""

    name: str
    shape: tuple[Size, ...]
    dtype: DType
    scope: Scope = "global"
    role: Role | None = None
    packing: Packing | None = None

    @property
    def strides(self) -> tuple[Size, ...]:
        """Row-major strides in elements."""
        return row_major(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements; raises InputError where it depends on symbols."""
        return size_at(product(Index.of(size) for size in self.shape), {})

    def flat(self, indices: tuple[Index, ...]) -> Index:
        """Offset in elements of the element at these indices."""
        terms: list[tuple[Atom, int]] = []
        const = 0
        for index, stride in zip(indices, self.strides, strict=True):
            place = index * stride if isinstance(stride, int) else index.times(stride)
            terms += place.terms
            const += place.const
        return Index.sum(terms, const)


@dataclass(frozen=True, slots=True)
class For:
    """A loop."""

    var: str
    extent: Extent
    kind: LoopKind
    body: Stmt


@dataclass(frozen=True, slots=True)
class Let:
    """A name for an index; `bound`: what it stays below in truth, where that is over symbols."""

    var: str
    value: Index
    extent: int
    body: Stmt
    bound: Index | None = None


@dataclass(frozen=True, slots=True)
class If:
    """A test on an index."""

    condition: Bound
    then: Stmt
    otherwise: Stmt


@dataclass(frozen=True, slots=True)
class Store:
    """One element is written; its indices may name what Lookups at the root of the value have found."""

    buffer: str
    indices: tuple[Index, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other."""

    statements: tuple[Stmt, ...]


Stmt = Union[For, Let, If, Store, Block]


@dataclass(frozen=True)
class LoopNest:
    """A whole kernel: one phase, or several, whose outermost loops are parallel or over blocks."""

    name: str
    buffers: tuple[Buffer, ...]
    body: Stmt
    symbols: tuple[Symbol, ...] = ()

    @property
    def by_name(self) -> dict[str, Buffer]:
        """Buffers by name."""
        return {b.name: b for b in self.buffers}

    @property
    def params(self) -> tuple[Buffer, ...]:
        """Buffers that the caller owns, in the order of the kernel's pointers."""
        return tuple(b for b in self.buffers if b.role is not None)

    @property
    def phases(self) -> tuple[Stmt, ...]:
        """Parts that run one after the other, each shared out over the team or grid by its own outermost loop."""
        roots = self.body.statements if isinstance(self.body, Block) else (self.body,)
        shared = all(isinstance(root, For) and root.kind in ROOT_KINDS for root in roots)
        return roots if shared else (self.body,)

    @property
    def parts(self) -> tuple[LoopNest, ...]:
        """Each phase as a nest: all params, and of the other buffers those that it uses."""
        if len(self.phases) == 1:
            return (self,)
        used = [buffers_of(phase) for phase in self.phases]
        return tuple(
            replace(self, body=p, buffers=tuple(b for b in self.buffers if b.role is not None or b.name in u))
            for p, u in zip(self.phases, used, strict=True)
        )

    @property
    def parallel_extents(self) -> tuple[Size, ...]:
        """Iterations of the parallel loop of each phase, 1 where there is none."""
        return tuple(
            _iterations(p.extent) if isinstance(p, For) and p.kind is LoopKind.PARALLEL else 1
            for p in self.phases
        )


def _iterations(size: Extent) -> Size:
    return size.limit if size.bound is None else as_size(size.bound)


def block(*statements: Stmt) -> Stmt:
    """The statements as one, without nested or one-element Blocks."""
    flat: list[Stmt] = []
    for statement in statements:
        flat += statement.statements if isinstance(statement, Block) else (statement,)
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def sub_statements(stmt: Stmt) -> tuple[Stmt, ...]:
    """Direct sub-statements."""
    # Passes ask for them a thousand times per nest: tests of a type are several times as fast as patterns.
    if isinstance(stmt, Store):
        return ()
    if isinstance(stmt, Block):
        return stmt.statements
    if isinstance(stmt, If):
        return (stmt.then, stmt.otherwise)
    return (stmt.body,)


def with_parts(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """The statement with its direct sub-statements changed; the same object where none is."""
    match stmt:
        case Store():
            return stmt
        case For(var, extent, kind, body):
            new = change(body)
            return stmt if new is body else For(var, extent, kind, new)
        case Let(body=body):
            new = change(body)
            return stmt if new is body else replace(stmt, body=new)
        case If(condition, then, otherwise):
            a, b = change(then), change(otherwise)
            return stmt if a is then and b is otherwise else If(condition, a, b)
        case Block(statements):
            parts = [change(part) for part in statements]
            return stmt if all(map(is_, parts, statements)) else block(*parts)
        case _:
            assert_never(stmt)


def walk_statements(stmt: Stmt) -> Iterator[Stmt]:
    """The statement and all below it, parents first."""
    waiting = [stmt]
    while waiting:
        found = waiting.pop()
        yield found
        if isinstance(found, For):
            waiting.append(found.body)
        elif not isinstance(found, Store):
            waiting += reversed(sub_statements(found))


def buffers_of(stmt: Stmt) -> set[str]:
    """Names of the buffers that a statement reads or writes."""
    stores = [inner for inner in walk_statements(stmt) if isinstance(inner, Store)]
    return {s.buffer for s in stores} | {load.buffer for s in stores for load in loads(s.value)}
