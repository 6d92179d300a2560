"""A simulated Device: results come from a function or from a recorded log, nothing is compiled or run.

For tests and for comparing strategies offline: the same results, whatever is asked, in no time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import cycle, islice

from compiler.codegen.kernel import Kernel, Phase
from compiler.errors import MeasureError
from compiler.schedule.schedule import Schedule, schedule_from_json, schedule_json
from tuner.measure import Built, FailureKind, MeasureFailed, MeasureInput, MeasureResult
from tuner.pairs import LOOKS
from tuner.record import Trial
from tuner.task import RecordKey, Task

Simulation = Callable[[Task, Schedule], MeasureResult]
"""What measuring a Schedule gives."""


class SimulatedBuilder:
    """Makes kernels whose "code" is the Schedule as JSON."""

    def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
        """One kernel per input."""
        return [Built(_kernel(i.candidate.schedule), 0.0) for i in inputs]

    def close(self) -> None:
        """Nothing to stop."""


class SimulatedRunner:
    """Answers from a Simulation. `measured` counts how often each (key, digest) was asked for."""

    device = "simulated"

    def __init__(self, simulation: Simulation, broken_runs: Iterable[int] = ()) -> None:
        """`broken_runs`: the calls of `run` (0 is the first) that raise MeasureError instead."""
        self.measured: Counter[tuple[RecordKey, str]] = Counter()
        self._simulation = simulation
        self._broken_runs = frozenset(broken_runs)
        self._runs = 0

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        """Results in the order of the inputs; nothing disturbs a simulation, and it needs no pacer."""
        self._runs += 1
        if self._runs - 1 in self._broken_runs:
            msg = "the simulated device is lost; plug it in again"
            raise MeasureError(msg)
        schedules = [schedule_from_json(json.loads(b.kernel.phases[0].object_code)) for b in built]
        self.measured.update((task.key, schedule.digest) for schedule in schedules)
        return [self._simulation(task, schedule) for schedule in schedules]

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """As many samples of each as a comparison takes at first, of the simulated ones in turn."""
        return [_in_turns(result) for result in self.run(task, built)]

    def close(self) -> None:
        """Nothing to stop."""


def recorded(trials: Iterable[Trial]) -> Simulation:
    """The Simulation that replays a log; a Schedule that it lacks fails to build."""
    results = {(trial.key, trial.schedule.digest): trial.result for trial in trials}
    missing = MeasureFailed(FailureKind.BUILD, "the recorded log has no such schedule")
    return lambda task, schedule: results.get((task.key, schedule.digest), missing)


def _in_turns(result: MeasureResult) -> MeasureResult:
    if isinstance(result, MeasureFailed):
        return result
    return replace(result, samples_s=tuple(islice(cycle(result.samples_s), LOOKS[0])))


def _kernel(schedule: Schedule) -> Kernel:
    code = json.dumps(schedule_json(schedule)).encode()
    return Kernel(schedule.digest, (Phase(schedule.digest, code, 1),), ())
