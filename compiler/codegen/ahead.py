"""Fetching ahead: while tiles read one panel of a packed constant, the next one comes nearer.

    for p: for rows: for k: a[rows, p] += x[rows, k] * panels[p, k]
    →  for p: for rows: for k: prefetch panels[p + 1, its part for these rows and k]; a[rows, p] += ...

Each iteration asks for its share of the next panel, so that it arrives evenly under the arithmetic. Hardware follows a
stream only while it is read, which would be when all of it is needed at once: at the first tile of the next panel.
Worth an instruction where the panels together are too large for the second cache and each is read several times.

What is read once is a stream, which hardware follows far enough for vectors. Instructions on matrices use it up faster
where the data is in the first cache, for windows share it: each iteration of theirs asks for what is `STREAM` bytes
further on, into that cache. Where data comes from the second one, that would be in its way.

What is no constant comes nearer in slices (`compiler/codegen/slices.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from compiler.codegen.fetches import (
    Ahead,
    Reads,
    innermost,
    matrix_products,
    places_read,
    repeats,
    times,
)
from compiler.codegen.slices import Slices, is_sliced, sums_up
from compiler.codegen.streamed import is_larger
from compiler.index import Index
from compiler.loop.ir import Buffer, For, If, Let, Stmt, sub_statements
from compiler.scalar import Dot
from compiler.target import LINE_BYTES, Target

MOST_LINES, MOST_OF_MATRICES = 8, 32
"""Lines that one iteration may ask for: more at a time than a core waits for at once are not there sooner. The second
of matrices, whose iterations take longer."""
LEAST_PANEL = 4096
"""Bytes of a panel below which hardware has caught up before it matters."""
STREAM = 8192
"""Bytes between what matrices read of a stream and what is fetched; from 4096 to 12288 it made no difference."""
LEAST_READS = 2
"""Times that a panel is read: what is read once is a stream that hardware follows."""


def fetched_ahead(body: Stmt, buffers: Mapping[str, Buffer], target: Target) -> dict[int, list[Ahead]]:
    """By the identity of a serial loop, what each of its iterations fetches."""
    far = target.l2_bytes // 2
    panels = {b.name: _Panels(b) for b in buffers.values() if b.packing is not None and is_larger(b, far)}
    data = [b for b in buffers.values() if is_sliced(b, far)]
    if target.grid_threads or not (panels or data):
        return {}
    loops = list(innermost(body, {}))
    sums = {id(loop) for loop, _ in loops if data and sums_up(loop, buffers)}
    slices = {b.name: Slices(b, sums, far) for b in data}
    operands: dict[str, Reads] = {**panels, **slices}
    for loop, lets in loops:
        for name, flat in places_read(loop, operands.keys(), buffers, lets):
            operands[name].read(flat)
            if name in panels:
                panels[name].loops.add(id(loop))
    for panel in panels.values():
        if not panel.visit(body, Index()):
            panel.stream(body, Index())
    for part in slices.values():
        part.visit(body, Index())
    found: dict[int, list[Ahead]] = {}
    for operand in operands.values():
        for loop_id, fetches in operand.found.items():
            found.setdefault(loop_id, []).extend(fetches)
    return found


class _Panels(Reads):
    """One packed constant, fetched by the loops that read it."""

    def visit(self, stmt: Stmt, start: Index) -> bool:
        """Find the innermost loop whose iterations read a panel several times; `start` is the panel's, around it."""
        if not self.count(stmt) or id(stmt) in self.loops:
            return False
        if not repeats(stmt):
            return any(tuple(self.visit(child, start) for child in sub_statements(stmt)))
        step = self.steps.get(stmt.var, 0)
        first = start + Index.of(stmt.var) * step
        if self.visit(stmt.body, first):
            return True
        if not step or self._elements(stmt.body) < LEAST_READS * step:
            return False
        name, line, iterations = (
            self.buffer.name,
            LINE_BYTES // self.buffer.dtype.size_bytes,
            self.count(stmt.body),
        )
        most = MOST_LINES if next(matrix_products(stmt), None) is None else MOST_OF_MATRICES
        if step * self.buffer.dtype.size_bytes >= LEAST_PANEL and step <= most * line * iterations:

            def fetch(done: Index, elements: int) -> list[Ahead]:
                return [Ahead(name, first + step + done, -(-elements // line))]

            self.spread(stmt.body, Fraction(step, iterations), MOST_LINES * line, fetch)
        return True

    def stream(self, stmt: Stmt, start: Index) -> None:
        """Have matrices that read all of it once fetch it; `start`: of what the loops around read."""
        if repeats(stmt):
            step = self.steps.get(stmt.var, 0)
            start += Index.of(stmt.var) * step
            if id(stmt) in self.loops and any(map(self._has_windows, matrix_products(stmt))):
                size = self.buffer.dtype.size_bytes
                lines = step * size // LINE_BYTES
                self.found[id(stmt)] = [Ahead(self.buffer.name, start + STREAM // size, lines, near=True)]
                return
        for child in sub_statements(stmt):
            self.stream(child, start)

    def _has_windows(self, dot: Dot) -> bool:
        """Whether products along the sum have data in common: an index of it moves with the constant and without."""
        moves = ([bool(self.steps.get(name)) for name in i.names()] for i in dot.left.indices)
        return any(True in along and False in along for along in moves)

    def _elements(self, stmt: Stmt) -> int:
        """What the loops that read the panel read of it."""
        if isinstance(stmt, For) and id(stmt) in self.loops:
            return stmt.extent.limit * self.steps.get(stmt.var, 0)
        counts = [self._elements(child) for child in sub_statements(stmt)]
        if isinstance(stmt, If):
            return max(counts)
        return sum(counts) * (times(stmt) if isinstance(stmt, For | Let) else 1)
