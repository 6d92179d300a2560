"""The analytic default of a register tile: what the rules pick without measuring.

A simple model of one core: a tile of r rows and v vectors costs, per step of the reduction, r*v multiply-adds, v vector
loads and r scalar loads. Two loads a cycle and enough independent accumulators to cover the latency of a multiply-add
are assumed; edges count as full tiles. Nothing here knows a particular machine: measuring finds the rest.
"""

from __future__ import annotations

from compiler.space.space import Value
from compiler.space.structure import TileAxes
from compiler.target import Target

LATENCY = 8
"""Multiply-adds in flight that hide their latency on two pipes."""


def default_values(axes: TileAxes, target: Target, threads: int) -> dict[str, Value]:
    """A value for every knob of the rule; the rule takes its nearest choice."""
    rows, vectors = _tile(axes, target)
    tiles = _tiles(axes, vectors)
    parallel = 1
    while parallel < len(tiles) and _product(tiles[:parallel]) < 4 * threads:
        parallel += 1
    return {
        "rows": rows,
        "vectors": vectors,
        "lanes": axes.lanes,
        "order": "outside",
        "reduce": 0,
        "unroll": 1,
        "parallel": parallel,
    }


def _tile(axes: TileAxes, target: Target) -> tuple[int, int]:
    row_size = axes.row.size if axes.row is not None else 1
    panels = -(-axes.vector.size // axes.lanes)
    best: tuple[float, int, int] = (float("inf"), 1, 1)
    for vectors in range(1, min(4, panels) + 1):
        for rows in range(1, min(16, row_size) + 1):
            if rows * vectors + vectors + 1 > target.vector_registers:
                continue
            tiles = -(-row_size // rows) * -(-panels // vectors)
            cycles = max(rows * vectors, LATENCY, (rows + vectors) / 2) + 0.5 * (rows + vectors)
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
