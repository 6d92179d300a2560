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
computed once, in float64. All m^2 places of a tile are there, also where it sticks out of the image.

The tiles of several images are numbered one after the other, for a small image alone has few of them. Groups of
channels are products beside each other. With a stride s, tiles of the data are s*m apart, and s*(m - 1) + r entries
wide. Where the window has one dimension, everything is along that, and the other one is a batch. Of a window of
three, or of two that differ, the products sum over the first: what it slides along is numbered as the data number it.

Of bytes the tiles and G k are whole numbers of 16 bits, and the result is exact (compiler/schedule/winograd_types.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from compiler.dtype import DType
from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.loop.room import spread_rows
from compiler.packing import Transform
from compiler.scalar import Apply, Bound, Cast, Const, Expr, Guard, Load, Pick, rewrite
from compiler.schedule.convolution import Convolution, find_convolution
from compiler.schedule.cook_toom import Matrix, kronecker
from compiler.schedule.winograd_types import WinogradTypes, float_types, whole_types
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Operand, Stage, Workload


def winograd_types(workload: Workload, found: Convolution, m: int) -> WinogradTypes:
    """The matrices and element types; raises ValueError where there are none."""
    taps, data = (workload.buffers[load.buffer] for load in (found.taps, found.data))
    size = found.rows[0][1].size
    if found.stage.dtype.is_float:
        return float_types(m, size, found.stride, found.stage.dtype)
    if len(found.rows) == 1:
        msg = "no exact form along one dimension"
        raise ValueError(msg)
    return whole_types(m, size, found.stride, found.stage.dtype, data.dtype, taps, found.summed)


def winograd(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (m,), outputs per tile and dimension, or (m, 1).

    With the 1 the coordinates of entries and tiles are axes of their own, so that some tiles of a row can be carried
    through all stages before the next.
    """
    found = find_convolution(workload)
    if found is None or len(parameters) not in (1, 2) or parameters[1:] not in ((), (1,)):
        msg = (
            "winograd needs a convolution with constant taps in a row or a square, no dilation, and equal strides; and "
            f"the outputs of a tile, with a 1 behind them for blocks of tiles, not {parameters}"
        )
        raise ScheduleError(msg)
    try:
        types = winograd_types(workload, found, parameters[0])
    except ValueError as error:
        msg = f"winograd has {error}; choose a smaller tile"
        raise ScheduleError(msg) from error
    return _Rewriting(workload, found, parameters[0], types, apart=len(parameters) > 1).workload()


class _Rewriting:
    def __init__(
        self, workload: Workload, found: Convolution, m: int, types: WinogradTypes, *, apart: bool
    ) -> None:
        self.workload_, self.found, self.m, self.types = workload, found, m, types
        self.matrices, self.dtype = types.matrices, found.stage.dtype
        self.dimensions = range(len(found.rows))
        self.n = found.stride * (m - 1) + found.rows[0][1].size
        self.tiles = tuple(-(-row.size // m) for row, _ in found.rows)
        self.apart = apart
        self.images = () if apart else found.images
        self.batch = tuple(a for a in found.batch if a not in self.images)
        places = prod(a.size for a in self.images) * prod(self.tiles)
        numbered = (axis("e", self.n ** len(self.tiles)),), (axis("t", places),)
        self.entries, self.places = (self._axes("e", self.n), self._tile_axes()) if apart else numbered

    def workload(self) -> Workload:
        old = self.workload_
        taps = next(o for o in old.operands if o.name == self.found.taps.buffer)
        lead = [n for n, i in zip(taps.sizes, self.found.taps.indices, strict=True) if i.constant is None]
        del lead[-len(self.found.rows) :]
        shape = (*lead, prod(window.size for _, window in self.found.rows))
        kind = None if self.types.taps is taps.dtype else self.types.taps
        transform = Transform(shape, self._filter(), kind)
        entries = self.n ** len(self.tiles)
        changed = Operand(taps.name, _at(*lead, entries), self.types.taps, constant=True)
        data_axes = (*self._data_lead(self._axes("e", self.n)), *self._place_axes(), self.found.channel)
        output_axes = (*self._lead(()), *self._place_axes(), *self._axes("i", self.m), self.found.maps)
        product_axes = (*self._each(self._lead), self.found.maps)
        place = old.stages.index(self.found.stage)
        tiles, outputs = self._tiles(data_axes), self._outputs(output_axes)
        temporaries = (
            *(self._buffer(s.name, self.types.tiles, *s.axes) for s in tiles[:-1]),
            self._spread("tiles", self.types.tiles, *self._each(self._data_lead), self.found.channel),
            self._buffer("product_sum", self.dtype, *product_axes),
            self._spread("product", self.dtype, *product_axes),
            *(self._buffer(s.name, self.dtype, *s.axes) for s in outputs),
            *(t for t in old.temporaries if t.name != self.found.stage.target),
        )
        stages = (
            *old.stages[:place],
            *tiles,
            *self._product(product_axes),
            *outputs,
            *(s.rewritten(self._read) for s in old.stages[place + 1 :]),
        )
        return replace(
            old,
            operands=tuple(changed if o is taps else o for o in old.operands),
            temporaries=temporaries,
            stages=stages,
            transforms={taps.name: transform},
        )

    def _filter(self) -> tuple[tuple[float, ...], ...]:
        matrix = self.matrices.filter
        if len(self.dimensions) == 1:
            return tuple(tuple(map(float, row)) for row in matrix)
        return kronecker(matrix, matrix)

    def _axes(self, name: str, size: int) -> tuple[Axis, ...]:
        """An axis for each dimension of the window."""
        return tuple(axis(f"{name}{d}", size) for d in self.dimensions)

    def _lead(self, entries: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Axes of entries and the batch in the order of buffers, whose first dimension alone can be symbolic."""
        opened = tuple(a for a in self.batch if a.extent.constant is None)
        return (*opened, *entries, *(a for a in self.batch if a not in opened))

    def _data_lead(self, entries: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """The same of what the data become."""
        numbered = dict(zip(self.found.batch, self.found.data_batch, strict=True))
        return tuple(numbered.get(a, a) for a in self._lead(entries))

    def _each(self, lead: Callable[[tuple[Axis, ...]], tuple[Axis, ...]]) -> tuple[Axis, ...]:
        """Axes of the batch, entries and tiles in the order of the products' buffers."""
        if not self.apart:
            return (*lead(self.entries), *self.places)
        *rows, along = self.places
        return (*lead(()), *rows, *self.entries, along)

    def _at(self, lead: Callable[[tuple[Axis, ...]], tuple[Axis, ...]]) -> tuple[Index, ...]:
        """The same as indices, where entries and tiles have an axis for each dimension."""
        entries, places = self._axes("e", self.n), self._place_axes()
        numbers = (*self._numbered(entries), *self._numbered(places))
        known = dict(zip((*self.entries, *self.places), numbers, strict=True))
        return tuple(known.get(a) or Index.of(a.name) for a in self._each(lead))

    def _tile_axes(self) -> tuple[Axis, ...]:
        return tuple(axis(f"t{d}", size) for d, size in enumerate(self.tiles))

    def _place_axes(self) -> tuple[Axis, ...]:
        """The image of a tile, where tiles of several are numbered, and its coordinates there."""
        return (*self.images, *self._tile_axes())

    def _numbered(self, axes: tuple[Axis, ...]) -> tuple[Index, ...]:
        """How the products' buffers number a place with those coordinates."""
        return tuple(Index.of(a.name) for a in axes) if self.apart else (_number(axes),)

    def _buffer(self, name: str, dtype: DType, *axes: Axis) -> Operand:
        return Operand(f"{name}_buffer", tuple(a.extent for a in axes), dtype)

    def _spread(self, name: str, dtype: DType, *axes: Axis) -> Operand:
        """With room behind the places of a group: they are few, so that many entries would share their sets."""
        plain = self._buffer(name, dtype, *axes)
        if self.apart:
            return plain
        (places,) = self.places
        moved = {n for index in self.found.taps.indices for n in index.names()}
        if not any(a.name in moved for a in self.batch):
            return plain
        *lead, _, wide = plain.shape
        beside = prod(a.size for a in self.batch if a.extent.constant is not None)
        rows = spread_rows(places.size, beside * axes[-1].size * dtype.size_bytes)
        return replace(plain, shape=(*lead, Index.of(rows), wide))

    def _read(self, body: Expr) -> Expr:
        """The body with the convolution's sums read from the tiles of outputs, without the factor of the matrices."""
        m, target = self.m, self.found.stage.target
        names = [index.name for index in self.found.stage.target_indices]

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != target:
                return None
            at = dict(zip(names, e.indices, strict=True))
            lead = (at[a.name] for a in (*self._lead(()), *self.images))
            places = [at[row.name] for row, _ in self.found.rows]
            place = (*lead, *(p // m for p in places), *(p % m for p in places), at[self.found.maps.name])
            return self.types.divided(Load("outputs_buffer", place))

        return rewrite(body, rule)

    def _tiles(self, axes: tuple[Axis, ...]) -> list[Stage]:
        """Transforms of the data, a dimension each, and what stores the entries."""
        dtype, inner = self.types.tiles, self._axes("j", self.n)
        moved = dict[str, Index]()
        for d, (row, window) in enumerate(self.found.rows):
            moved |= {row.name: Index.of(f"t{d}") * self.m, window.name: Index.of(f"j{d}")}
        slid = {deep.index + deep.low: Index.of(deep.place.name) + deep.low for deep in self.found.deep}
        at = tuple(slid.get(x) or x.substitute(moved) for x in self.found.data.indices)
        load = Load(self.found.data.buffer, at)
        fixed = {a.name: a.size for a in (*axes, *inner) if a.extent.constant is not None}
        value, stages = self._as(dtype, self._guarded(load, fixed)), list[Stage]()
        for d in self.dimensions:
            last = d == len(self.dimensions) - 1
            # Between the two the second coordinate is an input's still.
            own = (
                axes
                if last
                else (*self._data_lead(self._axes("e", self.n)[:1]), *self._place_axes(), inner[1], axes[-1])
            )
            name = "tiles_sum" if last else "tiles_rows"
            factor = self._pick(self.matrices.data, f"e{d}", f"j{d}", dtype)
            stages.append(self._sum(name, own, inner[d], factor, value))
            value = Load(f"{name}_buffer", _names(own))
        stored = (*self._at(self._data_lead), Index.of(self.found.channel.name))
        return [*stages, Stage("tiles", axes, (), None, value, "tiles_buffer", stored, dtype)]

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
        channel, deep = self.found.channel, self.found.deep
        lead = tuple(i for i in self.found.taps.indices if i.constant is None)[: -len(self.found.rows)]
        slid = {Index.of(d.place.name): d.index for d in deep}
        place = (Index.of(a.name) for a in self._each(self._data_lead))
        tiles = Load("tiles_buffer", (*(slid.get(i, i) for i in place), Index.of(channel.name)))
        entry = _number(self._axes("e", self.n)) if self.apart else Index.of("e")
        taps = Load(self.found.taps.buffer, (*lead, entry))
        body = Apply("mul", (self._as(self.dtype, tiles), self._as(self.dtype, taps)))
        at = tuple(Index.of(a.name) for a in axes)
        over = (*(d.window for d in deep), channel)
        total = Stage("product_sum", axes, over, "sum", body, "product_sum_buffer", at, self.dtype)
        loaded = Load("product_sum_buffer", at)
        return total, Stage("product", axes, (), None, loaded, "product_buffer", at, self.dtype)

    def _outputs(self, axes: tuple[Axis, ...]) -> list[Stage]:
        """Transforms of the products, a dimension each."""
        matrix, entries = self.matrices.output, self._axes("e", self.n)
        value: Expr = Load("product_buffer", (*self._at(self._lead), Index.of(self.found.maps.name)))
        stages = list[Stage]()
        for d in self.dimensions:
            last = d == len(self.dimensions) - 1
            own = (*self._lead(()), *self._place_axes(), axis("i0", self.m), *entries[1:], axes[-1])
            name, places = ("outputs", axes) if last else ("outputs_rows", own)
            factor = self._pick(matrix, f"i{d}", f"e{d}", self.dtype)
            stages.append(self._sum(name, places, entries[d], factor, value))
            value = Load(f"{name}_buffer", _names(places))
        return stages

    def _as(self, dtype: DType, value: Expr) -> Expr:
        """The element in the type of a sum; floats have one type throughout."""
        return value if dtype.is_float else Cast(value, dtype)

    def _pick(self, matrix: Matrix, row: str, column: str, dtype: DType) -> Pick:
        """An entry of a matrix of which two axes number the rows and the columns."""
        values = tuple(float(v) for entries in matrix for v in entries)
        return Pick(values, Index.of(row) * len(matrix[0]) + column, dtype)


def _number(axes: tuple[Axis, ...]) -> Index:
    """The number of a place with those coordinates."""
    place = Index.of(0)
    for a in axes:
        place = place * a.size + a.name
    return place


def _names(axes: tuple[Axis, ...]) -> tuple[Index, ...]:
    return tuple(Index.of(a.name) for a in axes)


def _at(*sizes: int) -> tuple[Index, ...]:
    return tuple(Index.of(size) for size in sizes)
