"""Planes: what windows with a stride read lies in as many planes as the stride is long, so that windows are neighbours.

t[x] = sum(j) data[s*x + j] * w[j]
→  planes[p, q] = data[s*q + p]                                                     p < s
   t[x]         = sum(j) planes[j % s, x + j // s] * w[j]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.index import Index
from compiler.scalar import Bound, Const, Expr, Guard, Load, loads, rewrite, substitute
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Stage, Workload


@dataclass(frozen=True, slots=True)
class _Strided:
    """A dimension along which windows go by more than one place."""

    dimension: int
    made: str
    size: int
    step: int
    window: Index
    along: str

    @property
    def planes(self) -> Axis:
        """Over the planes."""
        return axis(f"{self.made}.plane", self.step)

    @property
    def places(self) -> Axis:
        """Over the places of a plane."""
        return axis(f"{self.made}.place", -(-self.size // self.step))

    @property
    def at(self) -> Index:
        """A place of the dimension."""
        return Index.of(self.places.name) * self.step + self.planes.name


def in_planes(workload: Workload) -> Workload:
    """The rewritten Workload, whose first stage makes the data, and the second sums it up; as it is without strides."""
    copy, anchor, *rest = workload.stages
    (read,) = (load for load in loads(anchor.body) if load.buffer == copy.target)
    found = _strided(workload, copy, anchor, read)
    if not found:
        return workload
    first = found[0].dimension
    by_dimension = {s.dimension: s for s in found}

    def moved(
        plain: tuple[Index, ...], plane: Callable[[_Strided], Index], place: Callable[[_Strided], Index]
    ) -> tuple[Index, ...]:
        kept = tuple(place(by_dimension[d]) if d in by_dimension else i for d, i in enumerate(plain))
        return (*kept[:first], *map(plane, found), *kept[first:])

    at = {s.made: s.at for s in found}
    ends = tuple(Bound(s.at, 0, s.size) for s in found if s.size % s.step)
    value = substitute(copy.body, at)
    axes: list[Axis] = []
    for a in copy.axes:
        ours = next((s for s in found if s.made == a.name), None)
        axes += [a] if ours is None else [ours.places, ours.planes]
    made = replace(
        copy,
        axes=tuple(axes),
        body=Guard(ends, value, Const(0, copy.dtype)) if ends else value,
        target_indices=moved(
            copy.target_indices, lambda s: Index.of(s.planes.name), lambda s: Index.of(s.places.name)
        ),
    )
    indices = moved(
        read.indices, lambda s: s.window % s.step, lambda s: Index.of(s.along) + s.window // s.step
    )
    data = workload.buffers[copy.target]
    shape = moved(data.shape, lambda s: s.planes.extent, lambda s: s.places.extent)

    def follow(e: Expr) -> Expr | None:
        return replace(read, indices=indices) if e == read else None

    return replace(
        workload,
        temporaries=tuple(replace(t, shape=shape) if t is data else t for t in workload.temporaries),
        stages=(made, replace(anchor, body=rewrite(anchor.body, follow)), *rest),
    )


def _strided(workload: Workload, copy: Stage, anchor: Stage, read: Load) -> list[_Strided]:
    spatial = {a.name for a in anchor.axes}
    shape = workload.buffers[copy.target].shape
    found = []
    for d, (index, target) in enumerate(zip(read.indices, copy.target_indices, strict=True)):
        names = [name for name in index.names() if name in spatial]
        if len(names) != 1 or target.name is None or not index.is_affine():
            continue
        step = index.coefficient(names[0])
        if step > 1 and d < len(shape) - 1:  # the last dimension is that of an instruction's groups
            window = index - Index.of(names[0]) * step
            found.append(_Strided(d, target.name, static(shape[d], read.buffer), step, window, names[0]))
    return found
