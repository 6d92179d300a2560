"""The Schedules of a Program: what a ScheduleSource has for its Workloads, and for a miss the analytic default."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from compiler.runtime.image import TaskLookup
from compiler.schedule.legal import is_legal
from compiler.schedule.schedule import Schedule
from compiler.schedule.source import TASK_ERROR_BUDGET, Found, ScheduleSource
from compiler.space.rules import build_space
from compiler.target import Target
from compiler.workload.ir import Workload
from compiler.workload.program import Program
from compiler.workload.specialise import nominal


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
