"""Recovering the assignment behind a Schedule of the tuning log, which keeps only the Schedule.

Most knobs show in Steps of their own, so a search one knob at a time, towards more Steps in common, finds it.
"""

from __future__ import annotations

from collections import Counter

from compiler.errors import ScheduleError
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Step
from compiler.space.space import Assignment, SearchSpace

_PASSES = 3


def recover_assignment(space: SearchSpace, schedule: Schedule) -> Assignment | None:
    """An assignment whose Schedule is exactly this one; None where the search finds none."""
    wanted = Counter(schedule.steps)
    for start in dict.fromkeys((space.default, (0,) * len(space.knobs))):
        assignment, common = start, _common(space, start, wanted)
        for _ in range(_PASSES):
            before = assignment
            for place, knob in enumerate(space.knobs):
                for choice in range(len(knob.choices)):
                    other = (*assignment[:place], choice, *assignment[place + 1 :])
                    found = _common(space, other, wanted)
                    if found > common:
                        assignment, common = other, found
            if assignment == before:
                break
        if space.is_legal(assignment) and space.schedule(assignment) == schedule:
            return assignment
    return None


def _common(space: SearchSpace, assignment: Assignment, wanted: Counter[Step]) -> int:
    """Steps in common less those that differ; very low for an illegal assignment."""
    if not space.is_legal(assignment):
        return -(1 << 30)
    try:
        steps = Counter(space.schedule(assignment).steps)
    except ScheduleError:
        return -(1 << 30)
    return 2 * (steps & wanted).total() - steps.total()
