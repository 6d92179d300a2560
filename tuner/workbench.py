"""Workbench: a Builder and a Runner as one, which build one batch while they measure another.

    submit → [building thread] → [device thread] → Batch.results

The time that a session waits for a batch is told by what it waited for: building, verifying or timing. What happens
while the session itself is busy costs no time and is not counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from compiler.errors import MeasureError
from tuner.candidate import Candidate
from tuner.measure import Builder, Built, Measured, MeasureFailed, MeasureInput, MeasureResult, Runner
from tuner.phases import PhaseClock
from tuner.task import RecordKey, Task

T = TypeVar("T")
_Run = Callable[[Task, Sequence[Built], Built | None], list[MeasureResult]]

_KEPT_KERNELS = 512
"""Kernels that are kept for final comparisons."""


class Batch:
    """Candidates of one Task on their way."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        built: Future[list[Built | MeasureFailed]],
        measured: Future[list[MeasureResult]],
        clock: PhaseClock,
    ) -> None:
        self.candidates = tuple(candidates)
        self._built = built
        self._measured = measured
        self._clock = clock

    def results(self) -> list[MeasureResult]:
        """One result per candidate, waited for; raises MeasureError when a second attempt failed too."""
        with self._clock.phase("build"):
            # What went wrong is told by the results.
            self._built.exception()
        start_s = self._clock.elapsed_s
        try:
            results = self._measured.result()
        except BaseException:
            self._clock.add("time", self._clock.elapsed_s - start_s)
            raise
        waited_s = self._clock.elapsed_s - start_s
        measured = [r for r in results if isinstance(r, Measured)]
        verify_s, time_s = sum(m.verify_s for m in measured), sum(m.measure_s for m in measured)
        share = verify_s / (verify_s + time_s) if verify_s + time_s else 0.0
        self._clock.add("verify", waited_s * share)
        self._clock.add("time", waited_s * (1 - share))
        return results


class Workbench:
    """Builds and measures batches in the order in which they are submitted. For one thread; close it after use."""

    def __init__(self, builder: Builder, runner: Runner, clock: PhaseClock) -> None:
        """Closing builder and runner stays with the caller."""
        self._builder = builder
        self._runner = runner
        self._clock = clock
        self._kernels: OrderedDict[tuple[RecordKey, str], Built] = OrderedDict()
        self._building = ThreadPoolExecutor(1, thread_name_prefix="luthier-building")
        self._measuring = ThreadPoolExecutor(1, thread_name_prefix="luthier-measuring")

    @property
    def device(self) -> str:
        """Name of the Device."""
        return self._runner.device

    def submit(self, task: Task, candidates: Sequence[Candidate], pacer: Candidate | None = None) -> Batch:
        """Have candidates built and timed, after all that was submitted before; `pacer`: see `Runner.run`."""
        return self._submit(task, candidates, pacer, self._run)

    def compare(self, task: Task, candidates: Sequence[Candidate]) -> Batch:
        """As `submit`, but they are timed until it is known which is the fastest."""
        return self._submit(task, candidates, None, self._compare)

    def _submit(
        self, task: Task, candidates: Sequence[Candidate], pacer: Candidate | None, run: _Run
    ) -> Batch:
        wanted = [*candidates, *([] if pacer is None else [pacer])]
        built = self._building.submit(self._build, task, wanted)
        measured = self._measuring.submit(self._measure, task, built, len(candidates), run)
        return Batch(candidates, built, measured, self._clock)

    def close(self) -> None:
        """End when what is being built and measured has ended; what was to follow is dropped."""
        for pool in (self._building, self._measuring):
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in (self._building, self._measuring):
            pool.shutdown()

    def _build(self, task: Task, candidates: Sequence[Candidate]) -> list[Built | MeasureFailed]:
        missing = {c.digest: c for c in candidates if (task.key, c.digest) not in self._kernels}
        inputs = [MeasureInput(task, candidate) for candidate in missing.values()]
        made = self._twice(lambda: self._builder.build(inputs)) if inputs else []
        found = dict(zip(missing, made, strict=True))
        answers = [found.get(c.digest) or self._kernels[task.key, c.digest] for c in candidates]
        for candidate, answer in zip(candidates, answers, strict=True):
            if isinstance(answer, Built):
                self._kernels[task.key, candidate.digest] = answer
                self._kernels.move_to_end((task.key, candidate.digest))
        while len(self._kernels) > _KEPT_KERNELS:
            self._kernels.popitem(last=False)
        return answers

    def _measure(
        self, task: Task, building: Future[list[Built | MeasureFailed]], count: int, run: _Run
    ) -> list[MeasureResult]:
        answers, beside = building.result()[:count], building.result()[count:]
        built = [answer for answer in answers if isinstance(answer, Built)]
        pacer = next((answer for answer in beside if isinstance(answer, Built)), None)
        timed = iter(self._twice(lambda: run(task, built, pacer)) if built else [])
        return [next(timed) if isinstance(answer, Built) else answer for answer in answers]

    def _run(self, task: Task, built: Sequence[Built], pacer: Built | None) -> list[MeasureResult]:
        return self._runner.run(task, built, pacer)

    def _compare(self, task: Task, built: Sequence[Built], _: Built | None) -> list[MeasureResult]:
        return self._runner.compare(task, built)

    def _twice(self, work: Callable[[], T]) -> T:
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
