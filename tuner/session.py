"""TuningSession: tunes Tasks within a budget, one durable batch of trials after the other.

    load the log → [choose a Task → propose → build → measure → store → learn]* → compare the finalists → record

The next batch is chosen and built while one is measured, so that the Device need not wait; it is chosen without knowing
the results of that one. A Task's finalists are compared while batches of other Tasks are built. Everything but the
times is deterministic: the same Tasks, log, options and results give the same proposals. A crash at any moment loses at
most the batches that were on their way; the next session goes on from the log.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import InputError, MeasureError
from compiler.space.space import SearchSpace
from tuner.candidate import Candidate
from tuner.cost_model.learner import Learner
from tuner.cost_model.protocol import CostModel
from tuner.database import TuningLog
from tuner.deadline import Deadline
from tuner.finals import Timed, evidence, settle
from tuner.loading import KNOWN_LIMIT, default_space, load_run, task_share
from tuner.measure import Builder, Measured, MeasureResult, Runner
from tuner.near import Relatives
from tuner.options import SessionOptions, check_tasks
from tuner.outcome import Event, SessionResult, TaskResult
from tuner.phases import PhaseClock
from tuner.record import CODEGEN_EPOCH, Trial, TuningRecord
from tuner.search.strategies import is_ranked
from tuner.task import Task
from tuner.task_run import TaskRun
from tuner.task_scheduler.gradient import GradientScheduler, TaskShare
from tuner.workbench import Batch, Workbench

_LOG = logging.getLogger("luthier.tuner")

__all__ = ["Event", "SessionOptions", "SessionResult", "TaskResult", "TuningSession"]


@dataclass(frozen=True, slots=True)
class _Flight:
    """Trials or a final comparison on their way, the place of their Task, and when they were submitted."""

    place: int
    batch: Batch
    start_s: float
    compares: bool = False


class TuningSession:
    """One run of the tuner over some Tasks. Not reusable; `progress` is called from the thread that runs it."""

    def __init__(  # noqa: PLR0913  (the collaborators, each of them replaceable)
        self,
        tasks: Sequence[Task],
        builder: Builder,
        runner: Runner,
        log: TuningLog,
        options: SessionOptions,
        *,
        spaces: Callable[[Task], SearchSpace] = default_space,
        job: str | None = None,
        progress: Callable[[Event], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        cost_model: CostModel | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; nothing is read or measured before `run`. Raises InputError on options that make no sense.

        Args:
            tasks: with distinct keys.
            builder: makes code of candidates; closing it stays with the caller, as with the runner.
            runner: verifies and times them.
            log: where trials and records go.
            options: budgets and choices.
            spaces: the SearchSpace of a Task.
            job: under which name trials are logged.
            progress: is told every Event.
            cancelled: is asked between batches whether to stop.
            cost_model: ranks candidates; by default XGBoost on the features of the loops.
            now_s: a clock that never goes back.
        """
        options.check()
        check_tasks(tasks)
        self._tasks = tuple(tasks)
        self._log = log
        self._options = options
        self._spaces = spaces
        self._job = job
        self._progress = progress or (lambda event: None)
        self._cancelled = cancelled or (lambda: False)
        self._clock = PhaseClock(now_s)
        self._deadline = Deadline(options.seconds)
        self._bench = Workbench(builder, runner, self._clock)
        model = cost_model or _default_model(options, tasks) if is_ranked(options.strategy) else None
        self._learner = Learner(model, self._clock)
        self._runs: list[TaskRun] = []
        self._flights: deque[_Flight] = deque()
        self._compared: set[int] = set()
        self._landed_s = 0.0
        self._scheduler = self._schedule([])

    def run(self) -> SessionResult:
        """Tune until the budget, the patience or the caller ends it.

        Raises:
            MeasureError: the Device failed twice in a row; what was measured before is in the log.
            DatabaseError: the log cannot be read or written.
        """
        self._state("running")
        try:
            self._load()
            self._search()
            self._state("finishing")
            self._finish()
        except MeasureError as error:
            self._state("failed", error=str(error))
            raise
        finally:
            self._bench.close()
        cancelled = self._cancelled()
        self._state("cancelled" if cancelled else "succeeded")
        return self._result(cancelled=cancelled)

    def _load(self) -> None:
        """Start every Task from what the log knows; those of which it knows enough get no trials."""
        with self._clock.phase("store"):
            self._log.put_tasks(self._tasks)
            records = self._log.records([task.key for task in self._tasks])
            trials = [self._log.trials(task.key, KNOWN_LIMIT) for task in self._tasks]
            known = self._log.relatives() if len(records) < len(self._tasks) else []
        relatives = Relatives(known, self._spaces)
        shares = []
        for task, logged in zip(self._tasks, trials, strict=True):
            with self._clock.phase("search"):
                record, scorer, space = records.get(task.key), self._learner.scorer(task), self._spaces(task)
                run = load_run(task, space, record, logged, self._options, scorer, relatives)
            shares.append(task_share(task, space))
            self._runs.append(run)
            self._learner.observe(task, run.known)
        self._scheduler = self._schedule(shares)
        for place in range(len(self._tasks)):
            self._replay(place)
        self._learner.train_if_due()

    def _schedule(self, shares: Sequence[TaskShare]) -> GradientScheduler:
        options = self._options
        return GradientScheduler(shares, options.trials, options.batch_size, options.patience)

    def _replay(self, place: int) -> None:
        """Show the scheduler the log's trials in batches, and leave out a Task of which enough is known."""
        run, size, best_s = self._runs[place], self._options.batch_size, math.inf
        for start in range(0, len(run.known), size):
            batch = run.known[start : start + size]
            best_s = min([best_s, *(r.median_s for _, r in batch if isinstance(r, Measured))])
            self._scheduler.know(place, len(batch), None if best_s == math.inf else best_s)
        enough = self._scheduler.is_done(place) or len(run.known) >= self._options.enough_trials(
            len(self._tasks)
        )
        if enough and run.record is not None and run.record.codegen_epoch == CODEGEN_EPOCH:
            run.cached = True
            self._scheduler.finish(place)
            self._progress(run.task_event())

    def _search(self) -> None:
        """Keep batches on their way until trials, time or Tasks are used up, or the caller ends it."""
        while not self._cancelled():
            while self._may_launch() and self._launch():
                pass
            self._compare_done()
            if not self._flights:
                return
            self._land(self._flights.popleft())

    def _may_launch(self) -> bool:
        """Whether another batch may be built while those on their way are: small ones are many."""
        if not self._options.ahead:
            return not self._flights
        return self._flying_trials <= self._options.ahead * self._options.batch_size

    @property
    def _flying_trials(self) -> int:
        return sum(len(flight.batch.candidates) for flight in self._flights if not flight.compares)

    @property
    def _flying_comparisons(self) -> int:
        return sum(flight.compares for flight in self._flights)

    def _launch(self) -> bool:
        """Choose a Task and propose its next batch; whether there is one."""
        if self._flights and not self._deadline.knows_pace:
            return False
        while (affordable := self._affordable_trials()) >= 1 and (
            choice := self._scheduler.next()
        ) is not None:
            place, size = choice
            run = self._runs[place]
            with self._clock.phase("search"):
                candidates = run.strategy.propose(int(min(size, affordable)))
            if candidates:
                self._scheduler.start(place, len(candidates))
                batch = self._bench.submit(run.task, candidates, run.default)
                self._flights.append(_Flight(place, batch, self._clock.elapsed_s))
                return True
            self._scheduler.finish(place)
        return False

    def _affordable_trials(self) -> float:
        """Trials that fit in the time left, less those that are on their way."""
        pending = sum(run.needs_final for run in self._runs)
        return self._deadline.affordable_trials(self._clock.elapsed_s, pending) - self._flying_trials

    def _land(self, flight: _Flight) -> None:
        """Wait for what is on its way, and make it durable."""
        results = flight.batch.results()
        start_s, self._landed_s = max(flight.start_s, self._landed_s), self._clock.elapsed_s
        if flight.compares:
            self._deadline.compared(self._landed_s - start_s)
            self._settle(self._runs[flight.place], flight.batch.candidates, results)
        else:
            self._deadline.measured(len(results), start_s, self._landed_s)
            self._learn(flight, results)

    def _learn(self, flight: _Flight, results: Sequence[MeasureResult]) -> None:
        """Make trials durable and learn from them."""
        run = self._runs[flight.place]
        batch = list(zip(flight.batch.candidates, run.paced(results), strict=True))
        device, seed = self._bench.device, self._options.measure.seed
        with self._clock.phase("store"):
            trials = [Trial(run.task.key, c.schedule, r, device, seed) for c, r in batch]
            self._log.append_trials(trials, self._job)
        for event in run.observe(batch, self._clock.elapsed_s):
            self._progress(event)
        self._learner.observe(run.task, batch)
        self._learner.train_if_due()
        self._scheduler.observe(flight.place, len(batch), run.best_s, trial_s=_device_s(results))
        leader = run.leader()
        if leader is not None and run.improved:
            self._keep(run, leader, run.untuned_s, {"stage": "provisional"})

    def _compare_done(self) -> None:
        """Begin final comparisons of Tasks that get no more trials, few at a time: others are built meanwhile."""
        for place in range(len(self._runs)):
            if self._flying_comparisons > self._options.ahead:
                return
            flies = any(flight.place == place for flight in self._flights)
            if self._scheduler.is_done(place) and place not in self._compared and not flies:
                self._compare(place)

    def _finish(self) -> None:
        """Hold the final comparisons that are still due, the heaviest Tasks first."""
        due = [place for place, run in enumerate(self._runs) if run.needs_final]
        for place in sorted(due, key=lambda i: -self._runs[i].task.weight * (self._runs[i].best_s or 0.0)):
            if self._cancelled():
                return
            self._compare(place)
            while len(self._flights) > self._options.ahead:
                self._land(self._flights.popleft())
        while self._flights:
            self._land(self._flights.popleft())

    def _compare(self, place: int) -> None:
        """Begin a Task's final comparison; nothing where it would end too late."""
        run, waiting = self._runs[place], self._flying_comparisons
        if not run.needs_final or not self._deadline.allows_comparison(self._clock.elapsed_s, waiting):
            return
        self._compared.add(place)
        finalists = run.finalists()
        alone = run.trial_of(finalists[0]) if len(finalists) == 1 else None
        if alone is not None:
            self._settle(run, finalists, [alone])
            return
        batch = self._bench.compare(run.task, finalists)
        self._flights.append(_Flight(place, batch, self._clock.elapsed_s, compares=True))

    def _settle(self, run: TaskRun, finalists: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Keep the record of a final comparison's winner."""
        timed = [(c, r) for c, r in zip(finalists, results, strict=True) if isinstance(r, Measured)]
        if not timed:
            return
        run.settled = True
        untuned_s = next((m.median_s for c, m in timed if c.digest == run.default.digest), None)
        winner, believed = settle(timed, run.default), self._learner.scorer(run.task)([c for c, _ in timed])
        provenance = {
            "stage": "final",
            "compared": [candidate.digest for candidate in finalists],
            "evidence": evidence(timed, winner[0], believed),
        }
        self._keep(run, winner, untuned_s, provenance)
        self._progress(run.task_event())

    def _keep(self, run: TaskRun, winner: Timed, untuned_s: float | None, provenance: dict[str, Any]) -> None:
        """Put a record; where the log keeps another one, that is the Task's from now on."""
        candidate, measured = winner
        if run.outlived is not None:
            provenance = {**provenance, "compared": [*provenance.get("compared", ()), run.outlived]}
        record = TuningRecord(
            key=run.task.key,
            schedule=candidate.schedule,
            measured=measured,
            device=self._bench.device,
            seed=self._options.measure.seed,
            untuned_s=untuned_s or 0.0,
            provenance={**provenance, "job": self._job, "search_seed": self._options.seed},
        )
        with self._clock.phase("store"):
            if self._log.put_records([record]):
                run.record = record
                run.replaced = True
            else:
                run.record = self._log.records([run.task.key]).get(run.task.key, run.record)

    def _state(self, state: str, **more: str) -> None:
        data = {
            "state": state,
            "trials": sum(run.trials for run in self._runs),
            "seconds": self._clock.elapsed_s,
            "tasks": len(self._tasks),
        }
        self._progress(Event("state", {**data, **more}))

    def _result(self, *, cancelled: bool) -> SessionResult:
        cost_model = self._learner.report()
        return SessionResult(
            tasks=tuple(run.result() for run in self._runs),
            phase_seconds=self._clock.seconds(),
            records_added=sum(run.replaced for run in self._runs),
            trials=sum(run.trials for run in self._runs),
            failed_trials=sum(run.failed for run in self._runs),
            cost_model=cost_model,
            cancelled=cancelled,
        )


def _device_s(results: Sequence[MeasureResult]) -> float:
    """Mean seconds of a trial on the Device, of those that have a time."""
    measured = [r.verify_s + r.measure_s for r in results if isinstance(r, Measured)]
    return sum(measured) / len(measured) if measured else 0.0


def _default_model(options: SessionOptions, tasks: Sequence[Task]) -> CostModel:
    """XGBoost on the features of the loops; it begins with the shipped trees where those know all Targets."""
    # XGBoost takes a while to import, and sessions without a ranking strategy do not need it.
    from tuner.cost_model import shipped
    from tuner.cost_model.relative import NAMES, RelativeFeatures
    from tuner.cost_model.stored import load_model
    from tuner.cost_model.trees import XGBoostOptions
    from tuner.cost_model.xgboost_model import XGBoostModel

    prior = None
    if shipped.SHIPPED.exists():
        try:
            model = load_model(shipped.SHIPPED)
            prior = model.booster if all(model.knows(task.target) for task in tasks) else None
        except InputError as refused:
            _LOG.warning("the search begins without a cost model: %s", refused)
    return XGBoostModel(RelativeFeatures(), NAMES, XGBoostOptions(seed=options.seed), prior)
