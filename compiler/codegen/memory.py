"""Loads and stores: vectors, masked at edges, from memory; registers as stack slots that LLVM promotes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices, LaneDependent, Linear
from compiler.codegen.transpose import transpose
from compiler.codegen.types import Value, llvm_type, suffix
from compiler.errors import CompileError
from compiler.loop.ir import Buffer
from compiler.scalar import Load


class Memory:
    """Emits accesses. `pointers`: SSA name of each global buffer."""

    def __init__(self, out: Emitter, indices: Indices, pointers: Mapping[str, str]) -> None:
        """Start without slots."""
        self._out, self._indices, self._pointers = out, indices, pointers
        self._slots: dict[tuple[str, int, int], str] = {}
        self._linear: dict[int, tuple[Load, Linear]] = {}

    def flat(self, load: Load, buffer: Buffer) -> Linear:
        """The offset in elements; the flattened expression is made once per load, however often it is unrolled.

        Raises LaneDependent where the lanes have no common form.
        """
        known = self._linear.get(id(load))
        if known is None:
            known = (load, self._indices.prepare(buffer.flat(load.indices)))
            self._linear[id(load)] = known
        return self._indices.resolve(known[1])

    def is_fixed(self, load: Load, buffer: Buffer) -> bool:
        """Whether the lanes of the vector loop all address one element."""
        try:
            return self.flat(load, buffer).lane == 0
        except LaneDependent:
            return False

    def load(self, buffer: Buffer, linear: Linear) -> Value:
        """One element, or a vector where the offset moves by one from lane to lane."""
        lanes = self._indices.lanes if linear.lane else 0
        kind = llvm_type(buffer.dtype, lanes)
        if buffer.scope == "register":
            slot = self._slot(buffer, linear, lanes)
            return Value(self._out.read_slot(slot, kind, _slot_align(buffer, lanes)), buffer.dtype, lanes)
        if buffer.role not in ("input", "constant"):
            return Value(self._load_memory(buffer, linear, lanes), buffer.dtype, lanes)
        key = ("load", buffer.name, linear, self._indices.active)
        known = self._out.remembered(key)
        if known is None:
            known = self._out.remember(key, self._load_memory(buffer, linear, lanes))
        return Value(known, buffer.dtype, lanes)

    def load_transposed(self, load: Load, buffer: Buffer, linear: Linear) -> Value | None:
        """A vector whose lanes are far apart, as a column of a block that is read by rows; None where there is none."""
        lanes, active = self._indices.lanes, self._indices.active
        place = self._indices.place_in_block(self._linear[id(load)][1], lanes)
        if place is None or lanes < 2 or buffer.role not in ("input", "constant"):
            return None
        start = replace(linear, const=linear.const - place)
        key = ("column", buffer.name, start, active)
        if self._out.remembered((*key, place)) is None:
            kind = llvm_type(buffer.dtype, lanes)
            rows = ["poison"] * lanes
            for lane in range(active):
                pointer = self._pointer(buffer, Linear(start.terms, start.const + lane * start.lane, 0))
                rows[lane] = self._out.value(f"load {kind}, ptr {pointer}, align {buffer.dtype.size_bytes}")
            for number, column in enumerate(transpose(self._out, rows, kind)):
                self._out.remember((*key, number), column)
        return Value(self._out.remembered((*key, place)) or "", buffer.dtype, lanes)

    def store(self, buffer: Buffer, linear: Linear, value: Value) -> None:
        """Write one element, or a vector; a register takes every lane, memory only the active ones."""
        if buffer.scope == "register":
            slot = self._slot(buffer, linear, value.lanes)
            self._out.write_slot(slot, value.llvm_type, _slot_align(buffer, value.lanes), value.text)
            return
        pointer, align = self._pointer(buffer, linear), buffer.dtype.size_bytes
        if not value.lanes or self._indices.active == value.lanes:
            self._out.emit(f"store {value.llvm_type} {value.text}, ptr {pointer}, align {align}")
            return
        function = f"@llvm.masked.store.{suffix(buffer.dtype, value.lanes)}.p0"
        bits = f"<{value.lanes} x i1>"
        self._out.declarations.add(f"declare void {function}({value.llvm_type}, ptr, i32 immarg, {bits})")
        arguments = f"{value.llvm_type} {value.text}, ptr {pointer}, i32 {align}, {bits} {self._mask()}"
        self._out.emit(f"call void {function}({arguments})")

    def _load_memory(self, buffer: Buffer, linear: Linear, lanes: int) -> str:
        pointer = self._pointer(buffer, linear)
        kind, align = llvm_type(buffer.dtype, lanes), buffer.dtype.size_bytes
        # A packed constant is padded to whole vectors: its edge needs no mask.
        if not lanes or self._indices.active == lanes or buffer.packing is not None:
            return self._out.value(f"load {kind}, ptr {pointer}, align {align}")
        function = f"@llvm.masked.load.{suffix(buffer.dtype, lanes)}.p0"
        bits = f"<{lanes} x i1>"
        self._out.declarations.add(f"declare {kind} {function}(ptr, i32 immarg, {bits}, {kind})")
        arguments = f"ptr {pointer}, i32 {align}, {bits} {self._mask()}, {kind} zeroinitializer"
        return self._out.value(f"call {kind} {function}({arguments})")

    def _pointer(self, buffer: Buffer, linear: Linear) -> str:
        key = ("pointer", buffer.name, linear.terms)
        element = llvm_type(buffer.dtype, 0)
        base = self._out.remembered(key)
        if base is None:
            base = self._pointers[buffer.name]
            if linear.terms:
                offset = self._indices.number(Linear(linear.terms, 0, 0), 0)
                base = self._out.value(f"getelementptr inbounds {element}, ptr {base}, i64 {offset}", "p")
            self._out.remember(key, base)
        if not linear.const:
            return base
        return self._out.value(f"getelementptr inbounds {element}, ptr {base}, i64 {linear.const}", "p")

    def _slot(self, buffer: Buffer, linear: Linear, lanes: int) -> str:
        if linear.terms or linear.lane not in (0, 1):
            msg = f"register {buffer.name} is addressed by a loop that is neither unrolled nor a vector; bind it"
            raise CompileError(msg)
        key = (buffer.name, linear.const, lanes)
        if key not in self._slots:
            self._slots[key] = self._out.alloca(llvm_type(buffer.dtype, lanes), _slot_align(buffer, lanes))
        return self._slots[key]

    def _mask(self) -> str:
        lanes, active = self._indices.lanes, self._indices.active
        return f"<{', '.join('i1 true' if lane < active else 'i1 false' for lane in range(lanes))}>"


def _slot_align(buffer: Buffer, lanes: int) -> int:
    return buffer.dtype.size_bytes * max(1, lanes)
