"""Columns: what the lines of a window hold at one place is copied side by side, and joined to what is next to it.

    t[y, x] = sum(r < 3, s < 3, c < 4) data[y + r, x + s, c] * w[c, r, s]
    →  t[y, x] = sum(k < 36) column[y, 12*x + k] * w[k]                 column[y, 12*x + 4*r + c] = data[y + r, x, c]

Only neighbours on one line have data in common then, as in `joined` (compiler/schedule/joined.py), which the Workload
is handed to: a sum has fewer and longer runs, and an element is copied once for each line of windows that reads it.
Groups of channels are apart in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from compiler.errors import ScheduleError
from compiler.index import Index
from compiler.packing import Parts
from compiler.scalar import Expr, Guard, Load, loads, rewrite, substitute
from compiler.schedule.contraction import Contraction, dimensions_last, find_contraction
from compiler.schedule.joined import Joined, join
from compiler.schedule.patches import digits
from compiler.symbol import Axis, axis
from compiler.workload.ir import Operand, Stage, Workload

AXIS = "column"


@dataclass(frozen=True, slots=True)
class Columns:
    """A Workload whose data are lines of columns, and how to get back.

    Attributes:
        line: the joined Workload; its operand of the data has the dimensions `kept`, the axes `rows`, and a line.
        data, read: the operand as it is, and an element of it with the tests of what is in a column around it.
        kept: names in `read` of places along dimensions that columns do not go along, that of the line last.
        rows, summed: axes of the sum that tell lines apart, and those of a column, outermost first.
        order: dimensions of the constant: the others, then that of the window's places, then those of a column.
    """

    line: Joined
    data: Operand
    read: Expr
    kept: tuple[str, ...]
    rows: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    order: tuple[int, ...]

    @property
    def length(self) -> int:
        """Elements of a column."""
        return prod(a.size for a in self.summed)

    @property
    def workload(self) -> Workload:
        """With one sum for that over lines and their places."""
        return self.line.workload

    def apart(self, made: Workload) -> Workload:
        """What was made of the Workload, with the data as it is, and the constant's dimensions joined first."""
        made = self.line.apart(made)
        (name,) = made.transforms
        parts = made.transforms[name]
        if not isinstance(parts, Parts):
            raise AssertionError(parts)
        names = (*self.kept[:-1], *(a.name for a in self.rows), self.kept[-1])

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Load) or e.buffer != self.data.name:
                return None
            *_, place, inside = e.indices
            # As a remainder, whose bounds are known, and which is the same for every line.
            inside = (place * self.length + inside) % self.length
            return substitute(
                self.read, {**dict(zip(names, e.indices[:-1], strict=True)), **digits(inside, self.summed)}
            )

        copy, *others = made.stages  # which may read the data too, as it is
        return replace(
            made,
            operands=tuple(self.data if o.name == self.data.name else o for o in made.operands),
            stages=(copy.rewritten(lambda body: rewrite(body, rule)), *others),
            transforms={name: replace(parts, order=self.order, joined=1 + len(self.summed))},
        )


def columns(workload: Workload) -> Columns:
    """The rewritten Workload; raises ScheduleError where windows have one line, or no places in common."""
    stage = workload.stages[0]
    found = find_contraction(workload, stage)
    if found is None or any(a.extent.constant is None for a in (*stage.axes, *stage.reduce_axes)):
        raise _refused()
    (load,) = loads(found.data)
    data, known = workload.buffers[load.buffer], workload.buffers[found.weights.buffer]
    place, window = _line(stage, load)
    gone, summed = _column(stage, load, place)
    kept = [d for d in range(len(load.indices)) if d not in gone and d != place]
    rows = tuple(a for a in stage.axes if any(a.name in load.indices[d].names() for d in gone))
    if any(a.name in load.indices[d].names() for a in rows for d in (*kept, place)):
        raise _refused()
    order = dimensions_last(found.weights, (window, *summed))
    if order is None:
        raise _refused()
    column = axis(AXIS, prod(a.size for a in summed))
    others = order[: -1 - len(summed)]
    shapes = {
        data.name: (
            *(data.shape[d] for d in kept),
            *(a.extent for a in rows),
            data.shape[place],
            column.extent,
        ),
        known.name: (*(known.shape[d] for d in others), window.extent, column.extent),
    }
    line = (*(load.indices[d] for d in kept), *(Index.of(a.name) for a in rows), load.indices[place])
    constant = (*(found.weights.indices[d] for d in others), Index.of(window.name))
    before, inside = _tests(found, load, {a.name for a in (*rows, *summed)})
    factors: dict[Expr, Expr] = {
        found.data: rewrite(
            before, lambda e: Load(data.name, (*line, Index.of(AXIS))) if e == load else None
        ),
        found.weights: Load(known.name, (*constant, Index.of(AXIS))),
    }
    body = rewrite(stage.body, factors.get)
    reduces = tuple(column if a is summed[0] else a for a in stage.reduce_axes if a not in summed[1:])
    changed = replace(
        workload,
        operands=tuple(
            replace(o, shape=shapes[o.name]) if o.name in shapes else o for o in workload.operands
        ),
        stages=(replace(stage, body=body, reduce_axes=reduces), *workload.stages[1:]),
    )
    names = {d: f"place{d}" for d in (*kept, place)}
    element = Load(
        data.name, tuple(Index.of(names[d]) if d in names else i for d, i in enumerate(load.indices))
    )
    read = rewrite(inside, lambda e: element if e == load else None)
    return Columns(join(changed), data, read, tuple(names.values()), rows, summed, order)


def _line(stage: Stage, load: Load) -> tuple[int, Axis]:
    """The last dimension of the data where windows have places in common, and the axis over those of one."""
    for d in reversed(range(len(load.indices))):
        index = load.indices[d]
        moving = [a for a in stage.reduce_axes if a.name in index.names()]
        steps = [index.coefficient(a.name) for a in stage.axes if a.name in index.names()]
        if len(moving) == 1 and index.is_affine() and any(0 < step < moving[0].size for step in steps):
            (window,) = moving
            if index.coefficient(window.name) == 1:
                return d, window
    raise _refused()


def _column(stage: Stage, load: Load, place: int) -> tuple[list[int], tuple[Axis, ...]]:
    """Dimensions of the data that a column goes along, and the axes over one, outermost first.

    They are those behind the places, and of those before them the last that windows move along: the lines.
    """
    by_name = {a.name: a for a in stage.reduce_axes}
    summed = {d: [by_name[n] for n in index.names() if n in by_name] for d, index in enumerate(load.indices)}
    lines = next((d for d in reversed(range(place)) if summed[d]), None)
    if lines is None:
        raise _refused()
    gone = [lines, *(d for d in range(place + 1, len(load.indices)) if load.indices[d].names())]
    if any(len(summed[d]) != 1 or not load.indices[d].is_affine() for d in gone):
        raise _refused()
    axes = tuple(summed[d][0] for d in gone)
    if any(a in summed[d] for a in axes for d in summed if d not in gone):
        raise _refused()
    return gone, axes


def _tests(found: Contraction, load: Load, names: set[str]) -> tuple[Expr, Expr]:
    """The data with those tests around it that say nothing of a column, and with those that do."""
    data = found.data
    if data == load:
        return load, load
    if not isinstance(data, Guard) or data.inside != load:
        raise _refused()
    of_lines = tuple(b for b in data.bounds if not b.index.names() & names)
    of_columns = tuple(b for b in data.bounds if b.index.names() & names)
    if any(b.index.names() - names for b in of_columns):
        raise _refused()
    before, inside = (replace(data, bounds=b) if b else load for b in (of_lines, of_columns))
    return before, inside


def _refused() -> ScheduleError:
    return ScheduleError("the sum has no windows of several lines that have places of a line in common")
