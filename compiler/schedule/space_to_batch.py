"""Space to batch: a convolution whose window has gaps, as one without over interleaved images.

    t0[h, n] = sum(i, c) (x[h + d*i + k, c] if inside else 0) * w[n, c, i]              h < H; d: the dilation
    →  spread[p, e, c] = x[d*e + p + k, c] if inside else 0                             p < d: an image; e: its places
       t0[p, q, n]     = sum(i, c) spread[p, q + i, c] * w[n, c, i]                     q < ceil(H / d)
       what read t0[h, n] reads t0[h % d, h // d, n]

Every d-th place is an image of its own, in which the places of a window are neighbours: what applies to neighbours (see
compiler/schedule/winograd.py) applies to it. Each dimension with gaps becomes two. Where what follows goes in tiles,
there is room for whole tiles in the copy.

Source: the operation SpaceToBatchND, as which frameworks ran what they called atrous convolutions (Chen et al.,
Rethinking Atrous Convolution for Semantic Image Segmentation, 2017).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Apply, Bound, Const, Expr, Guard, Load, rewrite
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload

STAGE = "spread"
BUFFER = "spread_buffer"


@dataclass(frozen=True, slots=True)
class Gaps:
    """A dimension of the data in which places of a window are `dilation` apart.

    Attributes:
        place: of the dimension in the load.
        row, window, offset: what meets there, at `row + dilation * window + offset`.
    """

    place: int
    row: Axis
    window: Axis
    dilation: int
    offset: int

    @property
    def images(self) -> Axis:
        """Numbers the interleaved images."""
        return axis(f"p{self.place}", self.dilation)

    def rows(self, tile: int = 1) -> Axis:
        """Numbers the places of an image along the row, up to a whole tile."""
        of_image = -(-self.row.size // self.dilation)
        return axis(f"q{self.place}", -(-of_image // tile) * tile)


@dataclass(frozen=True, slots=True)
class Dilation:
    """What the first stage sums: `element` is the load of the data, with the zeros around it where there are any."""

    element: Expr
    load: Load
    bounds: tuple[Bound, ...]
    gaps: tuple[Gaps, ...]


def find_dilation(workload: Workload) -> Dilation | None:
    """Where the first stage is a sum of products by a constant, and its window has gaps; None where it is not."""
    stage = workload.stages[0]
    constants = {o.name for o in workload.operands if o.constant}
    if stage.reducer != "sum" or not isinstance(stage.body, Apply) or stage.body.op != "mul":
        return None
    for element, taps in (stage.body.args, stage.body.args[::-1]):
        match element:
            case Load() as load:
                bounds: tuple[Bound, ...] = ()
            case Guard(bounds, Load() as load, Const(0)):
                pass
            case _:
                continue
        if not isinstance(taps, Load) or taps.buffer not in constants or load.buffer in constants:
            continue
        gaps = _gaps(workload, stage, load, taps)
        tested = {b.index for b in bounds} <= set(load.indices) and all(i.is_affine() for i in load.indices)
        if gaps and tested and len(set(load.indices)) == len(load.indices) and _are_fixed(stage, bounds):
            return Dilation(element, load, bounds, gaps)
    return None


def _gaps(workload: Workload, stage: Stage, load: Load, taps: Load) -> tuple[Gaps, ...]:
    moved = {name for index in taps.indices for name in index.names()}
    rows = {a.name: a for a in stage.axes if a.extent.constant is not None and a.name not in moved}
    windows = {a.name: a for a in stage.reduce_axes if a.extent.constant is not None}
    shape = workload.buffers[load.buffer].shape
    found = []
    for place, index in enumerate(load.indices):
        others = {n for p, other in enumerate(load.indices) if p != place for n in other.names()}
        if Index.of(shape[place]).constant is None or not index.is_affine() or index.names() & others:
            continue
        row = next((rows[name] for name in index.names() if name in rows), None)
        window = next((windows[name] for name in index.names() if name in windows), None)
        if row is None or window is None or index.names() != {row.name, window.name}:
            continue
        if index.coefficient(row.name) == 1 and (dilation := index.coefficient(window.name)) > 1:
            found.append(Gaps(place, row, window, dilation, index.const))
    return tuple(found)


def _are_fixed(stage: Stage, bounds: tuple[Bound, ...]) -> bool:
    fixed = {a.name for a in (*stage.axes, *stage.reduce_axes) if a.extent.constant is not None}
    return all(b.index.names() <= fixed for b in bounds)


def space_to_batch(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: none, or (m,) for room for whole tiles of m along the rows."""
    found = find_dilation(workload)
    if found is None or len(parameters) > 1 or any(m < 1 for m in parameters):
        msg = "space_to_batch needs a convolution by a constant with a dilated window, and at most a tile's size"
        raise ScheduleError(msg)
    return _Rewriting(workload, found, parameters[0] if parameters else 1).workload()


class _Rewriting:
    def __init__(self, workload: Workload, found: Dilation, tile: int) -> None:
        self.old, self.found, self.tile = workload, found, tile
        self.stage, self.source = workload.stages[0], workload.buffers[found.load.buffer]
        self.by_row = {gaps.row.name: gaps for gaps in found.gaps}

    def workload(self) -> Workload:
        copy, moved = self._copy()
        axes = self._apart(self.stage.axes)
        target = replace(self.old.buffers[self.stage.target], shape=tuple(a.extent for a in axes))
        places = tuple(Index.of(a.name) for a in axes)

        def rule(e: Expr) -> Expr | None:
            return Load(BUFFER, moved) if e == self.found.element else None

        anchor = replace(self.stage, axes=axes, body=rewrite(self.stage.body, rule), target_indices=places)
        buffer = Operand(BUFFER, tuple(a.extent for a in copy.axes), self.source.dtype)
        kept = (target if t.name == target.name else t for t in self.old.temporaries)
        others = (s.rewritten(self._read) for s in self.old.stages[1:])
        return replace(self.old, temporaries=(buffer, *kept), stages=(copy, anchor, *others))

    def _apart(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """A row with gaps as an image and a place in it."""
        found: list[Axis] = []
        for a in axes:
            gaps = self.by_row.get(a.name)
            found += [a] if gaps is None else [gaps.images, gaps.rows()]
        return tuple(found)

    def _copy(self) -> tuple[Stage, tuple[Index, ...]]:
        """The interleaved images, and the place of the load in them."""
        axes: list[Axis] = []
        read: list[Index] = []
        moved: list[Index] = []
        bounds: list[Bound] = []
        tested = {b.index for b in self.found.bounds}
        for place, index in enumerate(self.found.load.indices):
            size = Index.of(self.source.shape[place])
            gaps = next((g for g in self.found.gaps if g.place == place), None)
            if gaps is not None:
                steps = gaps.rows(self.tile).size + gaps.window.size - 1
                axes += [gaps.images, axis(f"e{place}", steps)]
                at = Index.of(f"e{place}") * gaps.dilation + f"p{place}" + gaps.offset
                moved += [Index.of(f"p{place}"), Index.of(f"q{place}") + gaps.window.name]
                bounds.append(self._bound(index, at, size))
            elif index in tested:
                low, high = index.bounds(self._ranges)
                axes.append(axis(f"e{place}", high - low + 1))
                at = Index.of(f"e{place}") + low
                moved.append(index - low)
                bounds.append(self._bound(index, at, size))
            else:
                axes.append(Axis(f"e{place}", size))
                at = Index.of(f"e{place}")
                moved.append(index)
            read.append(at)
        load = Load(self.source.name, tuple(read))
        ranges = {a.name: a.size for a in axes if a.extent.constant is not None}
        needed = tuple(b for b in bounds if not _always(b, ranges))
        element: Expr = Guard(needed, load, Const(0, self.source.dtype)) if needed else load
        at_copy = tuple(Index.of(a.name) for a in axes)
        return Stage(STAGE, tuple(axes), (), None, element, BUFFER, at_copy, self.source.dtype), tuple(moved)

    def _bound(self, index: Index, at: Index, size: Index) -> Bound:
        """Of what the copy reads in a dimension: what the sum tests there, and that there is such an element."""
        own = [b for b in self.found.bounds if b.index == index]
        ends = [b.high for b in own] if size.constant is None else [size.const, *(b.high for b in own)]
        return Bound(at, max([0, *(b.low for b in own)]), min(ends))

    @property
    def _ranges(self) -> dict[str, int]:
        """Of what meets in dimensions without gaps, with room for whole tiles."""
        found = {
            a.name: -(-a.size // self.tile) * self.tile
            for a in self.stage.axes
            if a.extent.constant is not None
        }
        return found | {a.name: a.size for a in self.stage.reduce_axes if a.extent.constant is not None}

    def _read(self, body: Expr) -> Expr:
        """The body with the sums read from the image and the place in it that a row is."""
        names = [str(index.name) for index in self.stage.target_indices]

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != self.stage.target:
                return None
            at = dict(zip(names, e.indices, strict=True))
            found: list[Index] = []
            for a in self.stage.axes:
                gaps = self.by_row.get(a.name)
                found += (
                    [at[a.name]]
                    if gaps is None
                    else [at[a.name] % gaps.dilation, at[a.name] // gaps.dilation]
                )
            return replace(e, indices=tuple(found))

        return rewrite(body, rule)


def _always(bound: Bound, ranges: dict[str, int]) -> bool:
    low, high = bound.index.bounds(ranges)
    return low >= bound.low and high < bound.high
