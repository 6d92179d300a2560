"""A Dot as machine instructions: the entry's template, filled with a broadcast group and a packed vector."""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.linear import Linear
from compiler.codegen.memory import Memory
from compiler.codegen.types import Value, llvm_type
from compiler.errors import CompileError
from compiler.instruction import INSTRUCTIONS, Instruction
from compiler.loop.ir import Buffer
from compiler.scalar import Dot, Load


class Dots:
    """Emits instructions that add several products to each lane of a vector of sums."""

    def __init__(self, out: Emitter, indices: Indices, memory: Memory, buffers: dict[str, Buffer]) -> None:
        """Share the function's state."""
        self._out, self._indices, self._memory, self._buffers = out, indices, memory, buffers

    def value(self, dot: Dot, total: Value) -> Value:
        """The new sums; `total`: the old ones, a vector of the instruction's length."""
        entry = INSTRUCTIONS[dot.instruction]
        if self._indices.lanes != entry.lanes or total.lanes != entry.lanes or total.dtype is not entry.sum:
            msg = f"{entry.name} adds to {entry.lanes} lanes of {entry.sum.value}, the loop has {self._indices.lanes}"
            raise CompileError(msg)
        operands = {
            "sum": total.text,
            "left": self._broadcast(dot.left, self._place(dot.left, dot.var, 0), entry),
            "right": self._packed(dot.right, self._place(dot.right, dot.var, entry.group), entry),
        }
        self._out.declarations.update(entry.declarations)
        results: list[str] = []
        for line in entry.template:
            results.append(self._out.value(line.format(*results, **operands)))
        return Value(results[-1], entry.sum, entry.lanes)

    def _place(self, load: Load, var: str, lane: int) -> Linear:
        """Where the group starts; its elements must be neighbours, and those of two lanes `lane` elements apart."""
        buffer = self._buffers[load.buffer]
        places = []
        for number in (0, 1):
            with self._indices.constant(var, number):
                places.append(self._memory.flat(load, buffer))
        first, second = places
        together = first.terms == second.terms and second.const == first.const + 1
        if not together or first.lane != lane:
            msg = f"the operand {load.buffer} of an instruction does not lie as it needs; pack it"
            raise CompileError(msg)
        return first

    def _broadcast(self, load: Load, place: Linear, entry: Instruction) -> str:
        """The group of `left`, once for each lane."""
        buffer = self._buffers[load.buffer]
        bits = 8 * entry.group * buffer.dtype.size_bytes
        group = self._memory.load_plain(buffer, place, f"i{bits}")
        key = ("group", group, entry.lanes)
        known = self._out.remembered(key)
        if known is not None:
            return known
        wide = f"<{entry.lanes} x i{bits}>"
        one = self._out.value(f"insertelement {wide} poison, i{bits} {group}, i64 0")
        zeros = f"<{entry.lanes} x i32> zeroinitializer"
        spread = self._out.value(f"shufflevector {wide} {one}, {wide} poison, {zeros}")
        kind = llvm_type(entry.left, entry.lanes * entry.group)
        return self._out.remember(key, self._out.value(f"bitcast {wide} {spread} to {kind}"))

    def _packed(self, load: Load, place: Linear, entry: Instruction) -> str:
        """The groups of `right`, lane after lane; packing has padded them to whole vectors."""
        kind = llvm_type(entry.right, entry.lanes * entry.group)
        return self._memory.load_plain(self._buffers[load.buffer], Linear(place.terms, place.const, 0), kind)
