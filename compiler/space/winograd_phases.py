"""What surrounds the products of Winograd's algorithm: the transforms of its data and of its outputs.

Each is a phase of its own. A transform reads one tile per iteration and keeps its sums in vector registers; both loops
over the entries of the tile are unrolled, so that the constant matrices become literals and their zeros nothing.
"""

from __future__ import annotations

from compiler.loop.ir import LoopKind
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Reorder, Split, Step
from compiler.schedule.winograd import find_convolution, winograd
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Value
from compiler.space.structure import tile_axes
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

TILES = (2, 3, 4)
TAPS = 3
NEAR_BEST = 2.0
"""Tiles whose number of multiplications is within this factor of the best are offered."""


def winograd_tiles(workload: Workload) -> tuple[int, ...]:
    """Tile sizes worth trying: those that need the fewest multiplications, edges included; none where direct does."""
    found = find_convolution(workload)
    if found is None or found.rows[0][1].size != TAPS:
        return ()
    sizes = [spatial.size for spatial, _ in found.rows]
    direct = sizes[0] * sizes[1] * TAPS * TAPS
    costs = {}
    for m in TILES:
        tiles = -(-sizes[0] // m) * -(-sizes[1] // m)
        costs[m] = tiles * (m + TAPS - 1) ** 2
    best = min(costs.values())
    return tuple(m for m, cost in costs.items() if cost < direct and cost <= NEAR_BEST * best)


class WinogradPhases:
    """The rewritten Workload, and the Steps of its first and last phase."""

    def __init__(self, workload: Workload, m: int, target: Target) -> None:
        """Rewrite the Workload with tiles of m x m outputs."""
        found = find_convolution(workload)
        if found is None:
            msg = "the workload is no convolution with stride 1"
            raise ValueError(msg)
        self._found, self._m = found, m
        self.algorithm = Algorithm("winograd", (m,))
        self.workload = winograd(workload, (m,))
        self._by_name: dict[str, Stage] = {s.name: s for s in self.workload.stages}
        self._target = target

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The batch of matrix products, which the register tile computes."""
        return self._by_name["product_sum"], self._by_name["product"]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """Both transforms, and the tile of the products between them."""
        return [*self._before(), *tile.steps(values), *self._after()]

    def _before(self) -> list[Step]:
        """The data's transform: one row of entries at a time, channels in the lanes."""
        lanes = tile_axes(self.workload, self._by_name["data"], self._target).lanes
        channel = self._found.channel.name
        batch = [a.name for a in self._found.batch]
        outer = [*batch, "t0", "t1", f"{channel}.o"]
        return [
            self.algorithm,
            Split("data", channel, lanes),
            Reorder("data", (*outer, "e0", "e1", f"{channel}.i")),
            ComputeAt("data_sum", "data", "e0"),
            Reorder("data_sum", ("e0", *batch, "t0", "t1", "j0", "j1", "e1", channel)),
            *_bind("data_sum", unrolled=("j0", "j1", "e1"), vector=channel),
            *_bind("data", unrolled=("e0", "e1"), vector=f"{channel}.i"),
            *share("data", outer[:-1]),
        ]

    def _after(self) -> list[Step]:
        """The outputs' transform and the map after it: a tile of outputs at a time, output channels in the lanes."""
        store = self.workload.stages[-1]
        lanes = tile_axes(self.workload, store, self._target).lanes
        maps = self._found.maps.name
        (row, _), (column, _) = self._found.rows
        batch = [a.name for a in self._found.batch]
        outer = [*batch, f"{row.name}.o", f"{column.name}.o", f"{maps}.o"]
        inner = (f"{row.name}.i", f"{column.name}.i")
        anchor = self._by_name["anchor"]
        return [
            *(Split(store.name, a.name, self._m) for a in (row, column)),
            Split(store.name, maps, lanes),
            Reorder(store.name, (*outer, *inner, f"{maps}.i")),
            ComputeAt("anchor", store.name, f"{maps}.o"),
            Reorder("anchor", (*batch, anchor.reduce_axes[0].name, row.name, column.name, maps)),
            *_bind("anchor", unrolled=(anchor.reduce_axes[0].name, row.name, column.name), vector=maps),
            *_bind(store.name, unrolled=inner, vector=f"{maps}.i"),
            *share(store.name, outer[:-1]),
        ]


def _bind(stage: str, *, unrolled: tuple[str, ...], vector: str) -> list[Step]:
    steps: list[Step] = [Bind(stage, name, LoopKind.UNROLLED) for name in unrolled]
    return [*steps, Bind(stage, vector, LoopKind.VECTOR)]
