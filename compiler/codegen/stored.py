"""Vectors that were just stored in memory of the kernel's own: what reads them again takes them from registers.

    t[0..32] = e; p[0..32] = bf16(t[0..32]); s = s + t[0..16]  →  t[0..32] = e; p[0..32] = bf16(e); s = s + e[0..16]

LLVM would have to show that the store to `p` in between leaves `t` alone. Buffers are apart, so it does.
"""

from __future__ import annotations

from compiler.codegen.emitter import Emitter
from compiler.codegen.linear import Linear
from compiler.codegen.pieces import piece
from compiler.codegen.types import Value
from compiler.loop.ir import Buffer


class Stored:
    """Of each buffer of one function the vector that was stored last, since its code last branched."""

    def __init__(self, out: Emitter) -> None:
        """Know of none."""
        self._out = out
        self._block = ""
        self._held: dict[str, tuple[Linear, Value]] = {}

    def keep(self, buffer: Buffer, place: Linear, value: Value) -> None:
        """A whole vector lies at a place from now on."""
        self.forget(buffer)
        if self._block != self._out.block:
            self._block, self._held = self._out.block, {}
        if buffer.scope == "local" and value.lanes and place.lane == 1:
            self._held[buffer.name] = place, value

    def forget(self, buffer: Buffer) -> None:
        """Something else was stored in a buffer."""
        self._held.pop(buffer.name, None)

    def find(self, buffer: Buffer, place: Linear, lanes: int) -> Value | None:
        """So many lanes from a place on, where a vector that was stored has them all."""
        if self._block != self._out.block or place.lane != 1:
            return None
        start, value = self._held.get(buffer.name, (None, None))
        if start is None or value is None or start.terms != place.terms:
            return None
        first = place.const - start.const
        if not 0 <= first <= value.lanes - lanes:
            return None
        return value if lanes == value.lanes else piece(self._out, value, first, lanes)
