"""Merge axes: neighbours that walk through memory as one become one.

    for h < 56, w < 56, c < 64: y[0, h, w, c] = x[0, h, w, c] + b[c]    y, x: [1, 56, 56, 64]
    →  for h < 3136, c < 64: y[0, h, c] = x[0, h, c] + b[c]             y, x: [1, 3136, 64]

So a 1x1 convolution becomes a matrix product, and a schedule may tile h and w together. Reshapes leave buffers in which
part of that is so already: the index h*56 + w is one of both, and y[g, c*56 + w] has g and c side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from compiler.index import Index, Ranges
from compiler.scalar import Expr, Guard, Load, Pick, rewrite, walk
from compiler.symbol import Axis
from compiler.workload.ir import Operand, Stage, Workload, stage_loads


def merge_axes(workload: Workload) -> Workload:
    """Merge until no pair is left; the same object comes back when there is none."""
    while (merge := next(_merges(workload), None)) is not None:
        workload = _apply(workload, merge)
    return workload


@dataclass(frozen=True, slots=True)
class _Merge:
    """Axes `outer` and `inner`, of so many elements, become `outer`.

    Attributes:
        dims: the dimension of a buffer that outer indexes, which becomes one with the next; `_ONE` where it has both.
        steps: elements of the next one.
    """

    outer: str
    inner: str
    size: int
    dims: dict[str, int]
    steps: dict[str, int]


_ONE = -1


def _merges(workload: Workload) -> Iterator[_Merge]:
    for stage in workload.stages:
        for axes in (stage.axes, stage.reduce_axes):
            for outer, inner in pairwise(axes):
                dims = _dimensions(workload, outer.name, inner.name)
                if dims is not None:
                    steps = {b: workload.buffers[b].sizes[dim + 1] for b, dim in dims.items() if dim != _ONE}
                    yield _Merge(outer.name, inner.name, inner.size, dims, steps)


def _dimensions(workload: Workload, outer: str, inner: str) -> dict[str, int] | None:
    """Where each buffer has the pair; None where an access or a stage forbids merging it."""
    found: dict[str, int] = {}
    untouched: set[str] = set()
    for stage in workload.stages:
        if not _neighbours(stage, outer, inner) or _computes_with(stage, outer, inner):
            return None
        accesses = [*stage_loads(stage), *(Load(r.target, r.indices) for r in stage.results)]
        for access in accesses:
            if not any({outer, inner} & index.names() for index in access.indices):
                untouched.add(access.buffer)
                continue
            dim = _pair(access, outer, inner, workload.buffers[access.buffer].sizes, stage.ranges)
            if dim is None or found.setdefault(access.buffer, dim) != dim:
                return None
    reshaped = {buffer for buffer, dim in found.items() if dim != _ONE}
    return None if untouched & reshaped else found


def _neighbours(stage: Stage, outer: str, inner: str) -> bool:
    """Whether the stage has both in this order next to each other, or neither."""
    for axes in (stage.axes, stage.reduce_axes):
        names = [a.name for a in axes]
        if (outer in names) != (inner in names):
            return False
        if outer in names and names.index(inner) != names.index(outer) + 1:
            return False
    return True


def _computes_with(stage: Stage, outer: str, inner: str) -> bool:
    """Whether a bound or a table of literals depends on one of them."""
    indices = [
        index
        for result in stage.results
        for e in walk(result.body)
        for index in (
            [b.index for b in e.bounds] if isinstance(e, Guard) else [e.index] if isinstance(e, Pick) else []
        )
    ]
    return any({outer, inner} & index.names() for index in indices)


def _pair(access: Load, outer: str, inner: str, sizes: tuple[int, ...], ranges: Ranges) -> int | None:
    """The dimension that outer indexes over its full extent, where inner takes the largest steps of the next one."""
    touched = [d for d, index in enumerate(access.indices) if {outer, inner} & index.names()]
    dim, index = touched[0], access.indices[touched[-1]]
    if len(touched) == 1:
        return _ONE if _walks(index, outer, inner, ranges[inner]) else None
    if touched != [dim, dim + 1] or access.indices[dim].name != outer or sizes[dim] != ranges[outer]:
        return None
    whole = index + Index.of(outer) * sizes[dim + 1]
    return dim if _walks(whole, outer, inner, ranges[inner]) else None


def _walks(index: Index, outer: str, inner: str, size: int) -> bool:
    """Whether an index moves on from the end of inner as within it."""
    plain = [atom for atom, _ in index.terms if {outer, inner} & Index.of(atom).names()]
    return set(plain) == {outer, inner} and index.coefficient(outer) == size * index.coefficient(inner)


def _apply(workload: Workload, merge: _Merge) -> Workload:
    def reshape(operands: tuple[Operand, ...]) -> tuple[Operand, ...]:
        return tuple(_reshape(o, merge.dims.get(o.name)) for o in operands)

    return replace(
        workload,
        operands=reshape(workload.operands),
        temporaries=reshape(workload.temporaries),
        outputs=reshape(workload.outputs),
        stages=tuple(_merge_stage(s, merge) for s in workload.stages),
    )


def _reshape(operand: Operand, dim: int | None) -> Operand:
    if dim is None or dim == _ONE:
        return operand
    sizes, shape = operand.sizes, operand.shape
    merged = Index.of(sizes[dim] * sizes[dim + 1])
    return replace(operand, shape=(*shape[:dim], merged, *shape[dim + 2 :]))


def _merge_stage(stage: Stage, merge: _Merge) -> Stage:
    def drop(buffer: str, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        dim = merge.dims.get(buffer)
        if dim is None:
            return indices
        if dim != _ONE:
            both = indices[dim] * merge.steps[buffer] + indices[dim + 1]
            indices = (*indices[:dim], both, *indices[dim + 2 :])
        return tuple(_walked(index, merge) for index in indices)

    def rule(e: Expr) -> Expr | None:
        return Load(e.buffer, drop(e.buffer, e.indices)) if isinstance(e, Load) else None

    return replace(
        stage.rewritten(lambda body: rewrite(body, rule), drop),
        axes=_merge_pair(stage.axes, merge, stage.ranges),
        reduce_axes=_merge_pair(stage.reduce_axes, merge, stage.ranges),
    )


def _walked(index: Index, merge: _Merge) -> Index:
    """Outer takes the steps of inner: it counts both."""
    rest = Index.sum([(a, c) for a, c in index.terms if a not in (merge.outer, merge.inner)], index.const)
    return rest + Index.of(merge.outer) * index.coefficient(merge.inner)


def _merge_pair(axes: tuple[Axis, ...], merge: _Merge, ranges: Ranges) -> tuple[Axis, ...]:
    kept = [a for a in axes if a.name != merge.inner]
    both = Index.of(ranges.get(merge.outer, 1) * ranges.get(merge.inner, 1))
    return tuple(Axis(a.name, both) if a.name == merge.outer else a for a in kept)
