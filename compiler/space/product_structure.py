"""What the rule for products looks at: two contractions, and what stands between them along the same rows."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import ScheduleError
from compiler.graph.ir import product_factors
from compiler.index import Index
from compiler.scalar import loads, read_names
from compiler.symbol import Axis
from compiler.workload.ir import Stage, Workload


@dataclass(frozen=True, slots=True)
class Products:
    """A place among the stages of a Workload, and axes.

    Attributes:
        second: place of the contraction that reduces the columns of the first stage's result.
        row: the axis that neither the first's columns nor the second's share an operand with, blocked by schedules.
        column: the axis between the two.
        batch: the other axes of the output, outermost first, but for `wide`, which only the second has.
    """

    second: int
    row: Axis
    column: Axis
    wide: Axis
    batch: tuple[Axis, ...]


def find_products(workload: Workload) -> Products | None:
    """The parts; None where the Workload is not of that form."""
    places = [i for i, s in enumerate(workload.stages) if _is_contraction(s)]
    if len(places) != 2 or places[0] != 0 or len(workload.stages) < 4:
        return None
    first, second, last = workload.stages[0], workload.stages[places[1]], workload.stages[-1]
    if places[1] != len(workload.stages) - 2 or last.reducer is not None or last.also:
        return None
    if len(second.reduce_axes) != 1 or not all(map(_stores_plain, workload.stages[:-1])):
        return None
    column = second.reduce_axes[0]
    wide = [a for a in last.axes if a.name not in _names(first)]
    outer = [a for a in last.axes if a.name in _names(first)]
    row = _row(second, column, wide)
    if len(wide) != 1 or row is None or column.name not in _names(first):
        return None
    if any(not _along_rows(s, {a.name for a in outer}, column) for s in workload.stages[1 : places[1]]):
        return None
    return Products(places[1], row, column, wide[0], tuple(a for a in outer if a != row))


def needed_products(workload: Workload) -> Products:
    """The parts of a Workload of that form; raises ScheduleError on any other."""
    parts = find_products(workload)
    if parts is None:
        msg = "the workload is not two products along the same rows"
        raise ScheduleError(msg)
    return parts


def _is_contraction(stage: Stage) -> bool:
    return stage.reducer == "sum" and product_factors(stage.body) is not None


def _row(second: Stage, column: Axis, wide: list[Axis]) -> Axis | None:
    """The innermost axis of the product that the operand with the wide axis does not have."""
    names = {a.name for a in wide}
    other = [load for load in loads(second.body) if read_names(load) & names]
    if len(other) != 1 or column.name not in read_names(other[0]):
        return None
    rows = [a for a in second.axes if a.name not in read_names(other[0]) and a.size > 1]
    return rows[-1] if rows else None


def _along_rows(stage: Stage, outer: set[str], column: Axis) -> bool:
    """Whether a stage runs over the rows, with the columns at its own place or reduced."""
    spatial, reduced = _names(stage), {a.name for a in stage.reduce_axes}
    return outer <= spatial <= outer | {column.name} and reduced <= {column.name}


def _names(stage: Stage) -> set[str]:
    return {a.name for a in stage.axes}


def _stores_plain(stage: Stage) -> bool:
    return {Index.of(a.name) for a in stage.axes} <= set(stage.target_indices) and not stage.also
