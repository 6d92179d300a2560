"""Cost: the cycles that a candidate's products take, as its loops alone tell: a prediction that knows every Task.

    tiles  = norm(multiply-adds, loads, latency of the sums, bytes that pass the first two caches)
    core   = tiles + what does not fit the registers, surrounds tiles, or is stored between them
    cycles = norm(core, bytes that pass the last cache)

A norm of several times is near their largest: a core does all of them at once, but not perfectly. The rates are those
that explain the lab's pools best (`python -m benchmarks.search fit`); what they leave open, trees learn, which see each
of these times.
Bytes follow the usual model of caches: what loops touch is fetched once where all of it fits (Ansor's and TVM's
features count the same bytes; the roofline's ceilings are Williams, Waterman and Patterson's).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np

from compiler.instruction import INSTRUCTIONS
from compiler.target import Target
from compiler.workload.ir import Stage
from tuner.cost_model.nest import Array, Nests
from tuner.cost_model.tile import Tile, at, product_of

_PIPES = 2
"""Multiply-adds of vectors in a cycle, on the machines that the rates were fitted to."""
_FILLED = 1.1
"""Bytes that are touched in turn and stay, over a cache: somewhat more than it has, as part of that is still there."""
_AROUND_SUM = 6
"""Instructions for a vector of sums from its beginning to its store."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Cycles of one thing each.

    Attributes:
        load, single, lane: a load of a vector, of an element that all lanes share, of one lane more.
        latency: one sum after the other.
        window: instructions that a core looks ahead: over the end of the sums of a tile, where these are few.
        spill: a vector that the registers do not hold, in each step of the reduction.
        conflict: a step, for each time that a set of the first cache is too small.
        tile: what surrounds a tile; `sums`: what surrounds those that add to the same sums.
        ragged: share, of logarithms, of what loops cover beyond their stage that is not done: the last iterations of
            most loops are shorter.
        store: a vector of sums that is stored.
        apart: a lane of it, where lanes lie apart; `summed`: the same in each step.
        l1, l2, l3: a byte that passes the cache.
        other: an operation of the other stages, over the lanes.
        blocks, together: exponents of the norms, of a tile's times, and of the core's and the memory's.
    """

    load: float = 0.591
    single: float = 0.459
    lane: float = 0.433
    latency: float = 3.64
    window: float = 293.0
    spill: float = 0.0564
    conflict: float = 0.985
    tile: float = 0.132
    sums: float = 2.1
    ragged: float = 0.875
    store: float = 3.68
    apart: float = 0.689
    summed: float = 2.6
    l1: float = 0.0199
    l2: float = 0.031
    l3: float = 0.119
    other: float = 0.306
    blocks: float = 4.88
    together: float = 1.66


RATES = Rates()
"""Of CPUs that take whole vectors."""
HALVED = Rates(
    load=0.609, single=0.392, lane=0.143, latency=3.58, window=303.0, spill=0.019, conflict=0.928, tile=0.0947,
    sums=3.1, ragged=0.978, store=1.34, apart=0.59, summed=2.6, l1=0.027, l2=0.0162, l3=0.149, other=0.173, blocks=6.46,
    together=2.64,
)  # fmt: skip
"""Of those that halve their longest."""


def rates_for(target: Target) -> Rates:
    """The rates of its kind of CPU."""
    return HALVED if target.halves_vectors else RATES


@dataclass(frozen=True)
class ProductWork:
    """What a product does; shape (n,) each but `lanes`.

    Attributes:
        tile: what is done again and again.
        tiles: how often the tile runs, shorter ones at the ends included.
        kept: runs in a row that add to the same sums.
        waste: points that so many whole tiles cover over those of the stage.
        steps: of the reduction in a tile, those that one instruction takes together counted once.
        spilled: vectors beyond the registers.
        reduces: whether it adds up at all.
        bytes: that pass each cache, shape (n, 3).
        lanes: of a vector.
        passes: of a whole vector through a unit.
    """

    tile: Tile
    tiles: Array
    waste: Array
    kept: Array
    steps: Array
    spilled: Array
    reduces: Array
    bytes: Array
    lanes: int
    passes: float


@dataclass(frozen=True)
class Cycles:
    """Where the cycles of candidates go, shape (n,) each, of all their products; some are spent at the same time.

    Attributes:
        busy: multiply-adds, loads, latency and the bytes of the first two caches together, and sets that are too small.
        loads, latency: those alone.
        spilled: vectors that the registers do not hold.
        around: what surrounds tiles and sums.
        stored: storing sums, and lanes apart.
        l1, l2, l3: bytes that pass each cache.
        other: other stages.
    """

    busy: Array
    loads: Array
    latency: Array
    spilled: Array
    around: Array
    stored: Array
    l1: Array
    l2: Array
    l3: Array
    other: Array

    @staticmethod
    def none(count: int) -> Cycles:
        """No cycles yet, of so many candidates."""
        return Cycles(*np.zeros((len(CYCLES), count)))

    def add(self, places: list[int], more: Cycles) -> None:
        """Count what some of the candidates do besides."""
        for name in CYCLES:
            getattr(self, name)[places] += getattr(more, name)

    @property
    def compute(self) -> Array:
        """Of arithmetic."""
        return self.busy + self.spilled + self.around + self.stored + self.other

    @property
    def memory(self) -> Array:
        """Of moving bytes."""
        return self.l1 + self.l2 + self.l3

    def total(self, rates: Rates) -> Array:
        """Of the core and of memory, which overlap."""
        return _norm(rates.together, self.compute, self.l3)


CYCLES: tuple[str, ...] = tuple(f.name for f in fields(Cycles))


def product_work(nests: Nests, tile: Tile, target: Target, threads: int, anchor: Stage) -> ProductWork:
    """Of the nests of a stage."""
    outside = np.arange(nests.limits.shape[1]) < tile.start[:, None]
    counted = product_of(nests.limits, outside)
    # Loops over blocks of tiles end where the stage ends.
    needed = np.ceil(nests.spans[:, 0] / nests.spans[np.arange(len(counted)), tile.start]).prod(axis=1)
    tiles = np.minimum(counted, needed)
    return ProductWork(
        tile=tile,
        tiles=tiles,
        waste=tiles * product_of(nests.limits, ~outside) / anchor.points,
        kept=_kept(nests, tile),
        steps=tile.reduction / products(nests.instruction),
        spilled=np.maximum(0.0, tile.alive - target.vector_registers),
        reduces=np.where(nests.reduces.any(axis=1), 1.0, 0.0),
        bytes=np.column_stack(
            [_passing(nests, _FILLED * c, target.l1_bytes) * tiles / counted for c in caches(target, threads)]
        ),
        lanes=target.lanes(anchor.dtype.size_bytes),
        passes=_passes(target),
    )


def _passes(target: Target) -> float:
    """How often a whole vector passes a unit: twice on CPUs that halve it."""
    return _PIPES / target.multiply_adds


def product_cycles(work: ProductWork, rates: Rates) -> Cycles:
    """Of a product."""
    tile, whole = work.tile, work.tiles * work.waste**-rates.ragged
    joined = np.where(tile.copies > 1.0, tile.copies, 0.0) / work.kept
    multiply_adds = tile.accumulators * (work.steps + joined) * work.passes / _PIPES
    single = tile.loads - tile.whole - tile.lanes_loaded
    loads = tile.whole * rates.load * work.passes + single * rates.single + tile.lanes_loaded * rates.lane
    instructions = (tile.accumulators * work.steps + tile.whole + tile.lanes_loaded) * work.kept
    ahead = np.maximum(1.0, rates.window / (instructions + _AROUND_SUM * tile.accumulators))
    latency = rates.latency * work.steps / tile.copies * work.reduces / ahead
    conflicts = np.maximum(0.0, tile.conflict - 1.0) * tile.reduction * rates.conflict
    lanes_apart = tile.scattered * work.lanes
    stored = tile.accumulators / work.kept * rates.store * (work.passes + lanes_apart * rates.apart)
    summed = tile.accumulators * work.steps * lanes_apart * rates.summed
    l1, l2, l3 = work.bytes.T * np.array([rates.l1, rates.l2, rates.l3])[:, None]
    return Cycles(
        busy=_norm(rates.blocks, whole * multiply_adds, whole * loads, whole * latency, l1 + l2)
        + whole * conflicts,
        loads=whole * loads,
        latency=whole * latency,
        spilled=whole * work.spilled * work.steps * rates.spill * work.passes,
        around=whole * (rates.tile + rates.sums / work.kept),
        stored=whole * (stored + summed),
        l1=l1,
        l2=l2,
        l3=l3,
        other=np.zeros(len(whole)),
    )


def other_cycles(operations: Array, target: Target, rates: Rates) -> Cycles:
    """Of stages that no product is, by their operations."""
    cycles = Cycles.none(len(operations))
    cycles.other[:] = operations / target.lanes(4) * rates.other * _passes(target)
    return cycles


def least_cycles(anchor: Stage, target: Target) -> float:
    """Of a Workload's anchor, if every cycle did all the multiply-adds that a core can."""
    return anchor.points / (target.multiply_adds * target.lanes(anchor.dtype.size_bytes))


def products(instruction: str) -> float:
    """Products that one machine instruction adds to a lane: 1 without an instruction that adds several."""
    if not instruction:
        return 1.0
    entry = INSTRUCTIONS[instruction]
    return entry.group / len(entry.template)


def caches(target: Target, threads: int) -> tuple[int, int, int]:
    """Bytes of cache per thread; the last level is shared."""
    return target.l1_bytes, target.l2_bytes, max(1, target.l3_bytes // threads)


def _norm(exponent: float, *times: Array) -> Array:
    largest = np.maximum.reduce([*times, np.full_like(times[0], 1e-9)])
    return np.asarray(largest * sum((t / largest) ** exponent for t in times) ** (1 / exponent))


def _kept(nests: Nests, tile: Tile) -> Array:
    """Iterations of the reduction loops directly around the tile."""
    kept, going = np.ones(len(nests.limits)), np.ones(len(nests.limits), dtype=np.bool_)
    for place in reversed(range(nests.limits.shape[1])):
        around = (place < tile.start) & (nests.limits[:, place] > 1)
        kept = np.where(around & going & nests.reduces[:, place], kept * nests.limits[:, place], kept)
        going &= ~around | nests.reduces[:, place]
    return kept


def _passing(nests: Nests, size: float, near: int) -> Array:
    """Bytes that pass a cache: what the outermost loops touch that leave it there, as often as these begin anew.

    The loop around these passes by at most all that it touches, once: an iteration finds there what the one before has
    left, the rest of a line or of a window. Where all that a nest touches fits, the run before has left it there, but
    for constants of more than `near` bytes, which come from memory in every run (docs/decisions/0050).
    A buffer whose lines crowd into a few sets is thrown out of them by itself and its share of the others.
    """
    n, loops = nests.limits.shape
    touched = [nests.line_bytes(access) for access in nests.accesses]
    together = sum(touched, np.zeros((n, loops + 1)))
    trips = np.ones((n, loops + 1))
    trips[:, 1:] = np.cumprod(nests.limits, axis=1)
    total, far = np.zeros(n), np.zeros(n)
    for access, own in zip(nests.accesses, touched, strict=True):
        fits = together - own + nests.held_bytes(access) <= size
        fits[:, -1] = True
        first = np.argmax(fits, axis=1)
        moves = (nests.strides(access) > 0) & (np.arange(loops) < first[:, None]) & (nests.limits > 1)
        last = np.where(moves.any(axis=1), loops - np.argmax(moves[:, ::-1], axis=1), 0)
        around = np.maximum(0, first - 1)
        passing = np.minimum(at(own, first) * at(trips, last), at(own, around) * at(trips, around))
        total += passing * (2.0 if access.kind == "output" else 1.0)
        if access.kind == "constant":
            far += np.where(own[:, 0] > near, own[:, 0], 0.0)
    return np.where(together[:, 0] <= size, far, total)


def rates_of(values: Array) -> Rates:
    """Rates in the order of their fields."""
    return Rates(*(float(v) for v in values))


def values_of(rates: Rates) -> Array:
    """Inverse of `rates_of`."""
    return np.array(astuple(rates))
