"""Whether a Schedule applies to a Workload."""

from __future__ import annotations

from compiler.errors import ScheduleError
from compiler.schedule.lower import lower
from compiler.schedule.primitives import replay
from compiler.schedule.schedule import Schedule
from compiler.workload.ir import Workload


def is_legal(workload: Workload, schedule: Schedule) -> bool:
    """Whether every Step applies and a LoopNest can be made."""
    try:
        lower(replay(workload, schedule), "check")
    except ScheduleError:
        return False
    return True
