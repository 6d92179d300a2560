"""What a session tells while it runs, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from compiler.schedule.schedule import Schedule
from tuner.task import Task

TaskStatus = Literal["tuned", "default", "cached", "provisional", "failed", "untouched", "withdrawn"]
"""How a Task ended.

    tuned        a schedule that was timed in alternation with the default, and won
    default      the default schedule won, or tied
    cached       the log knew enough, nothing was measured
    provisional  the best trial so far; the session ended before the final comparison
    failed       every candidate failed
    untouched    no trial in this session and no record
    withdrawn    its schedule won alone, but was slower than the default inside of the model
"""


EventType = Literal["task", "trial", "best", "state"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, in plain JSON values.

        state  {"state": "running" | "finishing" | "succeeded" | "cancelled" | "failed", "trials", "seconds", "tasks"}
        task   {"workload", "name", "trials", "status", "untuned_s", "tuned_s", "cached"}   a Task is settled
        trial  {"workload", "name", "trials", "best_s", "time_s", "failure", "message"}   one measured candidate
        best   {"workload", "name", "trials", "best_s", "untuned_s"}                 it was the Task's fastest so far

    "trials" counts new ones: those of the session in `state`, those of the Task elsewhere.
    """

    type: EventType
    data: dict[str, Any]


@dataclass(frozen=True)
class TaskResult:
    """What became of one Task.

    Attributes:
        trials, failed: new ones of this session.
        untuned_s, tuned_s: medians of the default and of the winner from one comparison; None where unknown.
        schedule: what is served from now on; None where nothing is.
        curve: (trials of the Task in this session, seconds since the start, best time so far) at every improvement
            and at the last trial; it starts at (0, 0.0, best) where the log knew a best time.
        cached: the log knew enough, so that no trial was spent.
    """

    task: Task
    trials: int
    failed: int
    untuned_s: float | None
    tuned_s: float | None
    schedule: Schedule | None
    curve: tuple[tuple[int, float, float], ...]
    status: TaskStatus
    cached: bool


@dataclass(frozen=True)
class SessionResult:
    """What a session did.

    Attributes:
        tasks: in the order in which they were given.
        phase_seconds: search, model, build, verify, time, store and wait; they sum to the wall clock. What is built
            and measured while the session searches or stores is not counted: it costs no time.
        records_added: Tasks whose record is new or was replaced.
        cost_model: the FitReport of all data by field; empty where no model was trained.
        cancelled: whether it ended because it was asked to.
    """

    tasks: tuple[TaskResult, ...]
    phase_seconds: dict[str, float]
    records_added: int
    trials: int
    failed_trials: int
    cost_model: dict[str, Any]
    cancelled: bool = False
