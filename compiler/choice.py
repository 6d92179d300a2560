"""The Schedules of a Program: what a ScheduleSource has for its Workloads, and for a miss the analytic default."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.errors import LuthierError, ScheduleError
from compiler.runtime.image import TaskLookup
from compiler.schedule.legal import is_legal
from compiler.schedule.lower import lower
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import TASK_ERROR_BUDGET, Found, ScheduleSource
from compiler.schedule.steps import Algorithm
from compiler.space.rules import build_space
from compiler.target import Target
from compiler.workload.ir import Workload
from compiler.workload.program import Program
from compiler.workload.specialise import nominal

_LOG = logging.getLogger("luthier")


@dataclass(frozen=True, slots=True)
class Choice:
    """The Schedule of one Workload of a Program, and where it came from."""

    workload: Workload
    found: Found
    lookup: TaskLookup


def choose_schedules(
    program: Program, target: Target, threads: int, source: ScheduleSource
) -> dict[str, Choice]:
    """A Choice per distinct Workload, by digest, in order of first use. A miss gets the analytic default."""
    weights = Counter(s.workload.digest for s in program.subgraphs)
    first = {s.workload.digest: s for s in reversed(program.subgraphs)}
    digests = list(weights)
    answers = look_up([first[d].workload for d in digests], target, threads, source)
    chosen = {}
    for digest, answer in zip(digests, answers, strict=True):
        workload, name = first[digest].workload, first[digest].name
        found = (
            answer
            if answer is not None
            else Found(default_schedule(workload, target, threads, source.error_budget), "default")
        )
        lookup = TaskLookup(digest, name, weights[digest], found.lookup, found.expected_loss)
        chosen[digest] = Choice(workload, found, lookup)
    return chosen


def without_record(
    choice: Choice, target: Target, threads: int, error_budget: float, error: ScheduleError
) -> Choice:
    """The analytic default in place of a record whose Steps do not apply, and a warning that says so.

    Records outlive the code that made them, and logs are imported: one of no use is a miss, not the end of a model.
    """
    _LOG.warning(
        "the tuning log's schedule of %s (task %s) does not apply to it, so it gets the untuned one; run luthier tune "
        "to find it another: %s",
        choice.lookup.name,
        choice.workload.digest[:12],
        error,
    )
    return _by_default(choice, default_schedule(choice.workload, target, threads, error_budget))


def further_choices(
    choice: Choice, target: Target, threads: int, error_budget: float, error: LuthierError
) -> Iterator[Choice]:
    """In place of a Schedule that no code can be made of: what the rules think of next, then plain loops.

    A fault of the rules costs one kernel its speed, and nobody the model. Algorithms are left out, but for those that
    are known to keep to the budget: nothing measures their errors here.
    """
    _LOG.warning(
        "no code can be made of the schedule of %s (task %s, %s), so it gets another, which may be slow; please report "
        "it with the model: %s",
        choice.lookup.name,
        choice.workload.digest[:12],
        choice.lookup.lookup,
        error,
    )
    space = build_space(choice.workload, target, threads, error_budget)
    for assignment in dict.fromkeys(a for a in (space.default, space.careful) if a is not None):
        yield _by_default(choice, space.schedule(assignment))
    for schedule in (space.schedule(assignment) for assignment in space.starts):
        if not any(isinstance(step, Algorithm) for step in schedule.steps):
            yield _by_default(choice, schedule)
    yield _by_default(choice, Schedule())


def _by_default(choice: Choice, schedule: Schedule) -> Choice:
    lookup = replace(choice.lookup, lookup="default", expected_loss=None)
    return Choice(choice.workload, Found(schedule, "default"), lookup)


def with_usable(choice: Choice, target: Target, threads: int, error_budget: float) -> Choice:
    """The Choice, or `without_record` where that does not apply: found without compiling."""
    try:
        lower(replay(choice.workload, choice.found.schedule), "check")
    except ScheduleError as error:
        if choice.lookup.lookup != "exact":
            raise
        return without_record(choice, target, threads, error_budget, error)
    return choice


def look_up(
    workloads: list[Workload], target: Target, threads: int, source: ScheduleSource
) -> list[Found | None]:
    """The source's answer for each Workload. Where one with symbols has none, that of its nominal sizes, if legal."""
    answers = list(source.lookup(workloads, target, threads))
    missed = [i for i, w in enumerate(workloads) if w.symbols and answers[i] is None]
    samples = [nominal(workloads[i]) for i in missed]
    for place, found in zip(missed, source.lookup(samples, target, threads) if samples else (), strict=True):
        if found is not None and is_legal(workloads[place], found.schedule):
            answers[place] = Found(found.schedule, "near")
    return answers


def default_schedule(
    workload: Workload, target: Target, threads: int, error_budget: float = TASK_ERROR_BUDGET
) -> Schedule:
    """What the analytic rules pick without measuring."""
    space = build_space(workload, target, threads, error_budget)
    return space.schedule(space.default)
