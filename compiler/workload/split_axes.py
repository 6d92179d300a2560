"""Split axes: an axis that is read by quotient and remainder becomes two.

    for c < 72: y[c] = ... x[(c // 18) * 6 + r] ...            c: output channels of a grouped convolution
    →  for g < 4, c < 18: y[g*18 + c] = ... x[g*6 + r] ...

Within a group the inner axis is an ordinary one: its elements fill the lanes of vectors that share what they read.
Groups that are too small for that share vectors instead, whose lanes take what each needs from one load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from compiler.index import FloorDiv, Index, Mod
from compiler.scalar import Expr, Guard, Load, map_indices, rewrite, substitute, walk
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload, stage_loads

_SEPARATOR = "/"
_RUN = 8
"""Neighbours of a map with one element in common that are worth a vector of their own."""
_GROUP = 16
"""The same of a reduction, which needs a shuffle for each of its products."""
_WHOLE_GROUP = 4
"""The same of whole numbers, of which an instruction multiplies several at once that all lanes share."""


def split_axes(workload: Workload) -> Workload:
    """Split until no axis is left that may be; the same object comes back when there is none."""
    while (found := next(_splits(workload), None)) is not None:
        workload = _apply(workload, *found)
    return workload


def _splits(workload: Workload) -> Iterator[tuple[str, int]]:
    """Axes with a quotient or remainder by a divisor of their extent, plain in every temporary, reduced by no stage.

    Those that a map spreads over a few neighbours each stay whole: vectors take them from one load.
    """
    for stage in workload.stages:
        sizes = {a.name: a.size for a in stage.axes}
        for index in _indices(stage):
            for atom, _ in index.terms:
                if not isinstance(atom, FloorDiv | Mod) or atom.value.name not in sizes:
                    continue
                name, size, divisor = str(atom.value.name), sizes[str(atom.value.name)], atom.divisor
                whole = isinstance(divisor, int) and 1 < divisor < size and size % divisor == 0
                if whole and isinstance(atom, FloorDiv) and _is_spread(workload, stage, name):
                    continue
                if isinstance(divisor, int) and whole and _plain(workload, name):
                    yield name, divisor


def _is_spread(workload: Workload, stage: Stage, name: str) -> bool:
    """Whether neighbours in memory read the same few elements again, and nothing else depends on the axis.

    All that is read along it is at its place or at one quotient by a small divisor. In a reduction that is a power of
    two, and quotients are no further apart than the neighbours that share one: a vector of lanes finds all it needs in
    one of memory.
    """
    if stage.target_indices[-1].name != name or stage.also:
        return False
    terms = [atom for index in _indices(stage) for atom, _ in index.terms if name in Index.of(atom).names()]
    divisors = [atom.divisor for atom in terms if isinstance(atom, FloorDiv)]
    if any(atom != name and not isinstance(atom, FloorDiv) for atom in terms):
        return False
    if stage.reducer is None:
        return all(isinstance(d, int) and d < _RUN for d in divisors)
    near = all(step <= d for load in stage_loads(stage) for d, step in _quotients(workload, load, name))
    most = _GROUP if stage.dtype.is_float else _WHOLE_GROUP
    return near and all(isinstance(d, int) and d < most and d & (d - 1) == 0 for d in divisors)


def _quotients(workload: Workload, load: Load, name: str) -> Iterator[tuple[int, int]]:
    """Divisors by which an axis is divided in the indices of a load, and the elements of memory between quotients."""
    for index, stride in zip(load.indices, workload.buffers[load.buffer].strides, strict=True):
        for atom, coefficient in index.terms:
            if isinstance(atom, FloorDiv) and atom.value.name == name and isinstance(atom.divisor, int):
                yield atom.divisor, abs(coefficient) * stride


def _indices(stage: Stage) -> Iterator[Index]:
    for e in (e for result in stage.results for e in walk(result.body)):
        if isinstance(e, Load):
            yield from e.indices
        elif isinstance(e, Guard):
            yield from (bound.index for bound in e.bounds)


def _plain(workload: Workload, name: str) -> bool:
    temporaries = {t.name for t in workload.temporaries}
    for stage in workload.stages:
        if any(a.name == name for a in stage.reduce_axes):
            return False
        for access in (*stage_loads(stage), *(Load(r.target, r.indices) for r in stage.results)):
            if access.buffer in temporaries and any(
                name in index.names() and index.name != name for index in access.indices
            ):
                return False
    return True


def _apply(workload: Workload, name: str, inner: int) -> Workload:
    outer_axis, inner_axis = f"{name}{_SEPARATOR}o", f"{name}{_SEPARATOR}i"
    temporaries = {t.name for t in workload.temporaries}
    value = {name: Index.of(outer_axis) * inner + inner_axis}

    def split_access(buffer: str, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        if buffer not in temporaries:
            return indices
        found: list[Index] = []
        for index in indices:
            found += (Index.of(outer_axis), Index.of(inner_axis)) if index.name == name else (index,)
        return tuple(found)

    def split_axis(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        found: list[Axis] = []
        for a in axes:
            found += [axis(outer_axis, a.size // inner), axis(inner_axis, inner)] if a.name == name else [a]
        return tuple(found)

    def rule(e: Expr) -> Expr | None:
        return Load(e.buffer, split_access(e.buffer, e.indices)) if isinstance(e, Load) else None

    stages = []
    for stage in workload.stages:
        # What one stage stores along an axis, another may sum up: it is the same axis.
        axes, reduce_axes = split_axis(stage.axes), split_axis(stage.reduce_axes)
        ranges = {a.name: a.size for a in (*axes, *reduce_axes)}

        def moved(
            buffer: str, indices: tuple[Index, ...], ranges: Mapping[str, int] = ranges
        ) -> tuple[Index, ...]:
            return tuple(i.substitute(value).simplify(ranges) for i in split_access(buffer, indices))

        def split_body(body: Expr, ranges: Mapping[str, int] = ranges) -> Expr:
            return _simplified(substitute(rewrite(body, rule), value), ranges)

        stages.append(replace(stage.rewritten(split_body, moved), axes=axes, reduce_axes=reduce_axes))
    shapes = {s.target: s.target_indices for s in workload.stages if s.target in temporaries}
    return replace(
        workload,
        stages=tuple(stages),
        temporaries=tuple(_reshape(t, shapes.get(t.name, ()), name, inner) for t in workload.temporaries),
    )


def _simplified(body: Expr, ranges: Mapping[str, int]) -> Expr:
    return map_indices(body, lambda index: index.simplify(ranges))


def _reshape(operand: Operand, indices: tuple[Index, ...], name: str, inner: int) -> Operand:
    shape: list[Index] = []
    for size, index in zip(operand.sizes, indices, strict=True):
        shape += [Index.of(size // inner), Index.of(inner)] if index.name == name else [Index.of(size)]
    return replace(operand, shape=tuple(shape))
