"""Spread: a sum with few accumulators gets more of them, so that its multiply-adds need not wait for each other.

    for k in 0..4 unrolled: for v in 0..2 unrolled: for l in 0..8 vector: t[v*8 + l] += x[k] * w[k, v, l]
    →  for k.p in 0..1 unrolled: for k.q in 0..4 unrolled: for v in 0..2 unrolled: for l in 0..8 vector:
         p[k.q, v*8 + l] += x[k] * w[k, v, l]                                                       k = k.p*4 + k.q
       ...
       for v in 0..2 unrolled: for l in 0..8 vector: t[v*8 + l] += p[0, v*8 + l] + ... + p[3, v*8 + l]

A multiply-add takes four cycles or more, and two of them begin in each: eight sums hide that. A tile of few rows and
columns has at most half as many, however long its sums are. What is left of the loop is added in the old way.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.index import Index
from compiler.loop.ir import Block, Extent, For, LoopKind, LoopNest, Stmt, Store, block, walk_statements
from compiler.loop.simplify import substitute_statement
from compiler.loop.sums import Chain, Sums, nested, replaced, rewrite_sums
from compiler.scalar import Apply, Const, Expr, Load

IN_FLIGHT = 8
"""Multiply-adds that hide their latency."""
COPIES = (2, 4)
"""Sums in place of one, the fewest first."""


def copies(sums: int, steps: int) -> int:
    """How many sums there are in place of each of `sums` vectors, in a loop of so many steps."""
    if 2 * sums > IN_FLIGHT:
        return 1
    fitting = [c for c in COPIES if steps % c == 0]
    return next((c for c in fitting if c * sums >= IN_FLIGHT), max(fitting, default=1))


def spread(nest: LoopNest) -> LoopNest:
    """Spread every sum of products in local memory that has too few accumulators. The nest must be simplified."""
    return rewrite_sums(nest, _Spreading, at_edges=False)


class _Spreading(Sums):
    """The spreading of one buffer."""

    def _block(self, stmt: Stmt) -> Stmt:
        assert isinstance(stmt, Block)
        found = [(chain, around) for chain, around, again in self._products(stmt) if again]
        count = max((_copies(*products) for products in found), default=1)
        found = [(chain, around) for chain, around in found if around.extent.limit % count == 0]
        if count == 1 or len({_span(chain) for chain, _ in found}) != 1:
            return stmt
        return self._spread(stmt, found, count)

    def _spread(self, stmt: Block, found: list[tuple[Chain, For]], count: int) -> Stmt:
        first, around = found[0]
        parts = replace(
            self._buffer, name=f"{self._name}.p{len(self.made)}", shape=(count, *self._buffer.shape)
        )
        self.made.append(parts)
        known = {id(loop): _apart(chain, loop, parts.name, count) for chain, loop in found}
        last = max(
            i for i, s in enumerate(stmt.statements) if any(id(x) in known for x in walk_statements(s))
        )
        changed = [replaced(s, known) for s in stmt.statements]
        number = f"{around.var}.q"
        place = (Index.of(number), *first.store.indices)
        zero = Store(parts.name, place, Const(0.0, self._buffer.dtype))
        start = For(number, Extent(count), LoopKind.UNROLLED, nested(first.loops, zero))
        total: Expr = Load(first.store.buffer, first.store.indices)
        for copy in range(count):
            total = Apply("add", (total, Load(parts.name, (Index.of(copy), *first.store.indices))))
        end = nested(first.loops, Store(first.store.buffer, first.store.indices, total))
        return block(start, *changed[: last + 1], end, *changed[last + 1 :])


def _copies(chain: Chain, around: For) -> int:
    """How many sums there should be in place of one."""
    return copies(prod(loop.extent.limit for loop in chain.loops[:-1]), around.extent.limit)


def _span(chain: Chain) -> tuple[Index, tuple[tuple[int, Extent], ...]]:
    """Where the sums begin, and how the loops move the place, outermost first, and how often."""
    return chain.start, tuple((chain.flat.coefficient(loop.var), loop.extent) for loop in chain.loops)


def _apart(chain: Chain, around: For, parts: str, count: int) -> Stmt:
    """The products, each added to the next of the sums in turn."""
    number, one = f"{around.var}.p", f"{around.var}.q"
    store = chain.store
    assert isinstance(store.value, Apply)
    place = (Index.of(one), *store.indices)
    added = Store(parts, place, Apply("add", (Load(parts, place), store.value.args[1])))
    body = substitute_statement(nested(chain.loops, added), {around.var: Index.of(number) * count + one})
    turns = For(one, Extent(count), LoopKind.UNROLLED, body)
    return For(number, Extent(around.extent.limit // count), LoopKind.UNROLLED, turns)
