"""Near Tasks: what the log knows of Workloads with the same structure and other extents, and what it is worth here.

A structure is the canonical form of a Workload without its numbers. Of the Tasks that share it, those are near whose
extents differ by the smallest factors. The knobs of a near Task's record, with their values as close as the new space
has them, are a Candidate to begin with.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from compiler.space.space import Assignment, Knob, SearchSpace, Value
from compiler.workload.ir import Workload, workload_json
from compiler.workload.specialise import nominal
from tuner.record import Relative
from tuner.search.recover import recover_assignment
from tuner.task import RecordKey, Task

NEAREST = 2
"""So many near Tasks are asked."""
FARTHEST = 12.0
"""Tasks that differ by more doublings, all together, are not near."""
OTHER_TARGET, OTHER_THREADS = 2.0, 1.0
"""Doublings that another Target, and another number of threads, count for."""


class Relatives:
    """Records of the log, by structure. `spaces`: the SearchSpace of a Task."""

    def __init__(self, known: Iterable[Relative], spaces: Callable[[Task], SearchSpace]) -> None:
        """Sort them."""
        self._spaces = spaces
        self._by_structure: dict[str, list[Relative]] = {}
        self._values: dict[tuple[RecordKey, str], dict[str, Value] | None] = {}
        for relative in known:
            self._by_structure.setdefault(structure(relative.task.workload), []).append(relative)

    def seeds(self, task: Task, space: SearchSpace) -> list[Assignment]:
        """Legal assignments that do for a Task what the records of the nearest others do, the nearest first."""
        others = [
            (distance(task, relative.task), place, relative)
            for place, relative in enumerate(self._by_structure.get(structure(task.workload), ()))
            if relative.task.key != task.key
        ]
        near = [relative for away, _, relative in sorted(others, key=lambda o: o[:2]) if away <= FARTHEST]
        seeds = [self._transferred(relative, space) for relative in near[:NEAREST]]
        return list(dict.fromkeys(seed for seed in seeds if seed is not None))

    def _transferred(self, relative: Relative, space: SearchSpace) -> Assignment | None:
        key = (relative.task.key, relative.schedule.digest)
        if key not in self._values:
            there = self._spaces(relative.task)
            assignment = recover_assignment(there, relative.schedule)
            self._values[key] = None if assignment is None else there.values(assignment)
        values = self._values[key]
        return None if values is None else nearest_legal(space, values)


def structure(workload: Workload) -> str:
    """Digest of the canonical form without its numbers."""
    text = json.dumps(_without_numbers(workload_json(workload)), separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def extents(workload: Workload) -> tuple[int, ...]:
    """Sizes of all axes, stage by stage; of those with symbols the nominal ones."""
    return tuple(a.size for stage in nominal(workload).stages for a in (*stage.axes, *stage.reduce_axes))


def distance(one: Task, other: Task) -> float:
    """Doublings from the extents of one Task to those of another, all axes together."""
    sizes = list(zip(extents(one.workload), extents(other.workload), strict=True))
    away = sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in sizes)
    away += OTHER_TARGET if one.target != other.target else 0.0
    return away + (OTHER_THREADS if one.threads != other.threads else 0.0)


def nearest_legal(space: SearchSpace, values: dict[str, Value]) -> Assignment | None:
    """The assignment whose values are the nearest to these, or one that differs by a few places; None without any.

    What the space has no word for is left as in the default.
    """
    wanted = tuple(
        _place(knob, values[knob.name], usual) if knob.name in values else usual
        for knob, usual in zip(space.knobs, space.default, strict=True)
    )
    if space.is_legal(wanted):
        return wanted
    return next((a for a in _around(space, wanted) if space.is_legal(a)), None)


def _place(knob: Knob, value: Value, usual: int) -> int:
    if value in knob.choices:
        return knob.choices.index(value)
    if not isinstance(value, int) or value < 1:
        return usual
    numbers = [
        (abs(math.log2(c / value)), i) for i, c in enumerate(knob.choices) if isinstance(c, int) and c > 0
    ]
    return min(numbers, default=(0.0, usual))[1]


def _around(space: SearchSpace, wanted: Assignment) -> Iterable[Assignment]:
    """Assignments with one knob moved: a place at a time, then as in the default; then two knobs as in the default."""
    moved = [
        (places, i, choice)
        for i, knob in enumerate(space.knobs)
        for choice in range(len(knob.choices))
        if 0 < (places := abs(choice - wanted[i])) <= 3
    ]
    for _, i, choice in sorted(moved):
        yield (*wanted[:i], choice, *wanted[i + 1 :])
    usual = space.default
    for i in range(len(wanted)):
        yield (*wanted[:i], usual[i], *wanted[i + 1 :])
    for i in range(len(wanted)):
        for j in range(i):
            yield tuple(usual[k] if k in (i, j) else choice for k, choice in enumerate(wanted))


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_numbers(inner) for inner in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value
