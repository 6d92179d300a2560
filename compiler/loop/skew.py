"""Skew: the products of overlapping windows are made in the order of what they read.

    for k in 0..3 unrolled: for r in 0..4 unrolled: for l in 0..8 vector: t[r, l] += x[r + k, l] * w[k, l]
    →  for p in 0..6 unrolled: for k in 0..3 unrolled: if 0 <= p - k < 4: for l in 0..8 vector:
         t[p - k, l] += x[p, l] * w[k, l]

A vector of x is loaded once, multiplied by every tap that meets it, and gone: besides the sums only taps are kept.
In the old order it stays from the first tap to the last, or is loaded for each of them. It is done where both factors
differ from lane to lane, for then windows share nothing but what they read. Each sum's terms keep their order along
the taps of a pair. Loop skewing (Wolf and Lam, A Loop Transformation Theory, 1991), of unrolled loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.loop.ir import Block, Extent, For, If, LoopKind, LoopNest, Stmt, Store, with_parts
from compiler.loop.simplify import substitute_statement
from compiler.scalar import Apply, Bound, Expr, Guard, Load

_NOTHING = Block(())


def skew(nest: LoopNest) -> LoopNest:
    """Skew every sum of products of overlapping windows whose loops are unrolled; else the same nest."""
    body = _skew(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Loops over windows and over the taps of one, and how many windows apart neighbouring taps are."""

    windows: For
    taps: For
    dilation: int

    @property
    def place(self) -> str:
        """Name of the loop over what they read."""
        return f"{self.windows.var}+{self.taps.var}"

    @property
    def window(self) -> Index:
        """The window of which a tap meets a place."""
        return Index.of(self.place) - Index.of(self.taps.var) * self.dilation

    @property
    def places(self) -> int:
        """How many the windows cover."""
        return self.windows.extent.limit + self.dilation * (self.taps.extent.limit - 1)


def _skew(stmt: Stmt) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED:
        loops, tests, inner = _around(stmt)
        pairs = _pairs(inner, {loop.var: loop for loop in loops})
        if pairs:
            return _skewed(loops, tests, inner, pairs)
    return with_parts(stmt, _skew)


def _around(stmt: Stmt) -> tuple[list[For], list[Bound], Stmt]:
    """Unrolled loops with one statement in each, tests between them, and what they are around."""
    loops: list[For] = []
    tests: list[Bound] = []
    while True:
        match stmt:
            case For(_, Extent(_, None), LoopKind.UNROLLED, body):
                loops.append(stmt)
                stmt = body
            case If(condition, then, Block(())):
                tests.append(condition)
                stmt = then
            case _:
                return loops, tests, stmt


def _pairs(stmt: Stmt, loops: Mapping[str, For]) -> list[_Pair]:
    match stmt:
        case For(
            lane,
            _,
            LoopKind.VECTOR,
            Store(buffer, indices, Apply("add", (Load() as total, Apply("mul", (first, second))))),
        ) if total == Load(buffer, indices):
            factors = [load for e in (first, second) if (load := _read(e)) and lane in _names(load)]
        case _:
            return []
    if len(factors) < 2:
        return []
    pairs: list[_Pair] = []
    for index in (index for factor in factors for index in factor.indices):
        moved = [loops[name] for name in index.names() if name in loops]
        windows = [loop for loop in moved if loop.var in _names(total)]
        taps = [loop for loop in moved if loop.var not in _names(total)]
        known = {loop.var for p in pairs for loop in (p.windows, p.taps)}
        if len(windows) == len(taps) == 1 and not known & {loop.var for loop in moved}:
            pair = _Pair(windows[0], taps[0], index.coefficient(taps[0].var))
            if index.coefficient(windows[0].var) == 1 and 0 < pair.dilation < pair.windows.extent.limit:
                pairs.append(pair)
    return pairs


def _read(factor: Expr) -> Load | None:
    """What is loaded, inside of its bounds."""
    if isinstance(factor, Guard):
        return _read(factor.inside)
    return factor if isinstance(factor, Load) else None


def _names(load: Load) -> set[str]:
    return {name for index in load.indices for name in index.names()}


def _skewed(loops: Sequence[For], tests: Sequence[Bound], inner: Stmt, pairs: Sequence[_Pair]) -> Stmt:
    paired = {loop.var for p in pairs for loop in (p.windows, p.taps)}
    waiting = list(tests)

    def tested(stmt: Stmt, names: set[str]) -> Stmt:
        """The statement inside of the tests of these names that are not around it yet."""
        for test in [t for t in waiting if t.index.names() & names]:
            stmt = If(test, stmt, _NOTHING)
            waiting.remove(test)
        return stmt

    stmt = substitute_statement(tested(inner, paired), {p.windows.var: p.window for p in pairs})
    for p in reversed(pairs):
        meets = Bound(p.window, 0, p.windows.extent.limit)
        stmt = replace(p.taps, body=If(meets, stmt, _NOTHING))
    for p in reversed(pairs):
        stmt = For(p.place, Extent(p.places), LoopKind.UNROLLED, stmt)
    for loop in reversed([loop for loop in loops if loop.var not in paired]):
        stmt = replace(loop, body=tested(stmt, {loop.var}))
    for test in reversed(waiting):
        stmt = If(test, stmt, _NOTHING)
    return stmt
