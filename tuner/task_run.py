"""TaskRun: one Task in a session, with all that is known of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tuner import finals
from tuner.candidate import Candidate
from tuner.finals import Timed
from tuner.measure import Measured, MeasureFailed, MeasureResult
from tuner.outcome import Event, EventType, TaskResult, TaskStatus
from tuner.record import CODEGEN_EPOCH, TuningRecord
from tuner.search.protocol import SearchStrategy
from tuner.task import Task

Batch = Sequence[tuple[Candidate, MeasureResult]]


class TaskRun:
    """What a session knows of a Task, and how far it has come.

    Attributes:
        record: what the log serves for it, of whatever epoch.
        known: trials of the log, oldest first.
        outlived: digest of the log's Schedule where its Steps no longer apply, or never did: whatever its time, a new
            record takes its place.
        trials, failed: new ones.
        improved: whether the newest batch held the fastest trial so far.
        settled: whether its final comparison was held.
        cached: whether the log knew enough.
        replaced: whether the session put a record.
    """

    def __init__(
        self,
        task: Task,
        default: Candidate,
        record: TuningRecord | None,
        strategy: SearchStrategy,
        known: Batch = (),
        outlived: str | None = None,
    ) -> None:
        """Take over the trials of the log."""
        self.task = task
        self.default = default
        self.record = record
        self.strategy = strategy
        self.known = tuple(known)
        self.outlived = outlived
        self.trials = 0
        self.failed = 0
        self.improved = False
        self.settled = False
        self.cached = False
        self.replaced = False
        self._measured: dict[str, Timed] = {}
        self._pace_s: float | None = None
        self._best_s: float | None = None
        self._curve: list[tuple[int, float, float]] = []
        self._last_s = 0.0
        self._strategy_observes(known)
        if self._best_s is not None:
            self._curve.append((0, 0.0, self._best_s))

    @property
    def best_s(self) -> float | None:
        """Fastest trial, the log's included; None where none succeeded."""
        return self._best_s

    @property
    def untuned_s(self) -> float | None:
        """Time of the default: from the comparison that the record came out of, else from its trial."""
        if (
            self.record is not None
            and self.record.untuned_s > 0
            and not self.needs_final
            and self._has_final_record
        ):
            return self.record.untuned_s
        trial = self.trial_of(self.default)
        return None if trial is None else trial.median_s

    @property
    def needs_final(self) -> bool:
        """Whether a comparison is due that has not been held."""
        return not self.settled and bool(self._measured) and (self.trials > 0 or not self._has_final_record)

    def paced(self, results: Sequence[MeasureResult]) -> list[MeasureResult]:
        """What trials would have taken on a machine that is as fast as when the default had its own (`at_pace`).

        Trials of other moments compete with them. Where the default has none yet, the pace is that of these.
        """
        if self._pace_s is None:
            trial = self.trial_of(self.default)
            rounds = max((r.pacer_s for r in results if isinstance(r, Measured)), key=len, default=())
            if trial is not None:
                self._pace_s = trial.median_s
            elif rounds:
                self._pace_s = statistics.median(rounds)
        pace_s = self._pace_s
        return [r.at_pace(pace_s) if isinstance(r, Measured) and pace_s else r for r in results]

    def observe(self, batch: Batch, elapsed_s: float) -> list[Event]:
        """Take over new trials; what there is to tell of them."""
        events: list[Event] = []
        self.improved = False
        self._last_s = elapsed_s
        for candidate, result in batch:
            faster = self._remember(candidate, result)
            self.trials += 1
            self.failed += isinstance(result, MeasureFailed)
            events.append(self._trial_event(result))
            if faster and self._best_s is not None:
                self.improved = True
                self._curve.append((self.trials, elapsed_s, self._best_s))
                events.append(self._event("best", best_s=self._best_s, untuned_s=self.untuned_s))
        self.strategy.observe([c for c, _ in batch], [r for _, r in batch])
        return events

    def leader(self) -> Timed | None:
        """The winner by trials alone; None where none succeeded."""
        return finals.leader(list(self._measured.values()), self.default) if self._measured else None

    def finalists(self) -> list[Candidate]:
        """Who takes part in the final comparison."""
        incumbent = None if self.record is None else Candidate(self.record.schedule)
        return finals.finalists(list(self._measured.values()), self.default, incumbent)

    def trial_of(self, candidate: Candidate) -> Measured | None:
        """The successful trial of a candidate."""
        timed = self._measured.get(candidate.digest)
        return None if timed is None else timed[1]

    def task_event(self) -> Event:
        """Tells that the Task is settled."""
        result = self.result()
        return self._event(
            "task",
            status=result.status,
            untuned_s=result.untuned_s,
            tuned_s=result.tuned_s,
            cached=self.cached,
        )

    def result(self) -> TaskResult:
        """What became of it."""
        curve = list(self._curve)
        if curve and curve[-1][0] < self.trials:
            curve.append((self.trials, self._last_s, curve[-1][2]))
        return TaskResult(
            task=self.task,
            trials=self.trials,
            failed=self.failed,
            untuned_s=self.untuned_s,
            tuned_s=None if self.record is None else self.record.measured.median_s,
            schedule=None if self.record is None else self.record.schedule,
            curve=tuple(curve),
            status=self._status(),
            cached=self.cached,
        )

    @property
    def _has_final_record(self) -> bool:
        if self.record is None or self.record.codegen_epoch != CODEGEN_EPOCH:
            return False
        return self.record.provenance.get("stage") != "provisional"

    def _status(self) -> TaskStatus:
        if self.cached and not self.settled:
            return "cached"
        if self.record is None:
            return "failed" if self.trials or self.known else "untouched"
        if self.needs_final:
            return "provisional"
        return "default" if self.record.schedule.digest == self.default.digest else "tuned"

    def _strategy_observes(self, known: Batch) -> None:
        for candidate, result in known:
            self._remember(candidate, result)
        self.strategy.observe([c for c, _ in known], [r for _, r in known])

    def _remember(self, candidate: Candidate, result: MeasureResult) -> bool:
        """Keep a trial; whether it is the fastest so far."""
        if isinstance(result, MeasureFailed):
            return False
        self._measured[candidate.digest] = (candidate, result)
        if self._best_s is not None and result.median_s >= self._best_s:
            return False
        self._best_s = result.median_s
        return True

    def _trial_event(self, result: MeasureResult) -> Event:
        if isinstance(result, MeasureFailed):
            failure, message, time_s = result.kind.value, result.message, None
        else:
            failure, message, time_s = None, None, result.median_s
        return self._event("trial", best_s=self._best_s, time_s=time_s, failure=failure, message=message)

    def _event(self, kind: EventType, **data: object) -> Event:
        workload = self.task.workload.digest
        return Event(kind, {"workload": workload, "name": self.task.name, "trials": self.trials, **data})
