"""Separated: a reduction over windows combines first what neighbouring windows share.

    t[i, j] = max(r, s) x[i + r, j + s]
    →  shared[i, z] = max(r) x[i + r, z]               z: wherever j + s can be
       t[i, j]      = max(s) shared[i, j + s]

Windows of 3 x 3 side by side take 3 and 3 combinations each instead of 9; of 13 x 13, 26 instead of 169. Floats are
added in another order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.scalar import Expr, Guard, Load, Lookup, Pick, loads, rewrite, walk
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload

STAGE = "shared"
BUFFER = "shared_buffer"


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows along an axis: they begin `stride` apart, and their elements are `dilation` apart.

    Attributes:
        along: a spatial axis of the reduction.
        taps: the reduction axis that runs over a window.
    """

    along: Axis
    taps: Axis
    stride: int
    dilation: int

    def covered(self, windows: int) -> int:
        """Places between the first element of the first of so many windows and the last of the last."""
        return (windows - 1) * self.stride + (self.taps.size - 1) * self.dilation + 1


def find_windows(stage: Stage, along: str) -> Windows | None:
    """The windows along an axis that overlap, where all else is the same for places that two of them share."""
    if stage.reducer is None or stage.also or len(stage.reduce_axes) < 2:
        return None
    if any(isinstance(e, Pick | Lookup) for e in walk(stage.body)):
        return None
    place = next((a for a in stage.axes if a.name == along and a.extent.constant is not None), None)
    for taps in stage.reduce_axes:
        if place is None or taps.extent.constant is None:
            continue
        steps = _steps(stage.body, along, taps.name)
        if steps is not None and steps[0] < taps.size * steps[1]:
            return Windows(place, taps, *steps)
    return None


def _steps(body: Expr, along: str, taps: str) -> tuple[int, int] | None:
    """Stride and dilation, where both names occur only together and always in the same proportion."""
    found: tuple[int, int] | None = None
    for index in _indices(body):
        if not index.names() & {along, taps}:
            continue
        one, other = index.coefficient(along), index.coefficient(taps)
        if not index.is_affine() or one <= 0 or other <= 0:
            return None
        both = one // gcd(one, other), other // gcd(one, other)
        if found not in (None, both):
            return None
        found = both
    return found


def _indices(body: Expr) -> list[Index]:
    bounds = [b.index for e in walk(body) if isinstance(e, Guard) for b in e.bounds]
    return [*bounds, *(index for load in loads(body) for index in load.indices)]


def separated(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    """The rewritten Workload; `parameters`: (place of the axis among those of the first stage,)."""
    stage = workload.stages[0]
    known = len(parameters) == 1 and 0 <= parameters[0] < len(stage.axes)
    windows = find_windows(stage, stage.axes[parameters[0]].name) if known else None
    if windows is None:
        msg = f"separated needs an axis along which windows of the first stage overlap, not {parameters}"
        raise ScheduleError(msg)
    place = axis(f"{windows.along.name}.z", windows.covered(windows.along.size))
    axes = tuple(place if a == windows.along else a for a in stage.axes)
    at = tuple(Index.of(a.name) for a in axes)
    buffer = Operand(BUFFER, tuple(a.extent for a in axes), stage.dtype)
    shared = Stage(
        STAGE,
        axes,
        tuple(a for a in stage.reduce_axes if a != windows.taps),
        stage.reducer,
        _at_places(stage.body, windows, place.name),
        BUFFER,
        at,
        stage.dtype,
    )
    here = Index.of(windows.along.name) * windows.stride + Index.of(windows.taps.name) * windows.dilation
    read = Load(BUFFER, tuple(here if a == place else Index.of(a.name) for a in axes))
    rest = replace(stage, reduce_axes=(windows.taps,), body=read)
    return replace(
        workload,
        temporaries=(buffer, *workload.temporaries),
        stages=(shared, rest, *workload.stages[1:]),
    )


def _at_places(body: Expr, windows: Windows, place: str) -> Expr:
    """The body at the place that window and tap stand for."""
    names = {windows.along.name: Index.of(0), windows.taps.name: Index.of(0)}

    def moved(index: Index) -> Index:
        times = index.coefficient(windows.along.name) // windows.stride
        return index.substitute(names) + Index.of(place) * times if times else index

    def rule(e: Expr) -> Expr | None:
        match e:
            case Load(buffer, indices):
                return Load(buffer, tuple(map(moved, indices)))
            case Guard(bounds, inside, outside):
                tested = tuple(replace(b, index=moved(b.index)) for b in bounds)
                return Guard(tested, inside, outside)
            case _:
                return None

    return rewrite(body, rule)
