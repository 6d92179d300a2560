"""Fold: the vectors at an edge that are at most half full hold several products of each sum.

    for k in 0..8 unrolled: for r in 0..4 unrolled: for v in 0..2 unrolled: for l in 0..min(16, 20 - v*16) vector:
        t[r, v*16 + l] += x[r, k] * w[k, v, l]
    →  for k in 0..8 unrolled: for r in 0..4 unrolled: for l in 0..16 vector: t[r, l] += x[r, k] * w[k, 0, l]
       for k.p in 0..2 unrolled: for r in 0..4 unrolled: for l in 0..4 vector: for k.q in 0..4 vector:
         f[r, l*4 + k.q] += x[r, k] * w[k, 1, l]                                                   k = k.p*4 + k.q
       ...
       for r in 0..4 unrolled: for l in 0..4 vector: t[r, 16 + l] += f[r, l*4] + ... + f[r, l*4 + 3]

so that 20 columns take five vectors for four products instead of eight. It is done to sums of products in local memory
where the factor that is the same for all lanes lies side by side along an unrolled loop of the sum: several of its
elements, repeated, are one load, as a single one is. The other factor is woven together, once for all rows. What is
left of the loop is added in the old way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.loop.ir import (
    Block,
    Extent,
    For,
    LoopKind,
    LoopNest,
    Stmt,
    Store,
    block,
    extent,
    walk_statements,
)
from compiler.loop.sums import Chain, Sums, nested, replaced, rewrite_sums
from compiler.scalar import Apply, Const, Expr, Guard, Load, map_indices

FOLDS = (4, 2)
"""Products of a sum in a vector, the best first."""
LEAST_LANES = 8
"""Of a vector: in shorter ones what a fold costs at the end weighs more than what it saves."""
MOST_BYTES = 16
"""Of the elements that one load repeats."""
LEAST_PRODUCTS = 8
"""Of a sum: with fewer the end weighs more."""


def fold(nest: LoopNest) -> LoopNest:
    """Fold the edges of every sum in local memory. The nest must be simplified."""
    return rewrite_sums(nest, _Folding)


@dataclass(frozen=True, slots=True)
class _Products:
    """A chain that adds products, and the unrolled loop of the sum around it.

    Attributes:
        whole, active: full vectors of a row, and elements of the one that follows.
        row: the loop over rows; None where there is one row.
    """

    chain: Chain
    around: For
    whole: int
    active: int
    row: For | None


class _Folding(Sums):
    """The folding of one buffer."""

    def _block(self, stmt: Stmt) -> Stmt:
        assert isinstance(stmt, Block)
        found = [
            products
            for chain, around, again in self._products(stmt)
            if (again or around.extent.limit >= LEAST_PRODUCTS)
            and (products := self._edge(chain, around)) is not None
        ]
        folds = self._folds(found)
        found = [p for p in found if folds and p.around.extent.limit % folds == 0]
        if not found or not _agree(found):
            return stmt
        return self._folded(stmt, found, folds)

    def _edge(self, chain: Chain, loop: For) -> _Products | None:
        """The products of a chain and of the loop around it; None where they cannot be folded."""
        cut, lanes, factors = chain.cut(), chain.lane.extent.limit, chain.factors
        if cut is None or factors is None or lanes < LEAST_LANES:
            return None
        vectors = chain.vectors()
        rows = [x for x in chain.loops[:-1] if x is not vectors]
        if len(rows) > 1 or any(x.extent.bound is not None for x in rows) or not 0 < cut[1] * 2 <= lanes:
            return None
        inside = {chain.lane.var, *([vectors.var] if vectors else [])}
        if not any(self._fits(a, b, loop.var, inside) for a, b in (factors, factors[::-1])):
            return None
        return _Products(chain, loop, *cut, rows[0] if rows else None)

    def _fits(self, shared: Expr, other: Expr, along: str, lanes: set[str]) -> bool:
        """Whether a factor is the same for all lanes and lies side by side along the loop, and the other does not."""
        if isinstance(shared, Guard) and isinstance(shared.outside, Const):
            if any(along in bound.index.names() for bound in shared.bounds):
                return False
            shared = shared.inside
        if not isinstance(shared, Load) or not isinstance(other, Load):
            return False
        places = [self._nest.by_name[load.buffer].flat(load.indices) for load in (shared, other)]
        kept = all(self._nest.by_name[load.buffer].scope != "local" for load in (shared, other))
        same = not lanes & places[0].names() and places[0].coefficient(along) == 1
        return kept and same and along in places[1].names() and places[0].is_affine()

    def _folds(self, found: Sequence[_Products]) -> int:
        """Products in a vector; 0 where nothing is to be gained."""
        size = self._buffer.dtype.size_bytes
        for folds in FOLDS:
            for p in found:
                fits = p.active * folds <= p.chain.lane.extent.limit and folds * size <= MOST_BYTES
                if fits and p.around.extent.limit % folds == 0:
                    return folds
        return 0

    def _folded(self, stmt: Block, found: Sequence[_Products], folds: int) -> Stmt:
        first = found[0]
        lanes = first.chain.lane.extent.limit
        rows = _rows(first)
        number = len(self.made) // 2
        sums, ends = (
            replace(self._buffer, name=f"{self._name}.{kind}{number}", shape=(rows, lanes))
            for kind in ("f", "e")
        )
        self.made += [sums, ends]
        known = {id(p.around): _both(p, sums.name, folds) for p in found}
        last = max(
            i for i, s in enumerate(stmt.statements) if any(id(x) in known for x in walk_statements(s))
        )
        parts = [replaced(s, known) for s in stmt.statements]
        start = _start(first, sums.name, Const(0.0, self._buffer.dtype))
        end = _end(first, sums.name, ends.name, folds)
        return block(start, *parts[: last + 1], end, *parts[last + 1 :])


def _agree(found: Sequence[_Products]) -> bool:
    """Whether all add to the same rows and lanes."""
    shapes = {(p.whole, p.active, p.chain.lane.extent.limit, _rows(p), p.chain.start) for p in found}
    steps = {p.chain.flat.coefficient(p.row.var) if p.row is not None else 0 for p in found}
    return len(shapes) == len(steps) == 1


def _rows(products: _Products) -> int:
    return products.row.extent.limit if products.row is not None else 1


def _over_rows(products: _Products, inner: Stmt) -> Stmt:
    return inner if products.row is None else replace(products.row, body=inner)


def _place(products: _Products, lane: Index) -> tuple[Index, Index]:
    return Index.of(products.row.var if products.row is not None else 0), lane


def _both(products: _Products, sums: str, folds: int) -> Stmt:
    """The full vectors as they were, and what follows them several products at a time."""
    chain, around, lane = products.chain, products.around, products.chain.lane
    vectors, factors = chain.vectors(), chain.factors
    assert factors is not None
    parts: list[Stmt] = []
    if products.whole:
        loops = [replace(x, extent=Extent(products.whole)) if x is vectors else x for x in chain.loops[:-1]]
        full = replace(lane, extent=Extent(lane.extent.limit))
        parts.append(replace(around, body=nested([*loops, full], chain.store)))
    number, one = f"{around.var}.p", f"{around.var}.q"
    here = {around.var: Index.of(number) * folds + one}
    if vectors is not None:
        here[vectors.var] = Index.of(products.whole)
    place = _place(products, Index.of(lane.var) * folds + one)
    product = Apply("mul", tuple(map_indices(f, lambda i: i.substitute(here)) for f in factors))
    store = Store(sums, place, Apply("add", (Load(sums, place), product)))
    lanes = For(
        lane.var,
        extent(lane.extent.limit // folds, Index.of(products.active)),
        LoopKind.VECTOR,
        For(one, Extent(folds), LoopKind.VECTOR, store),
    )
    steps = Extent(around.extent.limit // folds)
    parts.append(For(number, steps, LoopKind.UNROLLED, _over_rows(products, lanes)))
    return block(*parts)


def _start(products: _Products, sums: str, zero: Const) -> Stmt:
    lane = products.chain.lane
    store = Store(sums, _place(products, Index.of(lane.var)), zero)
    return _over_rows(products, replace(lane, extent=Extent(lane.extent.limit), body=store))


def _end(products: _Products, sums: str, ends: str, folds: int) -> Stmt:
    """The products of each sum together, which are picked out of memory: a register has no parts."""
    chain, lane = products.chain, products.chain.lane
    place = _place(products, Index.of(lane.var))
    copy = replace(lane, extent=Extent(lane.extent.limit), body=Store(ends, place, Load(sums, place)))
    vectors = chain.vectors()
    at = {} if vectors is None else {vectors.var: Index.of(products.whole)}
    indices = tuple(i.substitute(at) for i in chain.store.indices)
    parts: list[Expr] = [Load(ends, _place(products, Index.of(lane.var) * folds + n)) for n in range(folds)]
    while len(parts) > 1:
        parts = [Apply("add", (a, b)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    store = Store(chain.store.buffer, indices, Apply("add", (Load(chain.store.buffer, indices), parts[0])))
    active = extent(lane.extent.limit, Index.of(products.active))
    return block(_over_rows(products, copy), _over_rows(products, replace(lane, extent=active, body=store)))
