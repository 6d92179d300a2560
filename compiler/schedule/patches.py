"""Patches: where windows lie side by side, the data of each is one line, and the sum over a window is one sum.

    t[y, x] = sum(c < 3, r < 4, s < 4) data[c, 4*y + r, 4*x + s] * w[c, r, s]
    →  t[y, x] = sum(k < 48) patch[y, x, k] * w[k]              patch[y, x, 16*c + 4*r + s] = data[c, 4*y + r, 4*x + s]

As `joined` (compiler/schedule/joined.py), it rewrites a Workload as if patches were what there is, another algorithm
that copies its data rewrites that, and `apart` has the copy read the data. It is worth it where windows have little in
common: what several read is copied several times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.packing import Parts
from compiler.scalar import Expr, Load, rewrite
from compiler.schedule.contraction import dimensions_last, find_contraction
from compiler.symbol import Axis, axis, static
from compiler.workload.ir import Operand, Workload

AXIS = "patch"
GROWTH = 1.25
"""Elements of all patches, at most, for one of the data."""


@dataclass(frozen=True, slots=True)
class Patches:
    """A Workload whose data are patches, and how to get back.

    Attributes:
        workload: its operand of the data has the axes of `rows`, and the elements of a patch.
        data, read: the operand as it is, and where the sum finds an element of it.
        rows, summed: axes of the sum, in the order of the patches and of what is in one.
        order: dimensions of the constant: the others, then those of the window.
    """

    workload: Workload
    data: Operand
    read: Load
    rows: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    order: tuple[int, ...]

    def apart(self, made: Workload) -> Workload:
        """What was made of the Workload, with the data as it is, and the constant's dimensions joined first."""
        (name,) = made.transforms
        parts = made.transforms[name]
        if not isinstance(parts, Parts):
            raise AssertionError(parts)

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != self.data.name:
                return None
            *rows, inside = e.indices
            places = {a.name: at for a, at in zip(self.rows, rows, strict=True)}
            places |= digits(inside, self.summed)
            return Load(e.buffer, tuple(index.substitute(places) for index in self.read.indices))

        copy, *others = made.stages  # which may read the data too, as it is
        return replace(
            made,
            operands=tuple(self.data if o.name == self.data.name else o for o in made.operands),
            stages=(copy.rewritten(lambda body: rewrite(body, rule)), *others),
            transforms={name: replace(parts, order=self.order, joined=len(self.summed))},
        )


def digits(number: Index, axes: tuple[Axis, ...]) -> dict[str, Index]:
    """The places along each axis, outermost first, of an element of what is row-major in them."""
    found: dict[str, Index] = {}
    for a in reversed(axes[1:]):
        rest = number // a.size
        found[a.name], number = number - rest * a.size, rest
    return {**found, axes[0].name: number}


def patches(workload: Workload) -> Patches:
    """The rewritten Workload; raises ScheduleError where windows are not side by side, or are padded."""
    stage = workload.stages[0]
    found = find_contraction(workload, stage)
    read = None if found is None else found.data
    if found is None or not isinstance(read, Load) or len(stage.reduce_axes) < 2:
        raise _refused()
    data, weights = workload.buffers[read.buffer], found.weights
    if any(a.extent.constant is None for a in (*stage.axes, *stage.reduce_axes)):
        raise _refused()
    strides = [static(Index.of(step), data.name) for step in data.strides]

    def step(a: Axis) -> int:
        return sum(i.coefficient(a.name) * by for i, by in zip(read.indices, strides, strict=True))

    names = {n for index in read.indices for n in index.names()}
    plain = all(index.is_affine() for index in read.indices)
    summed = tuple(sorted(stage.reduce_axes, key=step, reverse=True))
    if not plain or not {a.name for a in summed} <= names:
        raise _refused()
    rows = tuple(a for a in stage.axes if a.name in names)
    line = prod(a.size for a in summed)
    if prod(a.size for a in rows) * line > GROWTH * data.elements:
        raise _refused()
    order = dimensions_last(weights, summed)
    if order is None:
        raise _refused()
    others = order[: -len(summed)]
    patch = axis(AXIS, line)
    known = workload.buffers[weights.buffer]
    shapes = {
        data.name: (*(a.extent for a in rows), patch.extent),
        known.name: (*(known.shape[d] for d in others), patch.extent),
    }
    factors = {
        read: Load(data.name, (*(Index.of(a.name) for a in rows), Index.of(AXIS))),
        weights: Load(known.name, (*(weights.indices[d] for d in others), Index.of(AXIS))),
    }
    body = rewrite(stage.body, lambda e: factors.get(e) if isinstance(e, Load) else None)
    changed = replace(
        workload,
        operands=tuple(
            replace(o, shape=shapes[o.name]) if o.name in shapes else o for o in workload.operands
        ),
        stages=(replace(stage, body=body, reduce_axes=(patch,)), *workload.stages[1:]),
    )
    return Patches(changed, data, read, rows, summed, order)


def _refused() -> ScheduleError:
    return ScheduleError("the sum has no windows that lie side by side in what it reads")
