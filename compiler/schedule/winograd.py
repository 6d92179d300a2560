"""Winograd: a convolution as transforms of small tiles and a batch of matrix products.

    t0[h, w, n] = sum(i, j, c) x[h + i, w + j, c] * k[n, c, i, j]                          k: r x r taps
    →  rows[e0, t, j1, c] = sum(j0) B^T[e0, j0] * x[m*t0 + j0, m*t1 + j1, c]               t = (t0, t1): a tile
       tiles[e, t, c]     = sum(j1) B^T[e1, j1] * rows[e0, t, j1, c]                       e = (e0, e1): an entry
       product[e, t, n]   = sum(c) tiles[e, t, c] * (G k)[n, c, e]
       rows[t, i0, e1, n] = sum(e0) A^T[i0, e0] * product[(e0, e1), t, n]
       outputs[t, i, n]   = sum(e1) A^T[i1, e1] * rows[t, i0, e1, n]                       i = (i0, i1): its place
       t0[h, w, n]        = outputs[(h // m, w // m), (h % m, w % m), n]

There are (m + r - 1)^2 entries, and as many multiplications where the direct form needs m^2 r^2. A transform is applied
along one dimension and then along the other, which takes about half the operations of both at once. The constant G k is
computed once, in float64. All m^2 places of a tile are there, also where it sticks out of the image. Groups of channels
are products beside each other. With a stride s, tiles of the data are s*m apart, and s*(m - 1) + r entries wide.

Of bytes the tiles and G k are whole numbers of 16 bits, and the result is exact (compiler/schedule/winograd_types.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.packing import Transform
from compiler.scalar import Apply, Bound, Cast, Const, Expr, Guard, Load, Pick, rewrite
from compiler.schedule.cook_toom import Matrix, kronecker
from compiler.schedule.spread import spread_rows
from compiler.schedule.winograd_types import WinogradTypes, float_types, whole_types
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Operand, Stage, Workload


@dataclass(frozen=True, slots=True)
class Convolution:
    """The parts of a convolution that Winograd's algorithm applies to.

    Attributes:
        stage: the convolution; what stands before it are copies of its data.
        data, taps: the two loads of the product.
        rows: (spatial axis, window axis) of both window dimensions, in the order in which the taps store them.
        stride: places of the data from an output to the next, the same in both dimensions.
        channel: the other reduction axis.
        maps: the spatial axis that moves the taps alone (output channels, of a group where there are several).
        batch: spatial axes that are neither, groups among them; only these may be symbolic.
    """

    stage: Stage
    data: Load
    taps: Load
    rows: tuple[tuple[Axis, Axis], tuple[Axis, Axis]]
    stride: int
    channel: Axis
    maps: Axis
    batch: tuple[Axis, ...]


def find_convolution(workload: Workload) -> Convolution | None:
    """The convolution, where the first stage that reduces is one with no dilation and square taps."""
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


def winograd_types(workload: Workload, found: Convolution, m: int) -> WinogradTypes:
    """The matrices and element types; raises ValueError where there are none."""
    taps, data = (workload.buffers[load.buffer] for load in (found.taps, found.data))
    size = found.rows[0][1].size
    if found.stage.dtype.is_float:
        return float_types(m, size, found.stride, found.stage.dtype)
    return whole_types(m, size, found.stride, found.stage.dtype, data.dtype, taps, found.channel.size)


def winograd(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (m,), outputs per tile and dimension."""
    found = find_convolution(workload)
    if found is None or len(parameters) != 1:
        msg = "winograd needs a convolution with square taps of a constant, no dilation, and equal strides"
        raise ScheduleError(msg)
    try:
        types = winograd_types(workload, found, parameters[0])
    except ValueError as error:
        msg = f"winograd has {error}; choose a smaller tile"
        raise ScheduleError(msg) from error
    return _Rewriting(workload, found, parameters[0], types).workload()


def _match(workload: Workload, stage: Stage, data: Load, taps: Load) -> Convolution | None:
    indices = [index for index in taps.indices if index.constant != 0]
    if len(indices) != 4:
        return None
    lead, window = indices[:2], indices[2:]
    reduces = {a.name: a for a in stage.reduce_axes}
    spatial = {a.name: a for a in stage.axes}
    first, second = (reduces.get(str(index.name)) for index in window)
    if (
        first is None
        or second is None
        or first.extent != second.extent
        or len(reduces) != 3
        or first.size < 2
    ):
        return None
    used = {name for index in data.indices for name in index.names()}
    moved = [name for index in lead for name in index.names()]
    channels = [name for name in moved if name in reduces and name not in (first.name, second.name)]
    maps = [name for name in moved if name in spatial and name not in used]
    if len(channels) != 1 or len(maps) != 1 or not _steps_by_one(lead, maps[0]):
        return None
    found = tuple(_row(data, spatial, window) for window in (first, second))
    if found[0] is None or found[1] is None or found[0][1] != found[1][1]:
        return None
    rows, stride = (found[0][0], found[1][0]), found[0][1]
    batch = tuple(a for a in stage.axes if a.name not in (rows[0].name, rows[1].name, maps[0]))
    plain = _steps_by_one(taps.indices, channels[0]) and _steps_by_one(data.indices, channels[0])
    if not plain or not {a.name for a in batch} <= used or not all(i.is_affine() for i in data.indices):
        return None
    both = ((rows[0], first), (rows[1], second))
    if any(a.extent.constant is None for pair in both for a in pair):
        return None
    return Convolution(stage, data, taps, both, stride, reduces[channels[0]], spatial[maps[0]], batch)


def _steps_by_one(indices: Sequence[Index], name: str) -> bool:
    """Whether neighbours along an axis are neighbours in exactly one of the dimensions."""
    found = [index for index in indices if name in index.names()]
    return len(found) == 1 and found[0].is_affine() and found[0].coefficient(name) == 1


def _row(data: Load, spatial: dict[str, Axis], window: Axis) -> tuple[Axis, int] | None:
    """The spatial axis that slides with a window axis and its stride: an index is `axis * stride + window + constant`.

    None where there is none, or a stride passes over data.
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


class _Rewriting:
    def __init__(self, workload: Workload, found: Convolution, m: int, types: WinogradTypes) -> None:
        self.workload_, self.found, self.m, self.types = workload, found, m, types
        self.matrices, self.dtype = types.matrices, found.stage.dtype
        self.n = found.stride * (m - 1) + found.rows[0][1].size
        (row, _), (column, _) = found.rows
        self.tiles = (-(-row.size // m), -(-column.size // m))
        self.entries = axis("e", self.n * self.n)
        self.places = axis("t", self.tiles[0] * self.tiles[1])

    def workload(self) -> Workload:
        old = self.workload_
        taps = next(o for o in old.operands if o.name == self.found.taps.buffer)
        shape = (
            *(n for n, i in zip(taps.sizes, self.found.taps.indices, strict=True) if i.constant is None),
        )
        flat = (*shape[:2], shape[2] * shape[3])
        kind = None if self.types.taps is taps.dtype else self.types.taps
        transform = Transform(flat, kronecker(self.matrices.filter, self.matrices.filter), kind)
        changed = Operand(taps.name, _at(*shape[:2], self.n * self.n), self.types.taps, constant=True)
        channel, maps = self.found.channel, self.found.maps
        e0, e1, i0, i1 = axis("e0", self.n), axis("e1", self.n), axis("i0", self.m), axis("i1", self.m)
        t0, t1 = self._tile_axes()
        row_axes = (*self._lead((e0,)), t0, t1, axis("j1", self.n), channel)
        data_axes = (*self._lead((e0, e1)), t0, t1, channel)
        output_row_axes = (*self._lead(()), t0, t1, i0, e1, maps)
        output_axes = (*self._lead(()), t0, t1, i0, i1, maps)
        product_axes = (*self._lead((self.entries,)), self.places, maps)
        temporaries = (
            self._buffer("tiles_rows", self.types.tiles, *row_axes),
            self._buffer("tiles_sum", self.types.tiles, *data_axes),
            self._spread("tiles", self.types.tiles, *self._lead((self.entries,)), self.places, channel),
            self._buffer("product_sum", self.dtype, *product_axes),
            self._spread("product", self.dtype, *product_axes),
            self._buffer("outputs_rows", self.dtype, *output_row_axes),
            self._buffer("outputs", self.dtype, *output_axes),
            *(t for t in old.temporaries if t.name != self.found.stage.target),
        )
        place = old.stages.index(self.found.stage)
        stages = (
            *old.stages[:place],
            *self._tiles(row_axes, data_axes),
            *self._product(product_axes),
            *self._outputs(output_row_axes, output_axes),
            *(s.rewritten(self._read) for s in old.stages[place + 1 :]),
        )
        return replace(
            old,
            operands=tuple(changed if o is taps else o for o in old.operands),
            temporaries=temporaries,
            stages=stages,
            transforms={taps.name: transform},
        )

    def _lead(self, entries: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Axes of entries and the batch in the order of buffers, whose first dimension alone can be symbolic."""
        opened = tuple(a for a in self.found.batch if a.extent.constant is None)
        return (*opened, *entries, *(a for a in self.found.batch if a not in opened))

    def _place(self, entry: Index) -> tuple[Index, ...]:
        return tuple(entry if a is self.entries else Index.of(a.name) for a in self._lead((self.entries,)))

    def _tile_axes(self) -> tuple[Axis, Axis]:
        return axis("t0", self.tiles[0]), axis("t1", self.tiles[1])

    def _buffer(self, name: str, dtype: DType, *axes: Axis) -> Operand:
        return Operand(f"{name}_buffer", tuple(a.extent for a in axes), dtype)

    def _spread(self, name: str, dtype: DType, *axes: Axis) -> Operand:
        """With room behind the places of a group: they are few, so that many entries would share their sets."""
        plain = self._buffer(name, dtype, *axes)
        moved = {n for index in self.found.taps.indices for n in index.names()}
        if not any(a.name in moved for a in self.found.batch):
            return plain
        *lead, _, wide = plain.shape
        beside = prod(a.size for a in self.found.batch if a.extent.constant is not None)
        rows = spread_rows(self.places.size, beside * axes[-1].size * dtype.size_bytes)
        return replace(plain, shape=(*lead, Index.of(rows), wide))

    def _read(self, body: Expr) -> Expr:
        """The body with the convolution's sums read from the tiles of outputs, without the factor of the matrices."""
        m, target = self.m, self.found.stage.target
        names = [index.name for index in self.found.stage.target_indices]
        (row, _), (column, _) = self.found.rows

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != target:
                return None
            at = dict(zip(names, e.indices, strict=True))
            h, w = at[row.name], at[column.name]
            lead = (at[a.name] for a in self._lead(()))
            place = (*lead, h // m, w // m, h % m, w % m, at[self.found.maps.name])
            return self.types.divided(Load("outputs_buffer", place))

        return rewrite(body, rule)

    def _tiles(self, row_axes: tuple[Axis, ...], axes: tuple[Axis, ...]) -> tuple[Stage, Stage, Stage]:
        n, m, dtype = self.n, self.m, self.types.tiles
        (row, i), (column, j) = self.found.rows
        j0, j1 = axis("j0", n), axis("j1", n)
        moved = {
            row.name: Index.of("t0") * m,
            i.name: Index.of("j0"),
            column.name: Index.of("t1") * m,
            j.name: Index.of("j1"),
        }
        load = Load(self.found.data.buffer, tuple(x.substitute(moved) for x in self.found.data.indices))
        fixed = {a.name: a.size for a in (*row_axes, j0) if a.extent.constant is not None}
        element = self._as(dtype, self._guarded(load, fixed))
        rows = self._sum(
            "tiles_rows", row_axes, j0, self._pick(self.matrices.data, "e0", "j0", dtype), element
        )
        between = Load("tiles_rows_buffer", _names(row_axes))
        total = self._sum("tiles_sum", axes, j1, self._pick(self.matrices.data, "e1", "j1", dtype), between)
        place = Index.of("t0") * self.tiles[1] + "t1"
        stored = (*self._place(Index.of("e0") * n + "e1"), place, Index.of(self.found.channel.name))
        loaded = Load("tiles_sum_buffer", _names(axes))
        return rows, total, Stage("tiles", axes, (), None, loaded, "tiles_buffer", stored, dtype)

    def _sum(self, name: str, axes: tuple[Axis, ...], over: Axis, factor: Expr, value: Expr) -> Stage:
        """One dimension of a transform."""
        dtype = self.dtype if name in ("outputs_rows", "outputs") else self.types.tiles
        body = Apply("mul", (factor, value))
        return Stage(name, axes, (over,), "sum", body, f"{name}_buffer", _names(axes), dtype)

    def _guarded(self, load: Load, ranges: dict[str, int]) -> Expr:
        """The load, 0 where the last tiles stick out of the data."""
        buffer = self.workload_.buffers[load.buffer]
        bounds = tuple(
            Bound(index, 0, static(extent, load.buffer))
            for index, extent in zip(load.indices, buffer.shape, strict=True)
            if index.names() <= ranges.keys() and index.bounds(ranges)[1] >= static(extent, load.buffer)
        )
        return Guard(bounds, load, Const(0, buffer.dtype)) if bounds else load

    def _product(self, axes: tuple[Axis, ...]) -> tuple[Stage, Stage]:
        channel = self.found.channel
        lead = tuple(i for i in self.found.taps.indices if i.constant is None)[:2]
        tiles = Load("tiles_buffer", (*self._place(Index.of("e")), Index.of("t"), Index.of(channel.name)))
        taps = Load(self.found.taps.buffer, (*lead, Index.of("e")))
        body = Apply("mul", (self._as(self.dtype, tiles), self._as(self.dtype, taps)))
        at = tuple(Index.of(a.name) for a in axes)
        total = Stage("product_sum", axes, (channel,), "sum", body, "product_sum_buffer", at, self.dtype)
        loaded = Load("product_sum_buffer", at)
        return total, Stage("product", axes, (), None, loaded, "product_buffer", at, self.dtype)

    def _outputs(self, row_axes: tuple[Axis, ...], axes: tuple[Axis, ...]) -> tuple[Stage, Stage]:
        n, matrix = self.n, self.matrices.output
        tile = Index.of("t0") * self.tiles[1] + "t1"
        entry = self._place(Index.of("e0") * n + "e1")
        product = Load("product_buffer", (*entry, tile, Index.of(self.found.maps.name)))
        e0, e1 = axis("e0", n), axis("e1", n)
        rows = self._sum("outputs_rows", row_axes, e0, self._pick(matrix, "i0", "e0", self.dtype), product)
        between = Load("outputs_rows_buffer", _names(row_axes))
        return rows, self._sum("outputs", axes, e1, self._pick(matrix, "i1", "e1", self.dtype), between)

    def _as(self, dtype: DType, value: Expr) -> Expr:
        """The element in the type of a sum; floats have one type throughout."""
        return value if dtype.is_float else Cast(value, dtype)

    def _pick(self, matrix: Matrix, row: str, column: str, dtype: DType) -> Pick:
        """An entry of a matrix of which two axes number the rows and the columns."""
        values = tuple(float(v) for entries in matrix for v in entries)
        return Pick(values, Index.of(row) * len(matrix[0]) + column, dtype)


def _names(axes: tuple[Axis, ...]) -> tuple[Index, ...]:
    return tuple(Index.of(a.name) for a in axes)


def _at(*sizes: int) -> tuple[Index, ...]:
    return tuple(Index.of(size) for size in sizes)
