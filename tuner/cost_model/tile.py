"""Tile: the block of vector and unrolled loops at the very inside of a nest, and what its instructions are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compiler.loop.spread import copies
from compiler.target import LINE_BYTES, Target
from compiler.workload.ir import Stage
from tuner.cost_model.nest import Access, Array, Flags, Nests

Places = NDArray[np.intp]

_WAYS = 8
"""Lines that a set of the first cache holds; Targets do not say, and this is what most have."""


@dataclass(frozen=True)
class Tile:
    """The tiles of n Schedules; shape (n,) each.

    Attributes:
        start: place of the tile's outermost loop in the path.
        vector: elements that the vector loops cover.
        rows, vectors: points across the vector's axis, and whole vectors along it.
        reduction: iterations of the reduction in the body.
        loads: load instructions of the body, those of single lanes included.
        whole: those of whole vectors; others load an element that all lanes share.
        lanes_loaded: those that load one lane of a vector each, for its elements lie apart.
        largest: load instructions of the operand with the most.
        conflict: lines of one operand that fall into one set of the first cache, over what a set holds.
        scattered: whether the lanes of the result lie apart.
        copies: sums in place of each, so that one need not wait for the other (compiler.loop.spread).
    """

    start: Places
    vector: Array
    rows: Array
    vectors: Array
    reduction: Array
    loads: Array
    whole: Array
    lanes_loaded: Array
    largest: Array
    conflict: Array
    scattered: Flags
    copies: Array

    @property
    def accumulators(self) -> Array:
        """Vectors of sums."""
        return self.rows * self.vectors

    @property
    def alive(self) -> Array:
        """Vectors that are alive at once: the sums, those of the operand with the most, and one of another."""
        return self.accumulators * self.copies + self.largest / self.reduction + 1


def tile_of(nests: Nests, target: Target, anchor: Stage) -> Tile:
    """The tiles of the nests of `anchor`."""
    n, loops = nests.limits.shape
    start = _start(nests)
    inside = np.arange(loops) >= start[:, None]
    spatial = inside & ~nests.reduces & ~nests.vector
    vector = product_of(nests.limits, inside & nests.vector)
    lanes = target.lanes(anchor.dtype.size_bytes)
    along = product_of(nests.limits, spatial & nests.along_last()) if loops else np.ones(n)
    reads = [access for access in nests.accesses if access.kind != "output"]
    loads, apart, together = np.zeros((max(1, len(reads)), n)), np.zeros(n), np.zeros(n)
    conflict = np.zeros(n)
    for place, read in enumerate(reads):
        loads[place], whole, by_lane = _loads(nests, read, start, vector, lanes)
        together += np.where(whole, loads[place], 0.0)
        apart += np.where(by_lane, loads[place], 0.0)
        conflict = np.maximum(
            conflict, _conflict(nests, read, spatial | (inside & nests.vector & by_lane[:, None]), target)
        )
    scattered = np.zeros(n, dtype=np.bool_)
    for access in nests.accesses:
        if access.kind == "output" and loops:
            scattered |= (vector > 1) & (nests.strides(access)[:, -1] > 1.0)
    rows, vectors = product_of(nests.limits, spatial) / along, along * np.ceil(vector / lanes)
    return Tile(
        start=start,
        vector=vector,
        rows=rows,
        vectors=vectors,
        reduction=product_of(nests.limits, inside & nests.reduces),
        loads=loads.sum(axis=0),
        whole=together,
        lanes_loaded=apart,
        largest=loads.max(axis=0),
        conflict=conflict,
        scattered=scattered,
        copies=_copies(nests, inside, rows * vectors, anchor),
    )


def product_of(values: Array, chosen: Flags) -> Array:
    """Product of the chosen values of each row, 1 where none is."""
    return np.asarray(np.where(chosen, values, 1.0).prod(axis=1))


def at(values: Array, column: Places) -> Array:
    """One value of each row."""
    return np.asarray(np.broadcast_to(values, (len(column), values.shape[1]))[np.arange(len(column)), column])


def _copies(nests: Nests, inside: Flags, sums: Array, anchor: Stage) -> Array:
    """Sums in place of each: of products of floats that a loop of the reduction adds to again."""
    reduces = nests.reduces & (nests.limits > 1)
    if not anchor.dtype.is_float or not reduces.shape[1]:
        return np.ones(len(sums))
    last = reduces.shape[1] - 1 - np.argmax((reduces & inside)[:, ::-1], axis=1)
    steps = np.where((reduces & inside).any(axis=1), at(nests.limits, last), 1.0)
    apart = (reduces & ~inside).any(axis=1) & nests.vector[:, -1]
    found = np.frompyfunc(lambda few, n: copies(int(few), int(n)), 2, 1)(sums, steps)
    return np.where(apart, found.astype(np.float64), 1.0)


def _start(nests: Nests) -> Places:
    """Where the innermost run of vector, unrolled and one-iteration loops begins, shape (n,)."""
    n, loops = nests.limits.shape
    ends = ~(nests.vector | nests.unrolled) & (nests.limits > 1)
    after_last = loops - np.argmax(ends[:, ::-1], axis=1) if loops else np.zeros(n, dtype=np.intp)
    return np.where(ends.any(axis=1), after_last, 0)


def _loads(
    nests: Nests, read: Access, start: Places, vector: Array, lanes: int
) -> tuple[Array, Flags, Flags]:
    """Load instructions of one tile, and whether each is of a whole vector, as lanes lie side by side, or of a lane."""
    elements = at(nests.elements(read), start)
    if not nests.limits.shape[1]:
        return elements, *np.zeros((2, len(elements)), dtype=np.bool_)
    step = nests.strides(read)[:, -1]
    whole = (vector > 1) & (step == 1.0)
    return np.where(whole, np.ceil(elements / lanes), elements), whole, (vector > 1) & (step > 1.0)


def _conflict(nests: Nests, read: Access, loops: Flags, target: Target) -> Array:
    """Lines of a set that some loops of a tile ask for at once, over those that it holds; 0 where lines are shared."""
    sets = max(1, target.l1_bytes // (LINE_BYTES * _WAYS))
    step = np.rint(nests.strides(read) * read.element_bytes)
    lines = (step // LINE_BYTES).astype(np.int64)
    apart = loops & (lines > 0) & (step % LINE_BYTES == 0)
    different = sets // np.gcd(lines, sets)
    return np.asarray(np.where(apart, nests.limits / different, 0.0).max(axis=1, initial=0.0)) / _WAYS
