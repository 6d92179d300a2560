"""What Winograd's algorithm applies to: a convolution by a constant, and which of its axes play which part.

t[b, h, w, n] = sum(z, i, j, c) x[b + z, h + i, w + j, c] * k[n, c, z, i, j]

rows      (h, i) and (w, j): the last dimensions of the window, two if they are alike
deep      z, along b: other dimensions of the window, which the products sum over
channel   c
maps      n
batch     b, and groups of channels, which move both data and taps
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from compiler.index import Index
from compiler.scalar import Apply, Cast, Load
from compiler.symbol import Axis, axis
from compiler.workload.ir import Stage, Workload

DIMENSIONS = 2
"""Of a window, at most, along which there are fewer multiplications."""


@dataclass(frozen=True, slots=True)
class Deep:
    """A dimension of the window that the products sum over.

    Attributes:
        window, row: the axis of the window, and the one of the batch that it slides along.
        index: where they meet in the data, from 0 on.
        place: an axis that numbers such places, and `low` what the first is in the data.
    """

    window: Axis
    row: Axis
    index: Index
    place: Axis
    low: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """The parts of a convolution that Winograd's algorithm applies to.

    Attributes:
        stage: the convolution; what stands before it are copies of its data.
        data, taps: the two loads of the product.
        rows: (spatial axis, window axis) of each dimension of the window, in the order in which the taps store them.
        stride: places of the data from an output to the next, the same in all dimensions.
        channel: the reduction axis that no dimension of the window is.
        deep: other dimensions of the window.
        maps: the spatial axis that moves the taps alone (output channels, of a group where there are several).
        batch: spatial axes that are neither, groups among them; only these may be symbolic.
    """

    stage: Stage
    data: Load
    taps: Load
    rows: tuple[tuple[Axis, Axis], ...]
    stride: int
    channel: Axis
    deep: tuple[Deep, ...]
    maps: Axis
    batch: tuple[Axis, ...]

    @property
    def data_batch(self) -> tuple[Axis, ...]:
        """The batch as the data number it."""
        numbered = {deep.row.name: deep.place for deep in self.deep}
        return tuple(numbered.get(a.name, a) for a in self.batch)

    @property
    def images(self) -> tuple[Axis, ...]:
        """Axes of the batch of known extent along which images differ, and nothing else does."""
        moved = {name for index in self.taps.indices for name in index.names()}
        slid = {deep.row.name for deep in self.deep}
        return tuple(a for a in self.batch if a.extent.constant is not None and a.name not in moved | slid)

    @property
    def summed(self) -> int:
        """Products of a sum, but for the window's of `rows`."""
        return self.channel.size * prod(deep.window.size for deep in self.deep)


def find_convolution(workload: Workload) -> Convolution | None:
    """The convolution, where the first stage that reduces is one whose last dimensions of the window have no gaps."""
    stage = next((s for s in workload.stages if s.reducer is not None), None)
    if stage is None or stage.reducer != "sum" or not isinstance(stage.body, Apply) or stage.body.op != "mul":
        return None
    whole = stage.dtype.is_integer
    plain = [e.value if whole and isinstance(e, Cast) else e for e in stage.body.args]
    constants = {o.name for o in workload.operands if o.constant}
    for data, taps in (plain, plain[::-1]):
        if not isinstance(data, Load) or not isinstance(taps, Load):
            return None
        if taps.buffer in constants and data.buffer not in constants:
            return _match(workload, stage, data, taps)
    return None


def _match(workload: Workload, stage: Stage, data: Load, taps: Load) -> Convolution | None:
    sizes = workload.buffers[taps.buffer].sizes
    indices = [
        index for index, size in zip(taps.indices, sizes, strict=True) if size > 1 or index.constant != 0
    ]
    lead, window = indices[:2], indices[2:]
    reduces = {a.name: a for a in stage.reduce_axes}
    spatial = {a.name: a for a in stage.axes}
    every = [reduces[name] for index in window if (name := str(index.name)) in reduces]
    if not every or len(every) < len(window) or len(reduces) != 1 + len(every):
        return None
    alike = len(every) >= DIMENSIONS and every[-2].extent == every[-1].extent
    windows = every[-DIMENSIONS:] if alike else every[-1:]
    used = {name for index in data.indices for name in index.names()}
    moved = [name for index in lead for name in index.names()]
    channels = [name for name in moved if name in reduces and reduces[name] not in every]
    maps = [name for name in moved if name in spatial and name not in used]
    if len(channels) != 1 or len(maps) != 1 or not _steps_by_one(lead, maps[0]):
        return None
    alone = {name: a for name, a in spatial.items() if name not in moved and _dimensions_of(data, name) == 1}
    pairs = [(axis_, *found) for axis_ in windows if (found := _row(data, alone, axis_)) is not None]
    if len(pairs) < len(windows) or len({stride for *_, stride in pairs}) > 1:
        return None
    rows = tuple((row, axis_) for axis_, row, _ in pairs)
    size, stride = windows[0].extent.constant, pairs[0][2]
    batch = tuple(a for a in stage.axes if a.name not in (maps[0], *(row.name for row, _ in rows)))
    deep = [_deep(data, batch, axis_) for axis_ in every[: -len(windows)]]
    plain = _steps_by_one(taps.indices, channels[0]) and _steps_by_one(data.indices, channels[0])
    if not plain or not {a.name for a in batch} <= used or not all(i.is_affine() for i in data.indices):
        return None
    if size is None or size < 2 or any(row.extent.constant is None for row, _ in rows) or None in deep:
        return None
    known = tuple(d for d in deep if d is not None)
    return Convolution(stage, data, taps, rows, stride, reduces[channels[0]], known, spatial[maps[0]], batch)


def _deep(data: Load, batch: Sequence[Axis], window: Axis) -> Deep | None:
    """What a window axis slides along, where that is one axis of the batch, in one dimension of the data alone."""
    at = [place for place, index in enumerate(data.indices) if window.name in index.names()]
    if len(at) != 1 or not data.indices[at[0]].is_affine():
        return None
    index = data.indices[at[0]]
    rows = [a for a in batch if a.name in index.names()]
    elsewhere = {name for place, other in enumerate(data.indices) if place != at[0] for name in other.names()}
    if (
        len(index.names()) != 2
        or len(rows) != 1
        or rows[0].name in elsewhere
        or rows[0].extent.constant is None
    ):
        return None
    low, high = index.bounds({rows[0].name: rows[0].size, window.name: window.size})
    return Deep(window, rows[0], index - low, axis(f"z{at[0]}", high - low + 1), low)


def _steps_by_one(indices: Sequence[Index], name: str) -> bool:
    """Whether neighbours along an axis are neighbours in exactly one of the dimensions."""
    found = [index for index in indices if name in index.names()]
    return len(found) == 1 and found[0].is_affine() and found[0].coefficient(name) == 1


def _dimensions_of(data: Load, name: str) -> int:
    """In how many dimensions an axis moves the data."""
    return sum(name in index.names() for index in data.indices)


def _row(data: Load, spatial: dict[str, Axis], window: Axis) -> tuple[Axis, int] | None:
    """The spatial axis that slides with a window axis and its stride: an index is `axis * stride + window + constant`.

    None where there is none, or a stride passes over data. `spatial`: those that move one dimension of the data, and
    not the taps.
    """
    indices = [index for index in data.indices if window.name in index.names()]
    if len(indices) != 1 or not indices[0].is_affine():
        return None
    terms = {str(name): factor for name, factor in indices[0].terms}
    step = terms.pop(window.name)
    if len(terms) != 1 or step != 1:
        return None
    ((name, stride),) = terms.items()
    return (spatial[name], stride) if name in spatial and 1 <= stride <= window.size else None
