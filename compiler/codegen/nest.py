"""A LoopNest as LLVM IR, a module per phase."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from compiler.codegen.ahead import fetched_ahead
from compiler.codegen.emitter import Emitter
from compiler.codegen.entry import Emit, Entry, Walker
from compiler.codegen.grid_entry import GridEntry
from compiler.codegen.linear import Active, Linear
from compiler.codegen.matrices import Matrices, MatrixNest
from compiler.codegen.place import Place, combined
from compiler.codegen.streamed import places_read, streamed_after
from compiler.codegen.team_entry import TeamEntry
from compiler.codegen.types import llvm_type
from compiler.codegen.values import Values
from compiler.codegen.woven import woven_places, woven_rows
from compiler.errors import CompileError
from compiler.loop.count import LOOP_LIMIT
from compiler.loop.in_place import shared
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
    buffers_of,
    walk_statements,
)
from compiler.recent import Recent
from compiler.scalar import Expr, Load, Lookup, loads
from compiler.target import Target

BODY_LIMIT = 60_000
"""Lines of LLVM IR that a kernel may have: beyond it compiling takes seconds and the code misses the cache."""

_COPIED = (LoopKind.VECTOR, LoopKind.UNROLLED)
"""Loops whose iterations follow each other in one block of code."""

_ACCESS = {"input": "readonly ", "constant": "readonly ", "output": "writeonly ", "scratch": ""}


@dataclass(frozen=True, slots=True)
class PhaseModule:
    """The IR of one function, and its name, which follows from the IR: the same code has the same name."""

    symbol: str
    ir: str


_SYMBOL, _DIGITS = "phase", 32
"""What a function is called until its IR is known, and hexadecimal digits of that in its name."""
_RECENT: Recent[bytes, PhaseModule] = Recent(64)
"""Candidates of one Workload have most phases in common: the transforms of an algorithm, copies of an activation."""


def emit_nest(nest: LoopNest, target: Target) -> tuple[PhaseModule, ...]:
    """The IR modules of a nest, one per phase; raises CompileError where the nest cannot be expressed."""
    parts = nest.parts
    return tuple(_known(part, target) for part in parts) if len(parts) > 1 else (_module(nest, target),)


def _known(part: LoopNest, target: Target) -> PhaseModule:
    used = buffers_of(part.body)
    # Nothing is said of the memory behind a pointer that the phase does not use. The text, for the two zeros are equal.
    params = [(buffer.name, buffer.role) for buffer in part.params]
    content = repr((part.body, part.symbols, params, [b for b in part.buffers if b.name in used], target))
    return _RECENT.get(hashlib.sha256(content.encode()).digest(), lambda: _module(part, target))


def _module(part: LoopNest, target: Target) -> PhaseModule:
    entry: Entry = GridEntry(target) if target.grid_threads else TeamEntry(target)
    definitions, own = entry.own_buffers(part)
    phase = _Phase(part, target, own)
    function = phase.function(entry, _SYMBOL)
    attributes = f"attributes #0 = {{ {entry.attributes} }}"
    ir = "\n".join([*sorted(phase.declarations), *definitions, function, attributes]) + "\n"
    symbol = f"k_{hashlib.sha256(ir.encode()).hexdigest()[:_DIGITS]}"
    return PhaseModule(symbol, ir.replace(f"void @{_SYMBOL}(", f"void @{symbol}(", 1))


class _Phase:
    def __init__(self, nest: LoopNest, target: Target, own: Mapping[str, str]) -> None:
        self._nest, self._target = nest, target
        body = nest.body
        # LLVM finds the address space of a pointer that a grid's loop computes, not of one that it carries along.
        self._out = Emitter(carried=not target.grid_threads, indexed=target.indexes_freely)
        self._pointers = {b.name: f"%arg{i}" for i, b in enumerate(nest.params)}
        for pointer in self._pointers.values():
            self._out.starts(pointer)
        self._pointers |= {b.name: self._local(b, target) for b in nest.buffers if b.scope == "local"}
        written = {s.buffer for s in walk_statements(body) if isinstance(s, Store)}
        self._values = Values(self._out, target, nest.by_name, {**self._pointers, **own}, written)
        self._matrices = Matrices(self._out, self._values.indices, self._values.memory, nest.by_name, body)
        self._sizes = {symbol.name: f"%size{i}" for i, symbol in enumerate(nest.symbols)}
        for size in self._sizes.values():
            self._out.starts(size)
        self._ahead = fetched_ahead(body, nest.by_name, target)
        self._stores: dict[int, Place] = {}
        self._apart: dict[int, bool] = {}
        self._on_store: Callable[[Store], None] = self._store
        self._loops = 0

    @property
    def declarations(self) -> set[str]:
        return self._out.declarations

    def _local(self, buffer: Buffer, target: Target) -> str:
        """Memory of this thread, on its stack."""
        return self._out.alloca(f"[{buffer.elements} x {llvm_type(buffer.dtype, 0)}]", target.vector_bytes)

    def function(self, entry: Entry, symbol: str) -> str:
        with ExitStack() as stack:
            for name, ssa in self._sizes.items():
                stack.enter_context(self._values.indices.variable(name, ssa))
            self._matrices.begin_function()
            entry.root(self._walker(), self._nest.body)
            self._matrices.end_function()
        self._out.emit("ret void")
        both = shared(self._nest)
        stores = [s for s in walk_statements(self._nest.body) if isinstance(s, Store)]
        read = {load.buffer for s in stores for load in loads(s.value)}
        access = {
            b.name: "" if b.role == "output" and b.name in read else _ACCESS[b.role or "input"]
            for b in self._nest.params
        }
        params = [
            f"ptr {'' if b.name in both else 'noalias '}nocapture {access[b.name]}{pointer}"
            for b, pointer in ((b, self._pointers[b.name]) for b in self._nest.params)
        ]
        params += [f"i64 {ssa}" for ssa in self._sizes.values()]
        head = f"{entry.head(symbol, params, self._nest.body)} {{\nentry:"
        return "\n".join([head, *self._out.allocas, *self._out.head, *self._out.lines, "}"])

    def _walker(self) -> Walker:
        indices = self._values.indices
        return Walker(self._out, indices, self._statement, self._let, self._if, self._extent)

    def _statement(self, stmt: Stmt) -> None:
        if len(self._out.lines) > BODY_LIMIT:
            msg = f"kernel {self._nest.name} unrolls to more than {BODY_LIMIT} instructions; unroll less"
            raise CompileError(msg)
        match stmt:
            case For():
                self._for(stmt)
            case Let():
                self._let(stmt, self._statement)
            case If():
                self._if(stmt, self._statement)
            case Store():
                self._on_store(stmt)
            case Block():
                self._block(stmt)
            case _:
                assert_never(stmt)

    def _block(self, stmt: Block) -> None:
        place, far = streamed_after(stmt.statements, self._nest.by_name, self._target)
        for number, statement in enumerate(stmt.statements):
            if far and number == place:
                self._fetch(stmt.statements[place + 1 :], partial(places_read, buffers=far))
            if not self._matrices.is_cleared_next(stmt.statements, number):
                if (nest := self._matrices.root(statement)) is not None:
                    self._weave(nest, stmt.statements[number + 1 :])
                self._statement(statement)

    def _weave(self, nest: MatrixNest, after: Sequence[Stmt]) -> None:
        """Have each step of products bring its rows of what follows nearer."""
        places = partial(woven_places, buffers=self._nest.by_name, target=self._target)
        self._matrices.weave(nest, [partial(self._fetch, [row], places) for row in woven_rows(nest, after)])

    def _fetch(
        self, statements: Sequence[Stmt], places: Callable[[Store], Iterable[tuple[Load, bool]]]
    ) -> None:
        """Have places that the statements read or store to brought nearer; they are not carried out."""
        lines: set[tuple[str, Linear]] = set()

        def fetch(stmt: Store) -> None:
            for place, writes in places(stmt):
                self._values.fetch_place(place, lines, writes=writes)

        self._on_store = fetch
        for statement in statements:
            self._statement(statement)
        self._on_store = self._store

    def _for(self, stmt: For) -> None:
        if (whole := self._matrices.root(stmt)) is not None:
            self._matrices.begin(whole)
            self._for(stmt)
            self._matrices.end(whole)
            return
        if (inside := self._matrices.body(stmt)) is not None:
            self._matrices.step(inside)
            return
        match stmt.kind:
            case LoopKind.VECTOR:
                self._vector(stmt)
            case LoopKind.UNROLLED:
                self._unrolled(stmt)
            case LoopKind.SERIAL:
                self._serial(stmt)
            case kind:
                msg = f"loop {stmt.var} is {kind.value}, which {self._target.name} does not carry out at this place"
                raise CompileError(msg)

    def _let(self, stmt: Let, body: Emit) -> None:
        indices = self._values.indices
        linear = indices.linear(stmt.value)
        if linear.lane:
            msg = f"{stmt.var} has a value of its own per lane; a fused loop cannot be a vector"
            raise CompileError(msg)
        number = indices.number(linear, 0)
        known = isinstance(number, int)
        with indices.constant(stmt.var, number) if known else indices.variable(stmt.var, str(number)):  # type: ignore[arg-type]
            body(stmt.body)

    def _extent(self, extent: Extent) -> int | str:
        """Iterations: a number, or an SSA value where a bound depends on a serial loop."""
        if extent.bound is None:
            return extent.limit
        bound = self._values.indices.number(self._values.indices.linear(extent.bound), 0)
        if isinstance(bound, int):
            return max(0, min(extent.limit, bound))
        if extent.bound.names() <= self._sizes.keys():
            return bound  # the limit is what the symbols' ranges make of it
        self._out.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self._out.value(f"call i64 @llvm.smin.i64(i64 {bound}, i64 {extent.limit})")

    def _serial(self, stmt: For) -> None:
        stop = self._extent(stmt.extent)
        if stop == 0:
            return
        self._loops += 1
        if self._loops > LOOP_LIMIT:
            msg = f"kernel {self._nest.name} unrolls to more than {LOOP_LIMIT} loops; unroll less around serial loops"
            raise CompileError(msg)
        runs = isinstance(stop, int)
        with (
            self._out.loop("0", str(stop), runs=runs) as index,
            self._values.indices.variable(stmt.var, index),
        ):
            for ahead in self._ahead.get(id(stmt), ()):
                self._values.fetch(ahead)
            self._statement(stmt.body)

    def _unrolled(self, stmt: For) -> None:
        stop = self._extent(stmt.extent)
        if not isinstance(stop, int):
            msg = f"unrolled loop {stmt.var} has an extent that is only known at run time"
            raise CompileError(msg)
        if (apart := self._apart.get(id(stmt))) is None:
            apart = self._apart[id(stmt)] = _only_combines(stmt)
        copies = self._values.indices.unrolled(stmt.var, stop)
        with self._values.totals.together() if apart else nullcontext():
            match stmt.body:
                case For(_, Extent(lanes, None), LoopKind.VECTOR, body):
                    before = self._values.indices.enter_vector(stmt.body.var, lanes, lanes)
                    self._repeat(body, copies)
                    self._values.indices.leave_vector(before)
                case body:
                    self._repeat(body, copies)

    def _repeat(self, stmt: Stmt, copies: Iterator[None]) -> None:
        if isinstance(stmt, Store):
            for _ in copies:
                self._on_store(stmt)
        else:
            for _ in copies:
                self._statement(stmt)

    def _vector(self, stmt: For) -> None:
        active = self._active(stmt.extent)
        if active:
            indices = self._values.indices
            before = indices.enter_vector(stmt.var, self._lanes(stmt, active), active)
            self._statement(stmt.body)
            indices.leave_vector(before)

    def _active(self, extent: Extent) -> Active:
        """Lanes inside the extent: a number, or an SSA value that lies between 0 and the limit."""
        indices, out = self._values.indices, self._out
        if extent.bound is None:
            return extent.limit
        bound = indices.number(indices.linear(extent.bound), 0)
        if isinstance(bound, int):
            return max(0, min(extent.limit, bound))
        out.declarations |= {"declare i64 @llvm.smin.i64(i64, i64)", "declare i64 @llvm.smax.i64(i64, i64)"}
        most = out.early(f"call i64 @llvm.smin.i64(i64 {bound}, i64 {extent.limit})", bound)
        return out.early(f"call i64 @llvm.smax.i64(i64 {most}, i64 0)", most)

    def _lanes(self, stmt: For, active: Active) -> int:
        """The loop's vector length, or the next that holds its active lanes; vectors in registers keep theirs."""
        lanes = stmt.extent.limit
        if not isinstance(active, int) or active > lanes // 2 or self._in_registers(stmt):
            return lanes
        while lanes // 2 >= max(2, active):
            lanes //= 2
        return lanes

    def _in_registers(self, stmt: For) -> bool:
        accesses = [
            access
            for inner in walk_statements(stmt.body)
            if isinstance(inner, Store)
            for access in (Load(inner.buffer, inner.indices), *loads(inner.value))
        ]
        buffers = self._nest.by_name
        return any(
            buffers[a.buffer].scope == "register" and any(stmt.var in i.names() for i in a.indices)
            for a in accesses
        )

    def _if(self, stmt: If, side: Emit) -> None:
        out, indices = self._out, self._values.indices
        number = indices.number(indices.linear(stmt.condition.index), -stmt.condition.low)
        width = max(0, stmt.condition.high - stmt.condition.low)
        if isinstance(number, int):
            side(stmt.then if 0 <= number < width else stmt.otherwise)
            return
        then, otherwise, merge = out.label("then"), out.label("else"), out.label("merge")
        out.branch_if(out.value(f"icmp ult i64 {number}, {width}"), then, otherwise)
        for label, branch in ((then, stmt.then), (otherwise, stmt.otherwise)):
            out.start_block(label)
            with out.region():
                side(branch)
            out.branch(merge)
        out.start_block(merge)

    def _store_there(self, place: Load, value: Expr) -> None:
        """A store at a place that what is looked up around its value may say."""
        if isinstance(value, Lookup):
            with self._values.looked_up(value):
                self._store_there(place, value.inside)
        else:
            self._values.store(place, self._values.value(value))

    def _store(self, stmt: Store) -> None:
        known = self._stores.get(id(stmt))
        if known is None:
            product = self._values.products.find(stmt) if self._target.has_fma else None
            known = self._stores[id(stmt)] = Place(stmt, product, self._nest.by_name[stmt.buffer].dtype)
        if known.product is not None and self._values.products.add(known.product):
            return
        if known.term is not None:
            if known.op == "add" and self._values.vanishes(known.term):
                return
            if self._values.same_in_all_lanes(known.place):
                self._values.combine_lanes(known.op, known.place, known.term)
                return
        if known.is_looked_up:
            self._store_there(known.place, stmt.value)
        elif not self._values.begin_total(known.place, known.value):
            self._values.store(known.place, self._values.value(known.value))


def _only_combines(loop: For) -> bool:
    """Whether the loop combines elements with others, each of them in one iteration, and reads nothing else of them.

    What a serial loop or one side of a test computes is not known behind it.
    """
    inside = [loop, *walk_statements(loop.body)]
    if any(isinstance(s, If) or (isinstance(s, For) and s.kind not in _COPIED) for s in inside):
        return False
    copied = {s.var for s in inside if isinstance(s, For) and s.kind is LoopKind.UNROLLED}
    stores = [s for s in inside if isinstance(s, Store)]
    written = {store.buffer for store in stores}
    terms = [combined(store.value, Load(store.buffer, store.indices))[1] for store in stores]
    return all(
        not any(load.buffer in written for load in loads(term or store.value))
        and (term is not None or copied <= {n for index in store.indices for n in index.names()})
        for store, term in zip(stores, terms, strict=True)
    )
