"""Numbers that were read as places in a buffer, scalar or by whole vectors."""

from __future__ import annotations

from compiler.codegen.arithmetic import Arithmetic
from compiler.codegen.conversions import convert
from compiler.codegen.emitter import Emitter
from compiler.codegen.indices import Indices
from compiler.codegen.types import Value, literal
from compiler.dtype import DType
from compiler.index import Index, LookedUp


def place(out: Emitter, arithmetic: Arithmetic, indices: Indices, number: Value, found: LookedUp) -> Value:
    """The element that an index means, in 64 bits; as `compiler.elementary.place` says, without a branch.

    Five instructions beside the load of an index. They cost nothing that can be measured where an index serves a row.
    """
    wide = convert(out, number, DType.I64)
    kind, lanes = wide.llvm_type, wide.lanes
    extent = indices.linear(Index.of(found.extent))

    def constant(n: int | str) -> str:
        """In every lane."""
        if isinstance(n, int):
            return literal(n, DType.I64, lanes)
        return arithmetic.broadcast(Value(n, DType.I64, 0), lanes).text

    def chosen(test: str, yes: str, no: str) -> str:
        bits = f"<{lanes} x i1>" if lanes else "i1"
        return out.value(f"select {bits} {out.value(f'icmp {test}')}, {kind} {yes}, {kind} {no}")

    size, last = (constant(indices.number(extent, plus)) for plus in (0, -1))
    from_end = out.value(f"add {kind} {wide.text}, {size}")
    index = chosen(f"slt {kind} {wide.text}, {constant(0)}", from_end, wide.text)
    index = chosen(f"slt {kind} {index}, {constant(0)}", constant(0), index)
    index = chosen(f"slt {kind} {index}, {size}", index, last)
    return Value(index, DType.I64, lanes)
