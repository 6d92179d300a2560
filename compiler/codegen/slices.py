"""Slices of data fetched ahead: while tiles use what one iteration reads of an operand, what the next one reads comes.

    for rows: for columns: for k: a[rows, columns] += x[rows, k] * w[columns, k]
    →  for rows: for columns: for k: prefetch x[rows + 1, its part for these columns and k]; a[rows, columns] += ...

    for columns: (for k: panel[k, :] = x[k, columns];  for rows: for k: a[rows, columns] += w[rows, k] * panel[k, :])
    →  for columns: (...;  for rows: for k: prefetch x[its row, columns + 1]; a[rows, columns] += ...)

A slice that comes from beyond the second cache is needed at once: by the first columns of its rows, or where it is
copied. All that follow find it near. So memory would wait for arithmetic and then arithmetic for memory. The sums of
one slice ask for the lines of the next instead, evenly.

A slice is one run of memory, or rows of runs as far apart as a channel is long. Runs that hold more than the next
iteration needs anew, as windows do, are left to hardware: most of them has just been read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from compiler.codegen.fetches import LEAST_READS, MOST_LINES, Ahead, Reads, matrix_products, times
from compiler.codegen.streamed import is_larger
from compiler.index import Index
from compiler.loop.ir import Buffer, For, Let, Stmt, Store, sub_statements, walk_statements
from compiler.scalar import loads
from compiler.target import LINE_BYTES

SLACK = 5 / 4
"""What a slice may seem to hold beyond what the next one begins after: a short last tile counts as a whole one."""


def is_sliced(buffer: Buffer, least_bytes: int) -> bool:
    """Whether it is data of more bytes than that, whose rows are as far apart for all sizes."""
    return (
        buffer.role in ("input", "scratch")
        and all(isinstance(size, int) for size in buffer.shape[1:])
        and is_larger(buffer, least_bytes)
    )


class _Slice(NamedTuple):
    """Rows of so many elements each, `stride` apart."""

    run: int
    rows: int = 1
    stride: int = 0


class Slices(Reads):
    """One operand that is no constant, fetched by the loops that sum up in registers."""

    def __init__(self, buffer: Buffer, sums: set[int], most_bytes: int) -> None:
        """`sums`: identities of the loops that sum up; `most_bytes`: of a slice; more would push out what is used."""
        super().__init__(buffer, loops=sums)
        self._most_bytes = most_bytes
        self._known: dict[int, bool] = {}

    def fetch(self, body: Stmt, first: Index, step: int) -> bool:
        """Have the sums of a slice fetch the next one, where that pays."""
        found, summed, iterations = _slice(self._moves(body)), self.elements(body), self.count(body)
        if found is None or not step <= found.run <= SLACK * step:
            return False
        if 0 < summed < LEAST_READS * found.run * found.rows:  # none where sums read a copy
            return False
        name, line = self.buffer.name, LINE_BYTES // self.buffer.dtype.size_bytes
        lines = -(-step // line)
        units, most = (found.rows, MOST_LINES // lines) if found.rows > 1 else (step, MOST_LINES * line)

        def bring(done: Index, count: int) -> list[Ahead]:
            if found.rows == 1:
                return [Ahead(name, first + step + done, -(-count // line))]
            # From the end of a row backwards: the line that it begins in has been read to the middle.
            start = first + (2 * step - 1 - line * (lines - 1)) + done * found.stride
            return [Ahead(name, start + row * found.stride, lines) for row in range(count)]

        fits = units <= most * iterations and found.rows * lines * LINE_BYTES <= self._most_bytes
        if fits:
            self.spread(body, Fraction(units, iterations), most, bring)
        return fits

    def _reads(self, store: Store) -> bool:
        if id(store) not in self._known:
            self._known[id(store)] = any(load.buffer == self.buffer.name for load in loads(store.value))
        return self._known[id(store)]

    def _moves(self, stmt: Stmt) -> list[tuple[int, int]]:
        """Of the loops that move in the operand: by how many elements, and how often; the larger of branches."""
        match stmt:
            case Store():
                return [(1, 1)] if self._reads(stmt) else []
            case For(var) | Let(var):
                moves, step = self._moves(stmt.body), self.steps.get(var, 0)
                return [*moves, (step, times(stmt))] if moves and step else moves
            case _:
                return max(map(self._moves, sub_statements(stmt)), key=_elements, default=[])

    def elements_of(self, loop: For) -> int:
        """How many an innermost loop reads; what it needs for several sums at once counts once."""
        return _elements(self._moves(loop))


def sums_up(loop: For, buffers: Mapping[str, Buffer]) -> bool:
    """Whether a loop stores to registers alone, by instructions on vectors."""
    return next(matrix_products(loop), None) is None and all(
        buffers[s.buffer].scope == "register" for s in walk_statements(loop.body) if isinstance(s, Store)
    )


def _elements(moves: Sequence[tuple[int, int]]) -> int:
    return prod(count for _, count in moves) if moves else 0


def _slice(moves: Sequence[tuple[int, int]]) -> _Slice | None:
    """What loops read that move so; none if its runs lie in several dimensions, or it holds elements several times."""
    run = 1
    outer: list[tuple[int, int]] = []
    for step, count in sorted(moves):
        if step <= run:
            run += step * (count - 1)
        elif outer and step == outer[-1][0] * outer[-1][1]:
            outer[-1] = outer[-1][0], outer[-1][1] * count
        elif count > 1:
            outer.append((step, count))
    if not moves or len(outer) > 1:
        return None
    found = _Slice(run, *reversed(outer[0])) if outer else _Slice(run)
    return found if _elements(moves) <= SLACK * found.run * found.rows else None
