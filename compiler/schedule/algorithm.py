"""Algorithm: the first Step may replace the Workload by an equivalent one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.errors import ScheduleError
from compiler.schedule.apart import apart
from compiler.schedule.both_parts import parts_of_both
from compiler.schedule.copied_data import copied_data
from compiler.schedule.moments import moments
from compiler.schedule.padded import padded
from compiler.schedule.panels import panels
from compiler.schedule.parts import parts
from compiler.schedule.scattered import scattered
from compiler.schedule.separated import separated
from compiler.schedule.short_constants import short_constants
from compiler.schedule.skewed import skewed
from compiler.schedule.space_to_batch import space_to_batch
from compiler.schedule.state import State, initial_state
from compiler.schedule.steps import Algorithm
from compiler.schedule.strassen import strassen
from compiler.schedule.winograd import winograd
from compiler.workload.ir import Workload

Rewrite = Callable[[Workload, tuple[int, ...]], Workload]
"""An equivalent Workload with the same operands and outputs; raises ScheduleError where it does not apply."""


def _direct(workload: Workload, parameters: tuple[int, ...]) -> Workload:
    return workload


REWRITES: Mapping[str, Rewrite] = {
    "direct": _direct,
    "winograd": winograd,
    "strassen": strassen,
    "copied_data": copied_data,
    "panels": panels,
    "parts": parts,
    "parts_of_both": parts_of_both,
    "apart": apart,
    "padded": padded,
    "scattered": scattered,
    "separated": separated,
    "moments": moments,
    "short_constants": short_constants,
    "skewed": skewed,
    "space_to_batch": space_to_batch,
}


def algorithm(state: State, step: Algorithm) -> State:
    """`stages of the workload` → `stages of the rewritten one`. Legal only before every other Step."""
    if step.name not in REWRITES:
        msg = f"unknown algorithm {step.name!r}; use one of {', '.join(sorted(REWRITES))}"
        raise ScheduleError(msg)
    if state != initial_state(state.workload):
        msg = f"algorithm {step.name} must be the first step of a schedule"
        raise ScheduleError(msg)
    return initial_state(REWRITES[step.name](state.workload, step.parameters))
