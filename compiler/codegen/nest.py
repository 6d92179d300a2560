"""A LoopNest as the LLVM IR of one function."""

from __future__ import annotations

from typing import assert_never

from compiler.codegen.emitter import Emitter
from compiler.codegen.kernel import phase_symbol
from compiler.codegen.types import llvm_type
from compiler.codegen.values import Values
from compiler.errors import CompileError
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
    walk_statements,
)
from compiler.loop.promote import local_bytes
from compiler.scalar import Apply, Load, loads
from compiler.target import Target

BODY_LIMIT = 60_000
"""Lines of LLVM IR that a kernel may have: beyond it compiling takes seconds and the code misses the cache."""


_ACCESS = {"input": "readonly ", "constant": "readonly ", "output": "writeonly ", "scratch": ""}


def emit_nest(nest: LoopNest, target: Target) -> str:
    """The IR module of a nest, a function per phase; raises CompileError where the nest cannot be expressed."""
    limit = target.l2_bytes // 2
    if local_bytes(nest) > limit:
        msg = f"kernel {nest.name} needs {local_bytes(nest)} bytes of local buffers, {target.name} has {limit} for them"
        raise CompileError(msg + "; attach its stages at an inner loop")
    emitted = [(_Phase(nest, target, body), body) for body in nest.phases]
    functions = [phase.function(phase_symbol(nest.name, i), body) for i, (phase, body) in enumerate(emitted)]
    declarations = sorted({line for phase, _ in emitted for line in phase.declarations})
    vector_bits = 8 * target.vector_bytes
    attributes = (
        'attributes #0 = { nounwind "no-trapping-math"="true" '
        f'"prefer-vector-width"="{vector_bits}" "min-legal-vector-width"="{vector_bits}" }}'
    )
    return "\n".join([*declarations, *functions, attributes]) + "\n"


class _Phase:
    def __init__(self, nest: LoopNest, target: Target, body: Stmt) -> None:
        self._nest = nest
        self._out = Emitter()
        self._pointers = {b.name: f"%p{i}" for i, b in enumerate(nest.params)}
        self._pointers |= {b.name: self._local(b, target) for b in nest.buffers if b.scope == "local"}
        written = {s.buffer for s in walk_statements(body) if isinstance(s, Store)}
        self._values = Values(self._out, target, nest.by_name, self._pointers, written)
        self._stores: dict[int, tuple[Store, Load]] = {}

    @property
    def declarations(self) -> set[str]:
        return self._out.declarations

    def _local(self, buffer: Buffer, target: Target) -> str:
        """Memory of this thread, on its stack."""
        count = buffer.strides[0] * buffer.shape[0] if buffer.shape else 1
        return self._out.alloca(f"[{count} x {llvm_type(buffer.dtype, 0)}]", target.vector_bytes)

    def function(self, symbol: str, body: Stmt) -> str:
        self._root(body)
        self._out.emit("ret void")
        params = ", ".join(
            f"ptr noalias nocapture {_ACCESS[b.role or 'input']}{self._pointers[b.name]}"
            for b in self._nest.params
        )
        head = f"define void @{symbol}({params}, i64 %begin, i64 %end) #0 {{\nentry:"
        return "\n".join([head, *self._out.allocas, *self._out.lines, "}"])

    def _root(self, body: Stmt) -> None:
        """The parallel loop over this caller's share; without one, the whole body belongs to share 0."""
        if isinstance(body, For) and body.kind is LoopKind.PARALLEL:
            var, inner = body.var, body.body
        else:
            var, inner = "", body
        with self._out.loop("%begin", "%end", runs=False) as index, self._values.indices.variable(var, index):
            self._statement(inner)

    def _statement(self, stmt: Stmt) -> None:
        if len(self._out.lines) > BODY_LIMIT:
            msg = f"kernel {self._nest.name} unrolls to more than {BODY_LIMIT} instructions; unroll less"
            raise CompileError(msg)
        match stmt:
            case For():
                self._for(stmt)
            case Let():
                self._let(stmt)
            case If():
                self._if(stmt)
            case Store():
                self._store(stmt)
            case Block(statements):
                for statement in statements:
                    self._statement(statement)
            case _:
                assert_never(stmt)

    def _for(self, stmt: For) -> None:
        match stmt.kind:
            case LoopKind.SERIAL:
                self._serial(stmt)
            case LoopKind.UNROLLED:
                self._unrolled(stmt)
            case LoopKind.VECTOR:
                self._vector(stmt)
            case kind:
                msg = f"loop {stmt.var} is {kind.value}, which the CPU code generator takes at the root only"
                raise CompileError(msg)

    def _let(self, stmt: Let) -> None:
        indices = self._values.indices
        number = indices.number(indices.linear(stmt.value), 0)
        known = isinstance(number, int)
        with indices.constant(stmt.var, number) if known else indices.variable(stmt.var, str(number)):  # type: ignore[arg-type]
            self._statement(stmt.body)

    def _extent(self, extent: Extent) -> int | str:
        """Iterations: a number, or an SSA value where a bound depends on a serial loop."""
        if extent.bound is None:
            return extent.limit
        bound = self._values.indices.number(self._values.indices.linear(extent.bound), 0)
        if isinstance(bound, int):
            return max(0, min(extent.limit, bound))
        self._out.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self._out.value(f"call i64 @llvm.smin.i64(i64 {bound}, i64 {extent.limit})")

    def _serial(self, stmt: For) -> None:
        stop = self._extent(stmt.extent)
        if stop == 0:
            return
        runs = isinstance(stop, int)
        with (
            self._out.loop("0", str(stop), runs=runs) as index,
            self._values.indices.variable(stmt.var, index),
        ):
            self._statement(stmt.body)

    def _unrolled(self, stmt: For) -> None:
        stop = self._extent(stmt.extent)
        if not isinstance(stop, int):
            msg = f"unrolled loop {stmt.var} has an extent that is only known at run time"
            raise CompileError(msg)
        for value in range(stop):
            with self._values.indices.constant(stmt.var, value, stop):
                self._statement(stmt.body)

    def _vector(self, stmt: For) -> None:
        active = self._extent(stmt.extent)
        if not isinstance(active, int):
            msg = f"vector loop {stmt.var} has an extent that is only known at run time"
            raise CompileError(msg)
        if active:
            with self._values.indices.vector(stmt.var, self._lanes(stmt, active), active):
                self._statement(stmt.body)

    def _lanes(self, stmt: For, active: int) -> int:
        """The loop's vector length, or the next that holds its active lanes; vectors in registers keep theirs."""
        lanes = stmt.extent.limit
        if active > lanes // 2 or self._in_registers(stmt):
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

    def _if(self, stmt: If) -> None:
        out, indices = self._out, self._values.indices
        number = indices.number(indices.linear(stmt.condition.index), -stmt.condition.low)
        width = stmt.condition.high - stmt.condition.low
        if isinstance(number, int):
            self._statement(stmt.then if 0 <= number < width else stmt.otherwise)
            return
        then, otherwise, merge = out.label("then"), out.label("else"), out.label("merge")
        out.branch_if(out.value(f"icmp ult i64 {number}, {width}"), then, otherwise)
        for label, branch in ((then, stmt.then), (otherwise, stmt.otherwise)):
            out.start_block(label)
            with out.region():
                self._statement(branch)
            out.branch(merge)
        out.start_block(merge)

    def _store(self, stmt: Store) -> None:
        _, place = self._stores.setdefault(id(stmt), (stmt, Load(stmt.buffer, stmt.indices)))
        match stmt.value:
            case Apply(op, (Load() as old, term)) if old == place and self._values.same_in_all_lanes(place):
                self._values.combine_lanes(op, place, term)
            case _:
                self._values.store(place, self._values.value(stmt.value))
