"""Schedule: how a Workload is computed, as data.

    schedule ::= Schedule(steps)          ordered, frozen
    step     ::= one of compiler.schedule.steps (Split, Reorder, Fuse, Bind, ComputeAt, Pack, ...)

A Schedule knows nothing of the Workload that it is for: replaying it on an equal Workload gives the identical LoopNest
on any platform. Each Step checks that it is legal when it is applied.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.schedule.steps import Step, step_from_json, step_json

LANGUAGE = 1
"""Version of the schedule language; part of every record's key."""


@dataclass(frozen=True)
class Schedule:
    """Ordered Steps."""

    steps: tuple[Step, ...] = ()

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits over the JSON form."""
        text = json.dumps(schedule_json(self), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def schedule_json(schedule: Schedule) -> list[Any]:
    """JSON form: one object a Step."""
    return [step_json(step) for step in schedule.steps]


def schedule_from_json(data: Any) -> Schedule:
    """Inverse of `schedule_json`; raises ValueError on anything else."""
    if not isinstance(data, list):
        msg = "a schedule is a list of steps"
        raise ValueError(msg)
    return Schedule(tuple(step_from_json(step) for step in data))
