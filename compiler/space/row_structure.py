"""What the rule for rows looks at: stages that work along the same rows, and the axis that is contiguous in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from compiler.index import Index
from compiler.scalar import Guard, Load, loads
from compiler.schedule.skewed import is_skewed
from compiler.symbol import Axis
from compiler.workload.ir import Stage, Workload


@dataclass(frozen=True, slots=True)
class RowAxes:
    """Axes of the last stage, which stores the output, and of the reductions.

    Attributes:
        rows: axes of the results of all reductions that the last stage has too, outermost first.
        columns: the other axes of the last stage.
        vector: the longest axis along which what a reduction reads is contiguous; None where nothing is.
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    vector: Axis | None

    @property
    def along_rows(self) -> bool:
        """Whether neighbouring rows, not neighbouring columns, fill the lanes."""
        return self.vector is not None and self.vector in self.rows


def row_axes(workload: Workload) -> RowAxes | None:
    """The axes; None where the stages do not share rows, or a reduction takes an element more than once."""
    last = workload.stages[-1]
    reductions = [s for s in workload.stages if s.reducer is not None]
    if last.reducer is not None or not reductions:
        return None
    names = _names(reductions[0])
    if any(_names(s) != names or not _reads_once(s, workload) for s in reductions):
        return None
    if any(not names <= _names(s) for s in workload.stages) or not all(
        map(_stores_plain, workload.stages[:-1])
    ):
        return None
    rows = tuple(a for a in last.axes if a.name in names)
    columns = tuple(a for a in last.axes if a.size > 1 and a.name not in names)
    vectors = [a for a in (summed_axis(s, workload) for s in reductions) if a is not None]
    return RowAxes(rows, columns, max(vectors, key=lambda a: a.size, default=None))


def summed_axis(stage: Stage, workload: Workload) -> Axis | None:
    """The axis along which what a reduction reads is contiguous: in memory, where maps make it of what lies there."""
    axes = (*stage.axes, *stage.reduce_axes)
    taken = _taken(stage)
    for load in _reads(stage, workload):
        operand = workload.buffers[load.buffer]
        # Rows that are looked up may be few, and taken often.
        looked_up = any(index.looked_up() for index in load.indices)
        steps = _steps(load, operand.strides) if looked_up or operand.elements >= taken else {}
        found = [a for a in axes if a.size > 1 and steps.get(a.name) == 1]
        if found:
            return found[0]
    return None


def _reads(stage: Stage, workload: Workload) -> Iterator[Load]:
    """What a stage reads, over its own axes; what the maps before it read in place of their results."""
    makers = {maker.target: maker for maker in workload.stages if maker.reducer is None}
    for load in dict.fromkeys(loads(stage.body)):
        maker = makers.get(load.buffer)
        if maker is None:
            yield load
            continue
        places = zip(maker.target_indices, load.indices, strict=True)
        known = {own.name: at for own, at in places if own.name is not None}
        for read in _reads(maker, workload):
            yield Load(read.buffer, tuple(index.substitute(known) for index in read.indices))


def contiguous_axis(stage: Stage, workload: Workload) -> Axis | None:
    """The axis along which a map stores its result without gaps."""
    place = Load(stage.target, stage.target_indices)
    steps = _steps(place, workload.buffers[stage.target].strides)
    return next((a for a in stage.axes if a.size > 1 and steps.get(a.name) == 1), None)


def rows_shared(workload: Workload, axes: RowAxes) -> int:
    """Operands of the last stage that all rows share along their columns: a scale for each, as a layer norm has."""
    rows, columns = {a.name for a in axes.rows}, {a.name for a in axes.columns}
    read = {
        load.buffer: {n for i in load.indices for n in i.names()} for load in loads(workload.stages[-1].body)
    }
    return sum(bool(names & columns and not names & rows) for names in read.values())


def _names(stage: Stage) -> frozenset[str]:
    return frozenset(a.name for a in stage.axes if a.size > 1)


def _stores_plain(stage: Stage) -> bool:
    return {Index.of(a.name) for a in stage.axes if a.size > 1} <= set(stage.target_indices)


def _reads_once(stage: Stage, workload: Workload) -> bool:
    """Whether some input or temporary has as many elements as the reduction has points."""
    buffers = workload.buffers
    read = [buffers[load.buffer] for load in loads(stage.body)]
    return any(not b.constant and b.elements >= _taken(stage) for b in read)


def _taken(stage: Stage) -> int:
    """Points at which a reduction takes an element: along a skewed axis, those inside of the row."""
    bounds = stage.body.bounds if isinstance(stage.body, Guard) else ()
    rows = {
        a.name: b.high - b.low
        for a in stage.reduce_axes
        if is_skewed(a)
        for b in bounds
        if a.name in b.index.names()
    }
    return prod(rows.get(a.name, a.size) for a in (*stage.axes, *stage.reduce_axes))


def _steps(load: Load, strides: tuple[int, ...]) -> Mapping[str, int]:
    """Elements between neighbours along each axis; nothing for axes inside quotients."""
    steps: dict[str, int] = {}
    for index, stride in zip(load.indices, strides, strict=True):
        for name in index.names():
            steps[name] = steps.get(name, 0) + index.coefficient(name) * stride
    return steps
