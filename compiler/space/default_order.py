"""The analytic default of the order of loops over tiles: the one under which memory keeps up with the multiply-adds.

A tile takes the time of its multiply-adds, or of the bytes that it needs and the tile before it did not, whichever
is longer: fetching is hidden behind arithmetic, as long as it is spread over the tiles. An operand's slice is fetched
where a loop that it depends on moves, or one around that. It comes from the second cache where all that is touched
within one iteration of the loop that asks for it again fits in half of that cache, else from beyond; from the first,
by the same rule, for nothing; from memory, where it is more than one may count on of the last. Results that are
stored in runs far apart cost whole bursts.

Several threads share the outermost loop out. Along the axis that the kernels before share out, which is the outermost
in memory but for channels of few places (`shared_axis`), each of them finds what it stored; along any other, most of
the data comes from another core. What does not depend on that loop, each of them fetches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from compiler.scalar import loads
from compiler.space.structure import TileAxes, packable, shared_axis
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

if TYPE_CHECKING:
    from compiler.space.register_tile import RegisterTile

MEMORY, FAR, NEAR = 1 / 3, 1 / 6, 1 / 24
"""Cycles per byte from beyond what one may count on of the last cache, from beyond the second, and from that."""
REMOTE = 1 / 4
"""Cycles per byte that another core has written: 10 to 25 GB/s between two cores of a Granite Rapids."""
COUNTED_ON = 4
"""The part of the last cache that one may count on: other cores, and what runs on them, fill the others."""
SHARES_PER_THREAD = 4
"""Shares of a loop that threads share out."""
BURST = 512
"""Bytes that a run in another page costs at least."""
LEAST_READS, LEAST_READS_ON_ONE_PIPE = 4, 2
"""Times that a panel of constants is read so that the next one is there in time (compiler/codegen/ahead.py)."""
EQUAL = 1 + 1e-6
"""What sums of the same terms differ by."""
OPEN = 0.1
"""Share of the time of fetching that is never hidden: it settles what is equal otherwise."""

ACROSS = "across"
"""The order that has blocks of rows outermost, around all other axes, and the rows of one innermost."""

Loop = tuple[str, int]
"""The axis that a loop runs over (or part of it), and its trip count."""


@dataclass(frozen=True, slots=True)
class _Access:
    """An operand of the reduction, or the result: the axes that it depends on, its bytes, whether it is packed."""

    axes: frozenset[str]
    size_bytes: int
    packed: bool = False


@dataclass(frozen=True, slots=True)
class TileTraffic:
    """What orders are judged by.

    Attributes:
        reads: operands of the reduction.
        result: what is stored.
        panel: the axis of the vectors.
        nearest, near, far: bytes that stay in the first cache, in the second, and in the last.
        least_reads: LEAST_READS of the target.
        rows: of a tile.
        cycles: of its multiply-adds.
        threads: that share the outermost loop out.
        shared: the axis along which who reads the result shares it out.
    """

    reads: tuple[_Access, ...]
    result: _Access
    panel: str
    nearest: int
    near: int
    far: int
    least_reads: int
    rows: int
    cycles: float
    threads: int = 1
    shared: str = ""


def tile_traffic(tile: RegisterTile, rows: int, cycles: float) -> TileTraffic:
    """Of tiles of so many rows, whose multiply-adds take so many cycles."""
    workload, anchor, store, axes, target = tile.workload, tile.anchor, tile.store, tile.axes, tile.target
    result = _Access(frozenset(a.name for a in store.axes), workload.buffers[store.target].size_bytes)
    nearest, near = target.l1_bytes // 2, target.l2_bytes // 2
    least = LEAST_READS_ON_ONE_PIPE if target.halves_vectors else LEAST_READS
    reads = _reads(workload, anchor)
    constants = {name for read in reads if read.packed for name in read.axes}
    return TileTraffic(
        reads=reads,
        result=result,
        panel=axes.vector.name,
        nearest=nearest,
        near=near,
        far=counted_on(target),
        least_reads=least,
        rows=rows,
        cycles=cycles,
        threads=tile.threads,
        shared=shared_axis(workload, store, constants),
    )


def counted_on(target: Target) -> int:
    """Bytes that are still in the last cache when they are read again, whatever runs beside."""
    return max(target.l3_bytes // COUNTED_ON, target.l2_bytes)


def cheapest_order(orders: Mapping[str, Sequence[Loop]], traffic: TileTraffic) -> str:
    """The name of the order, loops outermost first, that takes the least time; the first of equals."""
    whole = dict(orders.get("inside", ()))
    costs = {
        name: _cycles(traffic, loops) + _exchanged(traffic, loops) + _idle(traffic, loops, whole)
        for name, loops in orders.items()
    }
    least = min(costs.values())
    return next(name for name, cost in costs.items() if cost <= least * EQUAL)


def tile_loops(
    axes: TileAxes, rows: int, columns: int, order: str, block: int = 0, beside: int = 1
) -> list[Loop]:
    """The loops over tiles under an order (register_tile.py), outermost first; `block`: the length of one."""
    panel = (axes.vector.name, -(-axes.vector.size // columns))
    places = {id(axes.row): rows, id(axes.beside): beside}
    rest = [(a.name, -(-a.size // places.get(id(a), 1))) for a in axes.loops]
    if order == "outside" or not rest:
        return [panel, *rest]
    if order == "inside":
        return [*rest, panel]
    if order == ACROSS and axes.row is not None:
        others = [loop for loop in rest if loop[0] != axes.row.name]
        count = next(count for name, count in rest if name == axes.row.name)
        return [(axes.row.name, -(-count // block)), *others, panel, (axes.row.name, block)]
    (name, size), *inner = rest
    return [(name, -(-size // block)), panel, (name, block), *inner]


def _reads(workload: Workload, anchor: Stage) -> tuple[_Access, ...]:
    found, packs = {}, packable(workload, anchor)
    for load in loads(anchor.body):
        names = frozenset(name for index in load.indices for name in index.names())
        found[load.buffer] = _Access(names, workload.buffers[load.buffer].size_bytes, load.buffer in packs)
    return tuple(found.values())


def _cycles(traffic: TileTraffic, around: Sequence[Loop]) -> float:
    """Of all tiles: the outermost loop that moved tells what the next tile has to fetch."""
    loops = [(axis, count) for axis, count in around if count > 1 or axis == traffic.panel]
    costs = [(_innermost(read, loops), _fetch(traffic, read, loops)) for read in traffic.reads]
    stored = _store(traffic, loops)
    spread = [_spread(traffic, read, loops) for read in traffic.reads]
    evenly = stored + sum(cost / over for (_, cost), over in zip(costs, spread, strict=True) if over > 1)
    total, before = 0.0, 0
    for place in range(len(loops)):
        tiles = prod(count for _, count in loops[: place + 1])
        at_once = (c for (last, c), over in zip(costs, spread, strict=True) if last >= place and over == 1)
        fetching = evenly + sum(at_once)
        total += (tiles - before) * (max(traffic.cycles, fetching) + OPEN * fetching)
        before = tiles
    return total


def _exchanged(traffic: TileTraffic, loops: Sequence[Loop]) -> float:
    """Cycles of all threads for what others wrote, and for what each of them fetches again."""
    first = next((axis for axis, count in loops if count > 1), None)
    if traffic.threads == 1 or first is None:
        return 0.0
    others = traffic.threads - 1
    total = 0.0
    for read in traffic.reads:
        if first not in read.axes:
            total += others * read.size_bytes * (FAR if read.packed else REMOTE)
        elif not read.packed and first != traffic.shared:
            total += others / traffic.threads * read.size_bytes * REMOTE
    if first != traffic.shared:
        total += others / traffic.threads * traffic.result.size_bytes * REMOTE
    return total


def shared_loops(loops: Sequence[Loop], threads: int) -> int:
    """How many of the outer loops are shared out together, so that every thread gets several shares."""
    count, shares = 1, loops[0][1]
    while count < len(loops) and shares < SHARES_PER_THREAD * threads:
        shares *= loops[count][1]
        count += 1
    return count


def _idle(traffic: TileTraffic, loops: Sequence[Loop], whole: Mapping[str, int]) -> float:
    """Cycles that threads wait for the one with the most tiles; `whole`: tiles along each axis."""
    threads = traffic.threads
    if threads == 1 or not loops:
        return 0.0
    (first, blocks), *inner = loops[: shared_loops(loops, threads)]
    of_block = prod(count for axis, count in loops[1:] if axis == first)
    others = prod(count for axis, count in inner if axis != first)
    most = -(-blocks * others // threads) * of_block
    tiles = prod(whole.values())
    return traffic.cycles * tiles * max(0.0, threads * most / (whole.get(first, blocks) * others) - 1)


def _spread(traffic: TileTraffic, read: _Access, loops: Sequence[Loop]) -> int:
    """Tiles over which a slice arrives: those that read the one before, where code fetches ahead."""
    tiles = prod(count for _, count in loops[_innermost(read, loops) + 1 :])
    ahead = read.packed and read.size_bytes > traffic.near and tiles >= traffic.least_reads
    return tiles if ahead else 1


def _innermost(read: _Access, loops: Sequence[Loop]) -> int:
    """Place of the innermost loop that an operand depends on."""
    return max((place for place, (axis, _) in enumerate(loops) if axis in read.axes), default=-1)


def _fetch(traffic: TileTraffic, read: _Access, loops: Sequence[Loop]) -> float:
    """Mean cycles of fetching a slice of an operand."""
    near, nearest, beyond = 1.0, 1.0, FAR
    for place, (axis, count) in enumerate(loops):
        inside = {name for name, _ in loops[place + 1 :]}
        if axis in read.axes or not inside & read.axes:
            continue
        touched = _touched(traffic, loops, place)
        if touched <= traffic.nearest:
            nearest *= count
        elif touched <= traffic.near:
            near *= count
        elif touched > traffic.far:
            beyond = MEMORY
    return _slice(read, loops) * (beyond + (near - 1) * NEAR) / (near * nearest)


def _store(traffic: TileTraffic, loops: Sequence[Loop]) -> float:
    """Cycles of storing a tile: its lines are fetched and written back."""
    run = _slice(traffic.result, loops) / traffic.rows
    panel = next(place for place, (axis, _) in enumerate(loops) if axis == traffic.panel)
    if _touched(traffic, loops, panel) > traffic.near:
        run = max(run, BURST)
    return 2 * FAR * run * traffic.rows


def _touched(traffic: TileTraffic, loops: Sequence[Loop], place: int) -> float:
    """Bytes that one iteration of a loop touches."""
    return sum(_slice(access, loops[: place + 1]) for access in (*traffic.reads, traffic.result))


def _slice(access: _Access, around: Sequence[Loop]) -> float:
    """Bytes of an operand that one iteration of all these loops touches."""
    return access.size_bytes / prod(count for axis, count in around if axis in access.axes)
