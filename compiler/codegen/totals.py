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
from compiler.codegen.horizontal import side_by_side
from compiler.codegen.linear import Linear
from compiler.codegen.memory import Memory
from compiler.codegen.pieces import extracted
from compiler.codegen.types import Value
from compiler.dtype import DType
from compiler.loop.ir import Buffer
from compiler.scalar import Const, Expr, Load
from compiler.scalar_ops import REDUCERS
from compiler.scalar_type import neutral
from compiler.target import Target

_Place = tuple[str, Linear]
"""Name of a buffer, and a place in it."""


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
        self._begun: dict[_Place, tuple[Buffer, Value]] = {}
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
        self.settle()

    def begin(self, buffer: Buffer, load: Load, value: Expr, lanes: int) -> bool:
        """Have an element of memory be a constant until a vector is added to it, which makes storing it needless.

        False where it is to be stored now: what has begun is stored before.
        """
        if lanes or not isinstance(value, Const) or buffer.scope == "register":
            self.settle()
            return False
        begun = convert(self._out, self._literal(value), buffer.dtype)
        place = self._memory.flat(load, buffer)
        self._begun[buffer.name, place] = buffer, begun
        return True

    def settle(self) -> None:
        """Store what has begun and still waits for a vector."""
        begun, self._begun = self._begun, {}
        for (_, place), (buffer, value) in begun.items():
            self._memory.store(buffer, place, value)

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

    def of_one(self, op: str, vector: Value) -> Value:
        """The lanes of a vector, combined now: what has begun is stored before, for its element is read next."""
        self.settle()
        return self._side_by_side(op, [vector])

    def _side_by_side(self, op: str, vectors: list[Value]) -> Value:
        return side_by_side(self._out, self._arithmetic.operation, op, vectors, self._widest(vectors[0]))

    def _widest(self, vector: Value) -> int:
        return min(vector.lanes, self._target.lanes(vector.dtype.size_bytes))

    def _combine(self, those: list[_Total]) -> None:
        while those:
            count = 1
            while 2 * count <= min(len(those), self._widest(those[0].vector)):
                count *= 2
            self._store(those[:count], self._side_by_side(those[0].op, [it.vector for it in those[:count]]))
            those = those[count:]

    def _store(self, those: list[_Total], totals: Value) -> None:
        """Combine totals with their elements: at once where these are neighbours that begin with nothing."""
        first, dtype = those[0], those[0].buffer.dtype
        befores = [self._begun.pop((it.buffer.name, it.place), None) for it in those]
        nothing = (first.buffer, self.neutral(first.op, totals.dtype))
        beside = [
            (first.buffer.name, first.place._replace(const=first.place.const + i)) for i in range(len(those))
        ]
        if (
            totals.lanes
            and all(before == nothing for before in befores)
            and beside == [(it.buffer.name, it.place) for it in those]
        ):
            self._memory.store(first.buffer, first.place, convert(self._out, totals, dtype), whole=True)
            return
        for i, (it, begun) in enumerate(zip(those, befores, strict=True)):
            before = self._memory.load(it.buffer, it.place) if begun is None else begun[1]
            one = extracted(self._out, totals, i) if totals.lanes else totals
            value = self.with_element(it.op, before, one)
            self._memory.store(it.buffer, it.place, convert(self._out, value, it.buffer.dtype))
