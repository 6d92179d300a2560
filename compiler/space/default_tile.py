"""The analytic default of a register tile: what the rules pick without measuring.

A simple model of one core: a tile of r rows and v vectors costs, per step of the reduction, r*v multiply-adds, v vector
loads and r scalar loads. Two loads a cycle and enough independent accumulators to cover the latency of a multiply-add
are assumed; edges count as full tiles. Where no operand is shared between the rows and vectors of a tile (depthwise
convolution, pooling), a larger one only reads further apart: it ends where latency is hidden. Nothing here knows a
particular machine: measuring finds the rest.
"""

from __future__ import annotations

from compiler.scalar import loads
from compiler.space.space import Value
from compiler.space.structure import TileAxes
from compiler.target import Target
from compiler.workload.ir import Stage

LATENCY = 8
"""Multiply-adds in flight that hide their latency on two pipes."""


WHOLE_WINDOW = 32
"""Iterations of a reduction that are unrolled completely, so that neighbouring places share what they read."""


def default_values(axes: TileAxes, anchor: Stage, target: Target, threads: int) -> dict[str, Value]:
    """A value for every knob of the rule; the rule takes its nearest choice."""
    rows, vectors = _tile(axes, target, streams=_streams(axes, anchor))
    points = _product([a.size for a in anchor.reduce_axes])
    tiles = _tiles(axes, vectors)
    parallel = 1
    while parallel < len(tiles) and _product(tiles[:parallel]) < 4 * threads:
        parallel += 1
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": axes.lanes,
        "order": "outside" if _shares_lanes(axes, anchor) else "inside",
        "reduce": 0,
        "unroll": points if points <= WHOLE_WINDOW and _streams(axes, anchor) else 1,
        "parallel": parallel,
    }


def _streams(axes: TileAxes, anchor: Stage) -> bool:
    """Whether some operand has an element of its own for every row and lane, as no contraction with reuse has."""
    tile = {axes.vector.name} | ({axes.row.name} if axes.row is not None else set())
    return any(tile <= {n for index in load.indices for n in index.names()} for load in loads(anchor.body))


def _shares_lanes(axes: TileAxes, anchor: Stage) -> bool:
    """Whether what is loaded for the lanes serves other places too, so that their loops belong inside."""
    around = {a.name for a in axes.others} | ({axes.row.name} if axes.row is not None else set())
    read = [{n for index in load.indices for n in index.names()} for load in loads(anchor.body)]
    return any(axes.vector.name in names and not around <= names for names in read)


def _tile(axes: TileAxes, target: Target, *, streams: bool) -> tuple[int, int]:
    row_size = axes.row.size if axes.row is not None else 1
    panels = -(-axes.vector.size // axes.lanes)
    best: tuple[float, int, int] = (float("inf"), 1, 1)
    for vectors in range(1, min(4, panels) + 1):
        for rows in range(1, min(16, row_size) + 1):
            if rows * vectors + vectors + 1 > target.vector_registers or (
                streams and rows * vectors > LATENCY
            ):
                continue
            tiles = -(-row_size // rows) * -(-panels // vectors)
            edge = rows if streams else 0.5 * (rows + vectors)
            cycles = max(rows * vectors, LATENCY, (rows + vectors) / 2) + edge
            best = min(best, (tiles * cycles, -rows * vectors, rows))
    _, area, rows = best
    return rows, -area // rows


def _tiles(axes: TileAxes, vectors: int) -> list[int]:
    """Trip counts of the loops over tiles in the default order."""
    sizes = [-(-axes.vector.size // (axes.lanes * vectors))]
    sizes += [a.size for a in axes.others]
    return sizes + ([axes.row.size] if axes.row is not None else [])


def _product(values: list[int]) -> int:
    total = 1
    for value in values:
        total *= value
    return total
