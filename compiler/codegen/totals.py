"""Totals: elements that the lanes of a vector are combined into. Those of one loop may wait and go side by side.

for i in 0..4 unrolled: for lane: t[i] += x[i, lane]      four vectors whose lanes end up in four elements
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.codegen.arithmetic import Arithmetic
from compiler.codegen.conversions import convert
from compiler.codegen.emitter import Emitter
from compiler.codegen.horizontal import horizontal_each
from compiler.codegen.linear import Linear
from compiler.codegen.memory import Memory
from compiler.codegen.types import Value
from compiler.dtype import DType
from compiler.loop.ir import Buffer
from compiler.scalar import Expr
from compiler.scalar_ops import REDUCERS
from compiler.scalar_type import neutral
from compiler.target import Target


@dataclass(frozen=True, slots=True)
class _Total:
    """A vector whose lanes are to be combined with an element."""

    op: str
    buffer: Buffer
    place: Linear
    vector: Value

    @property
    def kind(self) -> tuple[str, DType, int]:
        """What is the same for those that are combined side by side."""
        return self.op, self.vector.dtype, self.vector.lanes


class Totals:
    """Combines lanes; `literal` emits a constant."""

    def __init__(
        self,
        out: Emitter,
        target: Target,
        memory: Memory,
        arithmetic: Arithmetic,
        literal: Callable[[Expr], Value],
    ) -> None:
        """Nothing waits."""
        self._out, self._target, self._memory = out, target, memory
        self._arithmetic, self._literal = arithmetic, literal
        self._waiting: list[_Total] = []
        self.wait = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is added waits for the end; nothing else may read its places before that."""
        if self.wait:
            yield
            return
        self.wait = True
        yield
        self.wait = False
        waiting, self._waiting = self._waiting, []
        for kind in dict.fromkeys(total.kind for total in waiting):
            self._combine([total for total in waiting if total.kind == kind])

    def add(self, op: str, buffer: Buffer, place: Linear, vector: Value) -> None:
        """Have the lanes of a vector combined with an element at the end."""
        self._waiting.append(_Total(op, buffer, place, vector))

    def with_element(self, op: str, before: Value, total: Value) -> Value:
        """A total and what was there; the neutral element is left out, an operation less that the row waits for."""
        if before == self.neutral(op, total.dtype):
            return total
        return self._arithmetic.operation(op, [before, total])

    def neutral(self, op: str, dtype: DType) -> Value:
        """What changes nothing under the operation of a reducer."""
        reducer = next(name for name, known in REDUCERS.items() if known.op == op)
        return self._literal(neutral(reducer, dtype))

    def _combine(self, those: list[_Total]) -> None:
        op, dtype, _ = those[0].kind
        vectors, widest = [t.vector for t in those], self._target.lanes(dtype.size_bytes)
        totals = horizontal_each(self._out, self._arithmetic.operation, op, vectors, widest)
        for it, total in zip(those, totals, strict=True):
            value = self.with_element(op, self._memory.load(it.buffer, it.place), total)
            self._memory.store(it.buffer, it.place, convert(self._out, value, it.buffer.dtype))
