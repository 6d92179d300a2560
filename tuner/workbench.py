"""Workbench: a Builder and a Runner as one, with the time that each takes and a second chance for the Device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from compiler.errors import MeasureError
from tuner.candidate import Candidate
from tuner.measure import Builder, Built, MeasureInput, MeasureResult, Runner
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

    def measure(self, task: Task, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        """One result per candidate, timed one after the other."""
        return self._results(task, candidates, self._runner.run)

    def compare(self, task: Task, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        """One result per candidate, timed in turns."""
        return self._results(task, candidates, self._runner.compare)

    def _results(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        run: Callable[[Task, Sequence[Built]], list[MeasureResult]],
    ) -> list[MeasureResult]:
        inputs = [MeasureInput(task, candidate) for candidate in candidates]
        answers = self._twice("build", lambda: self._builder.build(inputs))
        built = [answer for answer in answers if isinstance(answer, Built)]
        timed = iter(self._twice("measure", lambda: run(task, built)) if built else [])
        return [next(timed) if isinstance(answer, Built) else answer for answer in answers]

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
