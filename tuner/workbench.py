"""Workbench: a Builder and a Runner as one, with the time that each takes and a second chance for the Device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from compiler.errors import MeasureError
from tuner.candidate import Candidate
from tuner.measure import Builder, Built, Measured, MeasureFailed, MeasureInput, MeasureResult, Runner
from tuner.phases import Phase, PhaseClock
from tuner.task import Task

T = TypeVar("T")


class Workbench:
    """Builds and measures candidates of one Task at a time. Raises MeasureError when a second attempt fails too."""

    def __init__(self, builder: Builder, runner: Runner, clock: PhaseClock) -> None:
        """Closing builder and runner stays with the caller."""
        self._builder = builder
        self._runner = runner
        self._clock = clock

    @property
    def device(self) -> str:
        """Name of the Device."""
        return self._runner.device

    def measure(self, task: Task, candidates: Sequence[Candidate], rounds: int = 1) -> list[MeasureResult]:
        """One result per candidate.

        With several rounds the candidates take turns, so that a drifting clock slows all of them alike; the samples
        of a candidate are then those of all its rounds, and one failure among them is its result.
        """
        inputs = [MeasureInput(task, candidate) for candidate in candidates]
        answers = self._twice("build", lambda: self._builder.build(inputs))
        built = [answer for answer in answers if isinstance(answer, Built)]
        timed: list[MeasureResult] = []
        if built:
            timed = self._twice("measure", lambda: self._runner.run(task, built * rounds))
        merged = iter([_merge(timed[i :: len(built)]) for i in range(len(built))])
        return [next(merged) if isinstance(answer, Built) else answer for answer in answers]

    def _twice(self, phase: Phase, work: Callable[[], T]) -> T:
        with self._clock.phase(phase):
            try:
                return work()
            except MeasureError:
                pass
            try:
                return work()
            except MeasureError as error:
                msg = (
                    f"measuring on {self.device} failed twice ({error}); what was measured so far is in the "
                    "tuning log, run the same command again to go on"
                )
                raise MeasureError(msg) from error


def _merge(results: Sequence[MeasureResult]) -> MeasureResult:
    """The results of one candidate's rounds as one."""
    measured: list[Measured] = []
    for result in results:
        if isinstance(result, MeasureFailed):
            return result
        measured.append(result)
    if len(measured) == 1:
        return measured[0]
    return Measured(
        samples_s=tuple(sample for m in measured for sample in m.samples_s),
        error=max(m.error for m in measured),
        build_s=measured[0].build_s,
        verify_s=sum(m.verify_s for m in measured),
        measure_s=sum(m.measure_s for m in measured),
    )
