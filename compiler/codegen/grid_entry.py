"""Entering a phase on a GPU: a grid of blocks runs it, and each of their threads finds its own iterations.

    block loops, outermost, at most 3           an iteration per block
    thread loops directly inside, at most 3     an iteration per thread of the block; threads beyond the extent rest
    what has no thread loop                     is carried out by thread 0
    between two statements of a block           its threads meet at a barrier

The innermost loop of each kind is dimension x. The grid must be launched as `launch` says; the function says itself how
many threads a block has. Buffers that a block computes for its threads live in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from compiler.codegen.entry import Emit, Walker
from compiler.codegen.types import llvm_type
from compiler.errors import CompileError
from compiler.loop.ir import (
    MAX_GRID_DIMENSIONS,
    Block,
    Buffer,
    Extent,
    For,
    If,
    Let,
    LoopKind,
    LoopNest,
    Stmt,
    sub_statements,
    walk_statements,
)
from compiler.loop.promote import local_bytes
from compiler.target import Target

_DIMENSIONS = "xyz"
_REGISTERS = {LoopKind.BLOCK: "ctaid", LoopKind.THREAD: "tid"}
"""PTX's special register that holds a caller's number, per kind of loop."""
_BARRIER = "@llvm.nvvm.barrier.cta.sync.aligned.all"
LOCAL_LIMIT = 512 << 10
"""Bytes of its own that a thread may have, on every GPU so far."""
_SHARED_MEMORY = 3
"""LLVM's number of the address space."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a phase is started: blocks of the grid and threads of a block, both in dimensions x, y, z."""

    blocks: tuple[int, ...]
    threads: tuple[int, ...]


def launch(body: Stmt) -> Launch:
    """The grid of a phase: an iteration per block, and as many threads as any statement of a block needs."""
    return Launch(_sizes(body, LoopKind.BLOCK), _sizes(body, LoopKind.THREAD))


class GridEntry:
    """Functions that a GPU starts, `void SYMBOL(pointers ...)`."""

    def __init__(self, target: Target) -> None:
        """Threads of a block may not be told apart by a change that LLVM makes: convergent."""
        self._target = target
        self.attributes = 'convergent nounwind "no-trapping-math"="true"'

    def own_buffers(self, nest: LoopNest) -> tuple[list[str], Mapping[str, str]]:
        """Shared buffers as variables of the module."""
        shared = [b for b in nest.buffers if b.scope == "shared"]
        needed = sum(b.elements * b.dtype.size_bytes for b in shared)
        if needed > self._target.l1_bytes:
            msg = (
                f"kernel {nest.name} shares {needed} bytes in a block, {self._target.name} has "
                f"{self._target.l1_bytes}; compute smaller tiles"
            )
            raise CompileError(msg)
        if local_bytes(nest) > LOCAL_LIMIT:
            msg = (
                f"kernel {nest.name} needs {local_bytes(nest)} bytes of local buffers in every thread, which may have "
                f"{LOCAL_LIMIT}; attach its stages at an inner loop"
            )
            raise CompileError(msg)
        place = f"addrspace({_SHARED_MEMORY})"
        names = {b.name: f"@shared_{b.name}" for b in shared}
        lines = [f"{names[b.name]} = internal {place} global {_array(b)} undef, align 16" for b in shared]
        return lines, {n: f"addrspacecast (ptr {place} {at} to ptr)" for n, at in names.items()}

    def head(self, symbol: str, params: Sequence[str], body: Stmt) -> str:
        """The pointers alone, and the size of a block."""
        threads = launch(body).threads
        if prod(threads) > self._target.grid_threads:
            msg = (
                f"kernel {symbol} needs {prod(threads)} threads in a block, {self._target.name} has "
                f"{self._target.grid_threads}; bind smaller loops"
            )
            raise CompileError(msg)
        size = ",".join(map(str, threads))
        return f'define ptx_kernel void @{symbol}({", ".join(params)}) #0 "nvvm.reqntid"="{size}"'

    def root(self, walker: Walker, body: Stmt) -> None:
        """The iterations of this block, and in them those of this thread."""
        _Grid(walker, body).phase(body)


class _Grid:
    """Emits one phase. A loop's dimension is the number of loops of its kind that stand inside it."""

    def __init__(self, walker: Walker, body: Stmt) -> None:
        self._walker, self._out = walker, walker.out
        self._sizes = {kind: _sizes(body, kind) for kind in _REGISTERS}
        self._numbers = {
            (kind, dimension): self._out.value(
                f"zext i32 {self._special_register(name, dimension)} to i64", name
            )
            for kind, name in _REGISTERS.items()
            for dimension, size in enumerate(self._sizes[kind])
            if size > 1
        }

    def phase(self, body: Stmt) -> None:
        self._spread(body, LoopKind.BLOCK, MAX_GRID_DIMENSIONS, self._together)

    def _together(self, stmt: Stmt) -> None:
        """What all threads of a block come to: nothing here depends on the thread."""
        match stmt:
            case Let():
                self._walker.let(stmt, self._together)
            case If():
                self._walker.branch(stmt, self._together)
            case Block(statements):
                for place, statement in enumerate(statements):
                    if place:
                        self._barrier()
                    self._together(statement)
            case _:
                self._spread(stmt, LoopKind.THREAD, MAX_GRID_DIMENSIONS, self._walker.statement)

    def _spread(self, stmt: Stmt, kind: LoopKind, dimensions: int, inside: Emit) -> None:
        """Each loop of the kind becomes one iteration; where there are fewer than dimensions, the rest is 0."""
        own = _depth(stmt, kind)
        if own < dimensions:
            with self._only(Extent(1), kind, dimensions - 1):
                self._spread(stmt, kind, dimensions - 1, inside)
            return
        if own == 0:
            inside(stmt)
            return

        def spread(inner: Stmt) -> None:
            self._spread(inner, kind, dimensions, inside)

        match stmt:
            case For(var, extent, k, body) if k is kind:
                with self._only(extent, kind, own - 1) as index, self._walker.indices.variable(var, index):
                    self._spread(body, kind, own - 1, inside)
            case Let():
                self._walker.let(stmt, spread)
            case If():
                self._walker.branch(stmt, spread)
            case _:
                msg = f"something stands between two {kind.value} loops; compute it outside or inside both"
                raise CompileError(msg)

    @contextmanager
    def _only(self, extent: Extent, kind: LoopKind, dimension: int) -> Iterator[str]:
        """This caller's number in a dimension; what follows is for the numbers below the extent."""
        index = self._numbers.get((kind, dimension), "0")
        stop = self._walker.extent(extent)
        if stop == self._sizes[kind][dimension]:
            yield index
            return
        then, merge = self._out.label("mine"), self._out.label("rest")
        self._out.branch_if(self._out.value(f"icmp slt i64 {index}, {stop}"), then, merge)
        self._out.start_block(then)
        with self._out.region():
            yield index
        self._out.branch(merge)
        self._out.start_block(merge)

    def _special_register(self, name: str, dimension: int) -> str:
        function = f"@llvm.nvvm.read.ptx.sreg.{name}.{_DIMENSIONS[dimension]}"
        self._out.declarations.add(f"declare i32 {function}()")
        return self._out.value(f"call i32 {function}()", name)

    def _barrier(self) -> None:
        self._out.declarations.add(f"declare void {_BARRIER}(i32)")
        self._out.emit(f"call void {_BARRIER}(i32 0)")


def _sizes(body: Stmt, kind: LoopKind) -> tuple[int, ...]:
    """The largest extent of each dimension's loops, 1 where there are none."""
    sizes = [1] * MAX_GRID_DIMENSIONS
    for stmt in walk_statements(body):
        if isinstance(stmt, For) and stmt.kind is kind:
            dimension = _depth(stmt, kind) - 1
            sizes[dimension] = max(sizes[dimension], stmt.extent.limit)
    return tuple(sizes)


def _depth(stmt: Stmt, kind: LoopKind) -> int:
    """How many loops of the kind stand inside each other here."""
    own = isinstance(stmt, For) and stmt.kind is kind
    return own + max((_depth(inner, kind) for inner in sub_statements(stmt)), default=0)


def _array(buffer: Buffer) -> str:
    return f"[{buffer.elements} x {llvm_type(buffer.dtype, 0)}]"
