"""The analytic default of a register tile: what the rules pick without measuring.

A simple model of one core: a tile of r rows and v vectors costs, per step of the reduction, r*v multiply-adds, v
vector loads and r scalar loads. As many loads as multiply-adds a cycle and enough independent accumulators to cover
their latency are assumed; tiles at the edges count as what they are. A core that starts one multiply-add in a cycle
has loads to spare (`_narrow`). Where no operand is shared between the rows and vectors of a tile (depthwise
convolution, pooling), a larger one only reads further apart: it ends where latency is hidden, and is as high as
windows along the rows share what they read; memory is read from end to end where panels would crowd a few sets of the
first cache.
Nothing here knows a particular machine: measuring finds the rest.
"""

from __future__ import annotations

from math import prod

from compiler.index import FloorDiv
from compiler.scalar import FAR, loads
from compiler.space.chains import CHAIN, has_long_chain
from compiler.space.crowding import crowds
from compiler.space.default_order import cheapest_order, shared_loops, tile_traffic
from compiler.space.depth import MIN_ROWS, default_depth
from compiler.space.dot_phases import unrolled_groups
from compiler.space.down_tile import HIGHEST, cuts, down_default, shares_beside
from compiler.space.overlap import APART, own_share, steps_apart
from compiler.space.register_tile import HEIGHTS, RegisterTile
from compiler.space.space import Value
from compiler.space.structure import TileAxes
from compiler.space.tile_cycles import LATENCY, panels_of, saved_products, tiles_cycles
from compiler.workload.ir import Stage

ALONE_BYTES = 256
"""Constants that a step of a row reads which they serve alone: how they arrive decides, and they do sooner where it is
four lines at a time than eight. Sums that are too few are spread."""

FILLED, TALLEST = 4, 8
"""Multiply-adds in flight that hide their latency, and the loads of their operands, on one pipe; and rows of a tile for
it, more of which bring nothing."""

FEW_PANELS = 2
"""Vectors along the columns up to which joining rows in the last one takes longer than it saves on one pipe."""

EVEN = 1.01
"""Of the cycles of the best tile, what as many tiles of almost the same height may take: the last one is not small."""

EVEN_VECTORS, EVEN_LEAST, EVEN_WANTED, EVEN_MOST = 2, 7, 8, 10
"""Vectors of a tile on two pipes whose constants come from far, and its rows: the fewest, the best, the most."""

EVEN_SERVED = 64
"""Rows up to which such a tile is narrow: more of them hide how the constants arrive."""

FEW_TILES = 2
"""Such tiles of a panel up to which less of their innermost loop is unrolled."""

EVEN_REST = 0.6
"""Share of its rows that the last of such tiles has at least."""

WIDE = (4, 3, 2)
"""Vectors of a tile that reads constants once on one pipe, the best first, if they leave no rest."""

BEGIN = 0.5
"""Multiply-adds that take as long as beginning and ending a tile on one pipe, per step of the reduction."""


USUAL_HEIGHT = 16
"""Most rows of a tile that has not all of them."""

SHORT = 8
"""Iterations of an innermost loop that are unrolled completely: it would cost as much as one of them."""

LONG = 128
"""Iterations of an innermost loop of which eight are unrolled where a tile is small."""

BODY, SLOW_BODY = 64, 32
"""Multiply-adds of an unrolled body among which the counting is lost, on two pipes and on one; more of them only take
longer to compile."""

CLUSTERED = 16
"""Registers up to which a tile of one vector is no higher than hides latency: LLVM brings the vectors of several steps
at once, and a higher tile has no registers for them. A vector for eight rows is as good as one for fourteen."""

WHOLE_WINDOW = 32
"""Iterations of a reduction that are unrolled completely, so that neighbouring places share what they read."""

FEW_ROWS = 2
"""Rows of a tile where memory is read from end to end and windows share little, so that more would only read further
apart: so many where they share another operand, or there are not enough vectors for one row alone."""


def default_values(tile: RegisterTile) -> dict[str, Value]:
    """A value for every knob of the rule; the rule takes its nearest choice."""
    axes, anchor = tile.axes, tile.anchor
    streams = _streams(axes, anchor)
    _, rows, vectors = _tile(tile, streams=streams)
    first, beside = "inside" if axes.is_down or _end_to_end(tile, vectors) else "", 1
    few, wide = _few_rows(tile)
    if shares_beside(tile):
        (rows, beside, vectors), first = down_default(tile)
    elif not axes.is_down and rows > few and wide > 1 and reads_apart(tile):
        rows, vectors = few, wide
    orders = tile.loops_by_order({"rows": rows, "beside": beside, "vectors": vectors})
    points = prod(size for _, size in tile.sums)
    places = rows * beside
    cycles = places * vectors * tile.copies * points / tile.target.multiply_adds
    if first == "outside" and tile.threads > 1:
        # Panel by panel as well, but inside blocks of rows, where that leaves more of the data to who stored it.
        orders, first = {name: loops for name, loops in orders.items() if name != "inside"}, ""
    order = first if first in orders else cheapest_order(orders, tile_traffic(tile, places, cycles))
    parallel, depth = shared_loops(orders[order], tile.threads), default_depth(tile, vectors)
    if depth < points:
        order, parallel = "outside", len(orders[order])
    unroll = (
        _unroll(tile, places, vectors, streams=streams)
        if tile.dot is None
        else unrolled_groups(tile.anchor, *tile.dot)
    )
    return {
        "rows": rows,
        "beside": beside,
        "vectors": vectors,
        "order": order,
        "depth": depth,
        "reduce": _rotation(tile) if streams and unroll < points else 0,
        "unroll": unroll,
        "parallel": parallel,
    }


def reads_apart(tile: RegisterTile) -> bool:
    """Whether memory is best read from end to end, and windows along the rows share little of it."""
    _, rows, vectors = _tile(tile, streams=_streams(tile.axes, tile.anchor))
    row = tile.axes.row.name if tile.axes.row is not None else ""
    return rows > 1 and _end_to_end(tile, vectors) and own_share(tile.anchor, row, rows) > APART


def _end_to_end(tile: RegisterTile, vectors: int) -> bool:
    """Whether memory is read from end to end, by panels of so many vectors.

    So it is where panels crowd the first cache's sets, where what is read and stored leaves the second cache before it
    is used again, and where nothing that is loaded for the lanes serves other places.
    """
    axes, anchor = tile.plain_axes, tile.anchor
    if not _streams(axes, anchor):
        return False
    crowded = crowds(tile.workload, anchor, axes, vectors, tile.target)
    return crowded or _moved_bytes(tile) > tile.target.l2_bytes or not _shares_lanes(axes, anchor)


def _moved_bytes(tile: RegisterTile) -> int:
    """What all tiles read and store."""
    buffers = tile.workload.buffers
    return sum(
        buffers[name].size_bytes
        for name in {load.buffer for load in loads(tile.anchor.body)} | {tile.store.target}
    )


def _few_rows(tile: RegisterTile) -> tuple[int, int]:
    """Rows and vectors of a tile for windows that share little."""
    few = FEW_ROWS if _shares_rows(tile.axes, tile.anchor) or tile.panels < LATENCY else 1
    return few, min(tile.panels, LATENCY // few)


def _unroll(tile: RegisterTile, rows: int, vectors: int, *, streams: bool) -> int:
    """A whole window where it is small, else some of the innermost loop, if possible so that none is left over.

    Few where every second panel of constants comes from far: four multiplications of two vectors each take a third
    longer where the panel begins at a multiple of 256 bytes, on a Zen 5 core, and two never do.
    """
    sizes, accumulators = [size for _, size in tile.sums], rows * vectors * tile.copies
    registers = tile.target.vector_registers
    chains = has_long_chain(tile.store) and CHAIN * accumulators > registers
    if streams and prod(sizes) <= WHOLE_WINDOW and not (chains and len(sizes) > 1):
        return prod(sizes)
    if not sizes or sizes[-1] <= SHORT:
        # A tall tile has enough to do in one step; what windows share from step to step would fill its registers.
        steps = prod(sizes[-1:])
        row = tile.axes.row.name if tile.axes.row is not None else ""
        apart = steps_apart(tile.anchor, row, tile.sums[-1][0]) if sizes else 1
        held = accumulators + rows + 1 + (apart - 1) * (rows - 1)
        if 1 < apart < steps and held > registers:
            # A loop that runs once is none: its step would follow the others.
            return max(u for u in tile.unrolls if u <= apart) if steps >= 2 * apart else 1
        much = rows > USUAL_HEIGHT or accumulators > tile.most_unrolled
        return 1 if much else next(u for u in tile.unrolls if u >= steps)
    wanted, usual = _unrolls(tile, rows, accumulators, streams=streams)
    return next((u for u in wanted if sizes[-1] % u == 0), usual)


def _unrolls(
    tile: RegisterTile, rows: int, accumulators: int, *, streams: bool
) -> tuple[tuple[int, ...], int]:
    """How much of the innermost loop is unrolled: the best first, and how much if each of them leaves a rest."""
    size, usual = tile.sums[-1][1], 4
    wanted: tuple[int, ...] = (8, 4, 3, 2) if size >= LONG and 8 * accumulators <= BODY else (4, 3, 2)
    row_size = tile.axes.row.size if tile.axes.row is not None else 1
    if _has_one_pipe(tile):
        # Where vectors at the edge hold products of several steps, those stand in one body.
        if tile.folds == 1 and not streams:
            wanted = tuple(u for u in wanted if u * accumulators <= SLOW_BODY) or (2, 3)
            usual = min(usual, wanted[0])
    elif not streams and row_size <= FEW_TILES * rows and _reads_far(tile, row_size):
        wanted, usual = (2, 3), 2
    return tuple(u for u in wanted if u % tile.folds == 0), usual


def _rotation(tile: RegisterTile) -> int:
    """The sum innermost that goes along the same dimension as places side by side: then they share what they read.

    Not where lanes share quotients of a dimension: its elements are neighbours that one load brings for all of a sum.
    """
    axes, names = tile.axes, [name for name, _ in tile.sums]
    # Groups of as many channels as there are lanes are not shared: each of their elements is one for all lanes.
    row, least = (axes.beside, axes.lanes) if axes.is_down else (axes.row, FAR)
    indices = [index for load in loads(tile.anchor.body) for index in load.indices]
    quotients = [a for index in indices for a, _ in index.terms if isinstance(a, FloorDiv)]
    shared = (q for q in quotients if axes.vector.name in q.value.names())
    if row is None or any(not isinstance(q.divisor, int) or q.divisor < least for q in shared):
        return 0
    moved = (
        place for index in indices for place, name in enumerate(names) if {row.name, name} <= index.names()
    )
    return (next(moved, -1) + 1) % len(names) if names else 0


def _streams(axes: TileAxes, anchor: Stage) -> bool:
    """Whether some operand has an element of its own for every row and lane, as no contraction with reuse has."""
    tile = {axes.vector.name} | ({axes.row.name} if axes.row is not None else set())
    return any(tile <= {n for index in load.indices for n in index.names()} for load in loads(anchor.body))


def _in_flight(tile: RegisterTile) -> int:
    """Vectors of sums of a tile that reads memory from end to end."""
    return min(LATENCY, ALONE_BYTES // tile.target.vector_bytes) if _is_alone(tile) else LATENCY


def _is_alone(tile: RegisterTile) -> bool:
    """Whether there is one row only, and each of its products has a constant of its own."""
    anchor, buffers = tile.anchor, tile.workload.buffers
    one = prod(a.size for a in anchor.axes) == tile.copies * tile.axes.vector.size
    every = {a.name for a in (*anchor.axes, *anchor.reduce_axes) if a.size > 1}
    return one and any(
        buffers[load.buffer].constant and every <= {n for index in load.indices for n in index.names()}
        for load in loads(anchor.body)
    )


def _shares_lanes(axes: TileAxes, anchor: Stage) -> bool:
    """Whether what is loaded for the lanes serves other places too; else rows are best read from end to end."""
    around = {a.name for a in axes.others} | ({axes.row.name} if axes.row is not None else set())
    read = [{n for index in load.indices for n in index.names()} for load in loads(anchor.body)]
    return any(axes.vector.name in names and not around <= names for names in read)


def _shares_rows(axes: TileAxes, anchor: Stage) -> bool:
    """Whether what is loaded for one row serves others too."""
    row = axes.row.name if axes.row is not None else ""
    return any(all(row not in index.names() for index in load.indices) for load in loads(anchor.body))


def output_cycles(tile: RegisterTile) -> float:
    """Multiply-adds, or what takes as long, of all tiles of the output in the default form."""
    cycles, *_ = _tile(tile, streams=_streams(tile.axes, tile.anchor))
    return cycles * prod(size for _, size in tile.sums) * prod(a.size for a in tile.axes.others)


def _tile(tile: RegisterTile, *, streams: bool) -> tuple[float, int, int]:
    """Multiply-adds per step of the reduction, rows and vectors of the best tile."""
    row_size = tile.axes.row.size if tile.axes.row is not None else 1
    if _has_one_pipe(tile) and not streams:
        return _narrow(tile, row_size)
    if not streams and _reads_far(tile, row_size):
        return _even(tile, row_size)
    registers = tile.target.vector_registers
    whole = _few_read_far(tile, row_size) and row_size in HEIGHTS and tile.registers(row_size, 1) <= registers
    most = _in_flight(tile) if streams else registers
    best: tuple[float, int, int, int] = (float("inf"), -1, 1, 1)
    for vectors in range(1, min(tile.widest, tile.panels) + 1):
        usual = range(1, min(HIGHEST if tile.axes.is_down else USUAL_HEIGHT, row_size) + 1)
        for rows in (*usual, row_size) if _is_one_line(tile, row_size, vectors) else usual:
            if not _fits(tile, rows, vectors) or rows * vectors * tile.copies > most:
                continue
            if rows > LATENCY and vectors == 1 and registers <= CLUSTERED and not tile.axes.is_down:
                continue
            if whole and rows < row_size:
                continue
            cycles = tiles_cycles(tile, rows, vectors, streams=streams)
            best = min(best, (cycles, -rows * vectors, rows, vectors))
    cycles, _, rows, vectors = best
    even = -(-row_size // -(-row_size // rows))
    if not streams and tiles_cycles(tile, even, vectors, streams=streams) < EVEN * cycles:
        rows = even
    return cycles, rows, vectors


def _is_one_line(tile: RegisterTile, rows: int, vectors: int) -> bool:
    """Whether a tile of all rows is taller than usual, and has all vectors: nothing is loaded twice.

    Not where the sum's steps go along the rows: one after the other they would share more than registers hold.
    """
    whole = vectors == tile.panels == 1 and USUAL_HEIGHT < rows <= HEIGHTS[-1] and not tile.axes.is_down
    steps = [name for name, size in tile.sums if size > 1]
    return whole and not _goes_along_rows(tile, steps[-1] if steps else "")


def _goes_along_rows(tile: RegisterTile, name: str) -> bool:
    """Whether a sum moves along the same dimension as the rows."""
    row = tile.axes.row.name if tile.axes.row is not None else ""
    return any({row, name} <= index.names() for load in loads(tile.anchor.body) for index in load.indices)


def _reads_far(tile: RegisterTile, row_size: int) -> bool:
    """Whether constants come from beyond the second cache for some rows, neither few nor many, with registers for them.

    Of many rows each panel reads all again.
    """
    size_bytes = sum(tile.workload.buffers[name].size_bytes for name in tile.packs)
    plain = tile.dot is None and tile.copies == 1 and tile.folds == 1 and tile.axes.lanes > 1
    if not plain or size_bytes <= tile.target.l2_bytes // 2:
        return False
    room = tile.panels >= EVEN_VECTORS and _fits(tile, EVEN_MOST, EVEN_VECTORS) and _has_own_constants(tile)
    return room and MIN_ROWS <= row_size <= min(EVEN_SERVED, tile.axes.vector.size)


def _even(tile: RegisterTile, row_size: int) -> tuple[float, int, int]:
    """A narrow tile: its panel of constants is soon read, and is near for the rows to come while the next one arrives.

    Of heights that need the fewest multiply-adds, one that leaves no small rest and is near to what hides latency.
    """
    best: tuple[float, bool, int, int] = (float("inf"), True, 0, 1)
    for rows in range(EVEN_LEAST, min(EVEN_MOST, row_size) + 1):
        cycles = sum(
            n * m * max(r * v, LATENCY)
            for r, n in cuts(row_size, rows)
            for v, m, _ in panels_of(tile.panels, EVEN_VECTORS)
        )
        rest = row_size % rows or rows
        best = min(best, (float(cycles), rest < EVEN_REST * rows, abs(rows - EVEN_WANTED), rows))
    return best[0], best[-1], EVEN_VECTORS


def _has_one_pipe(tile: RegisterTile) -> bool:
    """Whether one multiply-add of a vector by a scalar starts in a cycle, and two loads do."""
    return tile.target.halves_vectors and tile.dot is None and tile.axes.lanes > 1


def _narrow(tile: RegisterTile, row_size: int) -> tuple[float, int, int]:
    """The best tile on one pipe: of one vector, since a few rows hide what loads it.

    Its panels of constants are small: they stay in the first cache for the next rows, and the one after arrives evenly
    under the arithmetic where there are two tiles of rows at least. Fewer rows stand in one wider tile. A tile has all
    vectors where the last of them saves some.
    """
    far = _few_read_far(tile, row_size)
    heights = range(1, min(TALLEST, -(-row_size // 2) if far else row_size) + 1)
    widths = {1}
    if (tile.pairs or tile.folds > 1) and FEW_PANELS < tile.panels <= tile.widest:
        widths = {1, tile.panels}
    if far and row_size < 2 * FILLED and (wide := _wide(tile, row_size)):
        heights, widths = range(row_size, row_size + 1), {wide}
    best: tuple[float, int, int, int] = (float("inf"), 0, 1, 1)
    for vectors in widths:
        for rows in (r for r in heights if _fits(tile, r, vectors)):
            cycles = 0.0
            for r, n in cuts(row_size, rows):
                products = r * vectors * tile.copies - (saved_products(tile, r) / 2 if vectors > 1 else 0)
                cycles += n * -(-tile.panels // vectors) * (max(products, FILLED) + BEGIN)
            best = min(best, (cycles, -rows, rows, vectors))
    return best[0], best[2], best[3]


def _wide(tile: RegisterTile, rows: int) -> int:
    """Vectors of a tile that has all rows, without a rest where that is possible; 0 where two do not fit."""
    fitting = [v for v in WIDE if v <= tile.panels and _fits(tile, rows, v)]
    return next((v for v in fitting if tile.panels % v == 0), fitting[0] if fitting else 0)


def _fits(tile: RegisterTile, rows: int, vectors: int) -> bool:
    return tile.registers(rows, vectors) <= tile.target.vector_registers or rows * vectors == 1


def _few_read_far(tile: RegisterTile, rows: int) -> bool:
    """Whether constants come from beyond the second cache for few rows: best once, for all of them.

    Other places must have constants of their own.
    """
    size_bytes = sum(tile.workload.buffers[name].size_bytes for name in tile.packs)
    return rows < MIN_ROWS and size_bytes > tile.target.l2_bytes // 2 and _has_own_constants(tile)


def _has_own_constants(tile: RegisterTile) -> bool:
    """Whether constants serve one row of tiles alone: whatever moves around it has others."""
    read = [load for load in loads(tile.anchor.body) if load.buffer in tile.packs]
    return all(
        {a.name for a in tile.axes.others} <= {n for i in load.indices for n in i.names()} for load in read
    )
