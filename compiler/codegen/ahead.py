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
    LEAST_READS,
    MOST_LINES,
    Ahead,
    Reads,
    innermost,
    matrix_products,
    places_read,
    repeats,
)
from compiler.codegen.slices import Slices, is_sliced, sums_up
from compiler.codegen.streamed import is_larger
from compiler.index import Index
from compiler.loop.ir import Buffer, For, Stmt, sub_statements
from compiler.scalar import Dot
from compiler.target import LINE_BYTES, Target

MOST_OF_MATRICES = 32
"""Lines that come at once between products of matrices, which take longer than those of vectors."""
LEAST_PANEL = 4096
"""Bytes of a panel below which hardware has caught up before it matters."""
STREAM = 8192
"""Bytes between what matrices read of a stream and what is fetched; from 4096 to 12288 it made no difference."""


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

    def fetch(self, body: Stmt, first: Index, step: int) -> bool:
        """Have a panel that is read several times fetch the next one, unless it is short, or over too soon."""
        if self.elements(body) < LEAST_READS * step:
            return False
        size, iterations = self.buffer.dtype.size_bytes, self.count(body)
        line = LINE_BYTES // size
        most = MOST_LINES if next(matrix_products(body), None) is None else MOST_OF_MATRICES

        def bring(done: Index, elements: int) -> list[Ahead]:
            return [Ahead(self.buffer.name, first + step + done, -(-elements // line))]

        if step * size >= LEAST_PANEL and step <= most * line * iterations:
            self.spread(body, Fraction(step, iterations), MOST_LINES * line, bring)
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

    def elements_of(self, loop: For) -> int:
        return loop.extent.limit * self.steps.get(loop.var, 0)
