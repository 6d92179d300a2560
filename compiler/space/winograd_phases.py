"""What surrounds the products of Winograd's algorithm: the transforms of its data and of its outputs.

Each is a phase of its own. A transform reads one tile per iteration and keeps its sums in vector registers; both loops
over the entries of the tile are unrolled, so that the constant matrices become literals and their zeros nothing.
"""

from __future__ import annotations

from functools import cached_property
from math import prod, sqrt

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.instruction import Instruction
from compiler.loop.ir import LoopKind
from compiler.scalar import Load
from compiler.schedule.convolution import Convolution, find_convolution
from compiler.schedule.cook_toom import cook_toom, growth
from compiler.schedule.copied_data import TYPES, copied_data
from compiler.schedule.padded import STAGE as PADDED
from compiler.schedule.padded import find_padding, padded
from compiler.schedule.space_to_batch import STAGE as SPREAD
from compiler.schedule.space_to_batch import find_dilation, space_to_batch
from compiler.schedule.steps import Algorithm, Bind, ComputeAt, Reorder, Split, Step
from compiler.schedule.winograd import winograd
from compiler.space.dot_phases import copy_steps, instructions
from compiler.space.estimate import algorithm_cycles
from compiler.space.register_tile import RegisterTile
from compiler.space.share import share
from compiler.space.space import Value
from compiler.space.structure import step_along, tile_axes
from compiler.space.vector_map import map_steps
from compiler.target import Target
from compiler.workload.ir import Stage, Workload

TILES = (2, 3, 4, 5, 6)
ROOM = 16
"""Channels from which the products outweigh the transforms."""
ROOM_OF_BYTES = 48
"""The same of bytes, whose direct form multiplies four times as many at once while transforms take as long."""
_GROUP = 2
"""Elements of a group of the instructions for words; copies are padded to it."""
ROUNDING = 0.75 * 2.0**-24
"""What float32 rounds by, nearly: errors add up like a random walk, and the largest of all outputs counts."""
SCATTERED = 2.5
"""Cycles for an element of a vector whose elements lie apart."""
NEAR_BEST = 2.0
"""Tiles whose number of multiplications is within this factor of the best are offered."""


def winograd_tiles(workload: Workload) -> dict[int, float]:
    """Tile sizes worth trying, and their multiplications, edges included, as a share of the direct form's.

    They are those that need the fewest; none where the direct form does.
    """
    source = winograd_source(workload, 1)
    found = None if source is None else find_convolution(source[1])
    if source is None or found is None:
        return {}
    if found.stride > 1 and not _has_room(found):
        return {}
    sizes, taps = [spatial.size for spatial, _ in found.rows], found.rows[0][1].size
    direct = prod(sizes) * taps ** len(sizes)
    costs = {}
    for m in TILES:
        if _possible(source[1], m):
            costs[m] = prod(-(-size // m) * (found.stride * (m - 1) + taps) for size in sizes)
    best = min(costs.values(), default=direct)
    return {m: cost / direct for m, cost in costs.items() if cost < direct and cost <= NEAR_BEST * best}


def _has_room(found: Convolution) -> bool:
    """Whether both transforms, which grow with the channels alone, are little beside the products."""
    room = ROOM if found.stage.dtype.is_float else ROOM_OF_BYTES
    return min(found.channel.size, found.maps.size) >= room


def winograd_source(workload: Workload, m: int) -> tuple[tuple[Algorithm, ...], Workload] | None:
    """What the algorithm starts from: a copy of what is padded, with room for whole tiles of m, of bytes channels last.

    Of a dilated window it is one of interleaved images. None where there is none.
    """
    if workload.stages[0].dtype.is_float:
        if find_dilation(workload) is not None:
            return (Algorithm("space_to_batch", (m,)),), space_to_batch(workload, (m,))
        if find_padding(workload) is None:
            return (), workload
        return (Algorithm("padded", (m,)),), padded(workload, (m,))
    copy = Algorithm("copied_data", (TYPES.index(DType.U8), _GROUP))
    try:
        return (copy,), copied_data(workload, copy.parameters)
    except ScheduleError:
        return None


def _possible(workload: Workload, m: int) -> bool:
    try:
        winograd(workload, (m,))
    except ScheduleError:
        return False
    return True


class WinogradPhases:
    """The rewritten Workload, and the Steps of its first and last phase."""

    def __init__(self, workload: Workload, m: int, target: Target, *, apart: bool = False) -> None:
        """Rewrite the Workload with tiles of m x m outputs; `apart`: tiles and entries by their coordinates."""
        source = winograd_source(workload, m)
        found = None if source is None else find_convolution(source[1])
        if source is None or found is None:
            msg = "the workload is no convolution"
            raise ValueError(msg)
        self._found, self._m = found, m
        dilation = find_dilation(workload)
        self._gaps = () if dilation is None else dilation.gaps
        copies, self._copied = source
        parameters = (m, 1) if apart else (m,)
        self.algorithms = (*copies, Algorithm("winograd", parameters))
        self.workload = winograd(self._copied, parameters)
        self._by_name: dict[str, Stage] = {s.name: s for s in self.workload.stages}
        self._target = target

    @property
    def dot(self) -> tuple[Instruction, str] | None:
        """The instruction for the products, and the axis whose neighbours it adds up; None where there is none."""
        if self.workload.stages[0].dtype.is_float:
            return None
        entries = instructions(self.workload, self.product_stages[0], self._target, self.product_stages[1])
        return next(((e, self._found.channel.name) for e in entries if e.group <= _GROUP), None)

    @property
    def stored(self) -> frozenset[str]:
        """Stages whose results lie in memory between the phases."""
        copies = {s.name for s in self.workload.stages[: len(self.algorithms) - 1]}
        return frozenset({*copies, "tiles", "product"})

    @property
    def error(self) -> float:
        """Rounding error relative to the largest output, which random data hardly ever exceed."""
        taps = self._found.rows[0][1].size
        return (
            ROUNDING
            * growth(cook_toom(self._m, taps, self._found.stride)) ** 2
            * sqrt(self._found.channel.size)
        )

    def cycles(self, target: Target, threads: int) -> float:
        """What it takes, nearly (compiler/space/estimate.py)."""
        return algorithm_cycles(self.workload, self.stored, target, threads) + SCATTERED * self._scattered

    @property
    def _scattered(self) -> int:
        """Elements that are read and stored one by one, since neighbouring channels are not neighbours in memory."""
        tiles, store = self._by_name["tiles"], self._store
        result = Load(store.target, store.target_indices)
        return (
            0 if _lies_along(self._copied, self._found.data, self._found.channel.name) else tiles.points
        ) + (0 if _lies_along(self._copied, result, self._found.maps.name) else store.points)

    @property
    def clearly(self) -> float:
        """Cycles, as a share of the direct form's, below which it is taken for faster without measuring.

        Tiles with a stride are larger beside what they give: the estimate is less sure of them.
        """
        return 0.9 if self._found.stride == 1 else 0.86

    @property
    def has_room(self) -> bool:
        """Whether the transforms are little beside the products."""
        return _has_room(self._found)

    @property
    def has_edges(self) -> bool:
        """Whether the last tiles stick out of the image."""
        return any(spatial.size % self._m for spatial, _ in self._found.rows)

    @property
    def product_stages(self) -> tuple[Stage, Stage]:
        """The batch of matrix products, which the register tile computes."""
        return self._by_name["product_sum"], self._by_name["product"]

    def steps(self, tile: RegisterTile, values: dict[str, Value]) -> list[Step]:
        """Both transforms, and the tile of the products between them."""
        return [*self.algorithms, *self._copy, *self._before, *tile.steps(values), *self._after]

    @cached_property
    def _copy(self) -> list[Step]:
        """What tiles overlap in is padded once; for all cores, which suits any number of threads."""
        if len(self.algorithms) == 1:
            return []
        copy = self.workload.stages[0]
        if copy.name in (PADDED, SPREAD):
            return map_steps(self.workload, copy, self._target, self._target.cores)
        return copy_steps(self.workload, self._target)

    @cached_property
    def _before(self) -> list[Step]:
        """The data's transform, shared out by tiles."""
        batch = [a.name for a in self._found.data_batch]
        return [*self._transformed(), *share("tiles", [*batch, *self._each("t")])]

    def _transformed(self) -> list[Step]:
        """The data's transform: one row of entries at a time, channels in the lanes."""
        lanes = tile_axes(self.workload, self._by_name["tiles"], self._target).lanes
        channel, batch = self._found.channel.name, [a.name for a in self._found.data_batch]
        tiles, entries, inputs = self._each("t"), self._each("e"), self._each("j")
        outer = [*batch, *tiles, f"{channel}.o"]
        steps: list[Step] = [
            Split("tiles", channel, lanes),
            Reorder("tiles", (*outer, *entries, f"{channel}.i")),
        ]
        if len(entries) == 1:
            steps += [
                ComputeAt("tiles_sum", "tiles", outer[-1]),
                Reorder("tiles_sum", (*batch, *tiles, *inputs, *entries, channel)),
                *bind("tiles_sum", unrolled=(*inputs, *entries), vector=channel),
            ]
        else:
            steps += [
                ComputeAt("tiles_sum", "tiles", "e0"),
                ComputeAt("tiles_rows", "tiles", "e0"),
                Reorder("tiles_rows", ("e0", *batch, *tiles, *inputs, channel)),
                *bind("tiles_rows", unrolled=inputs, vector=channel),
                Reorder("tiles_sum", ("e0", *batch, *tiles, "j1", "e1", channel)),
                *bind("tiles_sum", unrolled=("j1", "e1"), vector=channel),
            ]
        return [*steps, *bind("tiles", unrolled=entries, vector=f"{channel}.i")]

    @cached_property
    def _after(self) -> list[Step]:
        """The outputs' transform and the map after it: a tile of outputs at a time."""
        store, apart = self._store.name, {g.row.name for g in self._gaps}
        gaps = {g.row.name: g.dilation for g in self._gaps if g.row.name in self._rows}
        split: list[Step] = []
        for row in self._rows:
            split.append(Split(store, row, self._m * gaps.get(row, 1)))
            split += [Split(store, f"{row}.i", gaps[row])] if row in gaps else []
        known = {a.name for a in self._found.batch} | apart - gaps.keys()
        batch = [a.name for a in self._store.axes if a.name in known]
        images = [f"{row}.i.i" for row in gaps]
        outer = [*batch, *images, *(f"{row}.o" for row in self._rows)]
        places = [f"{row}.i.o" if row in gaps else f"{row}.i" for row in self._rows]
        shared = share(store, outer)
        return [*split, *self._stored(outer, places), *shared]

    @property
    def _rows(self) -> list[str]:
        """The rows as the store names them."""
        interleaved = {gaps.rows().name: gaps.row.name for gaps in self._gaps}
        return [interleaved.get(row.name, row.name) for row, _ in self._found.rows]

    @property
    def _store(self) -> Stage:
        """The map that stores the result."""
        return self.workload.stages[-1]

    def _stored(self, outer: list[str], places: list[str]) -> list[Step]:
        """Inside the loops over tiles, output channels in the lanes; `places`: the loops over the outputs of a tile.

        A dimension in which tiles stick out of the image is stored by a loop, which ends where the image does: code of
        its own for the last tiles would repeat the transform.
        """
        store = self._store
        lanes = tile_axes(self.workload, store, self._target, self._by_name["outputs"]).lanes
        maps, batch, tiles = self._found.maps.name, [a.name for a in self._found.batch], self._each("t")
        rows = self._rows
        ends = {gaps.row.name for gaps in self._gaps if gaps.row.size % gaps.dilation}
        whole = tuple(
            place
            for place, name, (row, _) in zip(places, rows, self._found.rows, strict=True)
            if row.size % self._m == 0 and name not in ends
        )
        steps: list[Step] = [
            Split(store.name, maps, lanes),
            Reorder(store.name, (*outer, f"{maps}.o", *places, f"{maps}.i")),
            ComputeAt("outputs", store.name, f"{maps}.o"),
        ]
        if len(rows) == 1:
            steps += [
                Reorder("outputs", (*batch, *tiles, "e0", "i0", maps)),
                *bind("outputs", unrolled=("e0", "i0"), vector=maps),
            ]
        else:
            steps += [
                Reorder("outputs", (*batch, *tiles, "i0", "e1", "i1", maps)),
                ComputeAt("outputs_rows", "outputs", "i0"),
                Reorder("outputs_rows", (*batch, *tiles, "i0", "e0", "e1", maps)),
                *bind("outputs_rows", unrolled=("e0", "e1"), vector=maps),
                *bind("outputs", unrolled=("i0", "e1", "i1"), vector=maps),
            ]
        return [*steps, *bind(store.name, unrolled=whole, vector=f"{maps}.i")]

    def _each(self, name: str) -> tuple[str, ...]:
        """The axis of that name in each dimension of the window."""
        return tuple(f"{name}{d}" for d in range(len(self._found.rows)))


def _lies_along(workload: Workload, load: Load, name: str) -> bool:
    """Whether neighbours along an axis are neighbours in memory."""
    return step_along(workload, load, name) == 1


def bind(stage: str, *, unrolled: tuple[str, ...], vector: str) -> list[Step]:
    """Kinds of the loops of a phase that keeps its sums in vector registers."""
    steps: list[Step] = [Bind(stage, name, LoopKind.UNROLLED) for name in unrolled]
    return [*steps, Bind(stage, vector, LoopKind.VECTOR)]
