from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from compiler.errors import InputError, MeasureError
from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from tests.tuner import toy
from tests.tuner.models import SMALL
from tuner.cost_model.xgboost_model import XGBoostModel
from tuner.database import MemoryLog
from tuner.measure import Built, FailureKind, Measured, MeasureFailed, MeasureInput, MeasureResult
from tuner.pairs import LOOKS
from tuner.record import CODEGEN_EPOCH, Trial, TuningRecord
from tuner.search.simulated import SimulatedBuilder, SimulatedRunner, recorded
from tuner.session import Event, SessionOptions, SessionResult, TuningSession
from tuner.task import Task

TASKS = [toy.task(64), toy.task(32, weight=2), toy.task(128)]


class Clock:
    """Advances by a fixed step each time it is read."""

    def __init__(self, step_s: float = 0.001) -> None:
        self.now_s = 0.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def session(
    log: MemoryLog,
    runner: SimulatedRunner | None = None,
    tasks: Sequence[Task] = TASKS,
    size: int = 20,
    **given: object,
) -> TuningSession:
    options = {"trials": 60, **{k: v for k, v in given.items() if k in SessionOptions.__slots__}}
    rest = {k: v for k, v in given.items() if k not in SessionOptions.__slots__}
    return TuningSession(
        tasks,
        SimulatedBuilder(),
        runner or SimulatedRunner(toy.simulate),
        log,
        SessionOptions(**options),  # type: ignore[arg-type]
        spaces=lambda task: toy.space(size),
        cost_model=XGBoostModel(toy.features, toy.NAMES, SMALL),
        **{"now_s": Clock(), **rest},  # type: ignore[arg-type]
    )


def all_trials(log: MemoryLog, tasks: Sequence[Task] = TASKS) -> list[Trial]:
    return [trial for task in tasks for trial in log.trials(task.key)]


def test_a_session_tunes_every_task_and_tells_the_evidence() -> None:
    log, job = MemoryLog(), "job-1"
    result = session(log, job=job).run()
    assert result.trials == 60 == len(all_trials(log))
    assert result.failed_trials == sum(isinstance(t.result, MeasureFailed) for t in all_trials(log))
    assert result.records_added == 3
    assert [t.task for t in result.tasks] == TASKS
    for outcome in result.tasks:
        record = log.records([outcome.task.key])[outcome.task.key]
        assert outcome.status == "tuned"
        assert outcome.schedule == record.schedule
        assert outcome.tuned_s == pytest.approx(toy.seconds(outcome.task, record.schedule))
        assert (
            outcome.untuned_s == record.untuned_s == pytest.approx(toy.seconds(outcome.task, toy.default()))
        )
        assert outcome.tuned_s is not None
        assert outcome.untuned_s > outcome.tuned_s
        assert len(record.measured.samples_s) == LOOKS[0]
        assert record.provenance["stage"] == "final"
        assert record.provenance["job"] == job
        assert toy.default().digest in record.provenance["compared"]


def test_the_default_is_measured_first() -> None:
    log = MemoryLog()
    session(log, trials=7).run()
    for task in TASKS:
        known = log.trials(task.key)
        assert not known or known[0].schedule == toy.default()


def test_equal_seeds_give_equal_trials() -> None:
    def measured(seed: int) -> list[str]:
        log = MemoryLog()
        session(log, seed=seed, trials=40).run()
        return [t.schedule.digest for t in all_trials(log)]

    assert measured(5) == measured(5)
    assert measured(5) != measured(6)


class DriftingRunner(SimulatedRunner):
    """A machine that is another one in each batch: by how much, the pacer shows."""

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        if pacer is None:
            return super().run(task, built)
        slower = 1.0 + (sum(self.measured.values()) * 7 % 5) / 4
        *results, beside = [slowed(r, slower) for r in super().run(task, [*built, pacer])]
        assert isinstance(beside, Measured)
        return [replace(r, pacer_s=beside.samples_s) if isinstance(r, Measured) else r for r in results]


def slowed(result: MeasureResult, slower: float) -> MeasureResult:
    if isinstance(result, MeasureFailed):
        return result
    return replace(result, samples_s=tuple(s * slower for s in result.samples_s))


def test_trials_of_different_moments_are_told_apart() -> None:
    log = MemoryLog()
    task = TASKS[0]
    for _ in range(2):  # The second session has the pace from the log.
        session(
            log, DriftingRunner(toy.simulate), [task], ahead=0, batch_size=4, trials=30, patience=99
        ).run()
    trials = [t for t in log.trials(task.key) if isinstance(t.result, Measured)]
    assert len(trials) >= 30
    paces = [t.result.median_s / toy.seconds(task, t.schedule) for t in trials]
    assert max(paces) == pytest.approx(min(paces))
    assert all(t.result.pacer_s == () for t in trials)


@pytest.mark.parametrize("trials", [0, 1, 5, 33, 64])
def test_the_budget_of_trials_is_met_exactly(trials: int) -> None:
    log, runner = MemoryLog(), SimulatedRunner(toy.simulate)
    result = session(log, runner, trials=trials).run()
    assert result.trials == len(all_trials(log)) == trials
    assert sum(t.trials for t in result.tasks) == trials
    assert {t.status for t in result.tasks if t.trials == 0} <= {"untouched"}


def test_without_a_budget_patience_ends_it() -> None:
    log = MemoryLog()
    result = session(log, trials=None, patience=2).run()
    assert 40 < result.trials < 1000
    assert {t.status for t in result.tasks} == {"tuned"}


def test_a_small_space_ends_a_task() -> None:
    result = session(MemoryLog(), trials=None, patience=99, size=3).run()
    assert [t.trials for t in result.tasks] == [81, 81, 81]


def test_nothing_is_measured_twice_after_a_crash() -> None:
    class Crash(BaseException):
        """Like a kill: nothing in the session handles it."""

    def crashing(task: Task, schedule: Schedule) -> MeasureResult:
        if next(calls) == 30:
            raise Crash
        return toy.simulate(task, schedule)

    calls = itertools.count()
    log, first, second = MemoryLog(), SimulatedRunner(crashing), SimulatedRunner(toy.simulate)
    with pytest.raises(Crash):
        session(log, first).run()
    before = all_trials(log)
    assert before
    assert log.records([t.key for t in TASKS])  # what was found so far is served
    result = session(log, second, trials=60 - len(before)).run()
    after = all_trials(log)
    assert len(after) == len(before) + result.trials == 60
    digests = [(t.key, t.schedule.digest) for t in after]
    assert len(set(digests)) == len(digests)
    finalists = {
        d for key in log.records([t.key for t in TASKS]).values() for d in key.provenance["compared"]
    }
    known = {(t.key, t.schedule.digest) for t in before}
    assert all(digest in finalists for key, digest in second.measured if (key, digest) in known)


def test_a_resumed_session_goes_on_as_if_it_had_not_stopped() -> None:
    whole, parts = MemoryLog(), MemoryLog()
    task = [toy.task(64)]
    session(whole, tasks=task, trials=20).run()
    session(parts, tasks=task, trials=20, cancelled=lambda: len(all_trials(parts, task)) >= 12).run()
    done = len(all_trials(parts, task))
    assert 12 <= done < 20
    session(parts, tasks=task, trials=20 - done).run()
    assert len(all_trials(parts, task)) == 20
    assert all_trials(parts, task)[:done] == all_trials(whole, task)[:done]


def test_a_task_of_which_enough_is_known_is_cached() -> None:
    log, runner = MemoryLog(), SimulatedRunner(toy.simulate)
    first = session(log, trials=None, patience=3).run()
    events: list[Event] = []
    again = session(log, runner, trials=50, patience=3, progress=events.append).run()
    assert again.trials == again.records_added == 0
    assert not runner.measured
    assert [(t.status, t.cached) for t in again.tasks] == [("cached", True)] * 3
    assert [t.schedule for t in again.tasks] == [t.schedule for t in first.tasks]
    assert [t.tuned_s for t in again.tasks] == [t.tuned_s for t in first.tasks]
    assert [t.untuned_s for t in again.tasks] == [t.untuned_s for t in first.tasks]
    assert [e.data["status"] for e in events if e.type == "task"] == ["cached"] * 3


def test_a_task_that_another_model_shares_needs_no_trials() -> None:
    log = MemoryLog()
    session(log, tasks=TASKS[:2], trials=None, patience=2).run()
    result = session(log, tasks=TASKS[1:], trials=30, patience=2).run()
    assert [t.cached for t in result.tasks] == [True, False]
    assert result.tasks[0].trials == 0
    assert (
        0 < result.tasks[1].trials <= 30
    )  # what was best for the others is the optimum here: patience may end first


def test_seconds_bound_the_wall_clock() -> None:
    clock = Clock(0.0)

    def slow(task: Task, schedule: Schedule) -> MeasureResult:
        clock.now_s += 1.0
        return toy.simulate(task, schedule)

    result = session(
        MemoryLog(), SimulatedRunner(slow), trials=None, seconds=200.0, now_s=clock, ahead=0
    ).run()
    assert clock.now_s <= 200.0
    assert 120 <= result.trials <= 180
    assert {t.status for t in result.tasks} == {"tuned"}
    assert sum(result.phase_seconds.values()) == pytest.approx(clock.now_s)
    waited_s = result.phase_seconds["build"] + result.phase_seconds["verify"] + result.phase_seconds["time"]
    assert waited_s > 0.9 * clock.now_s  # a batch may end before it is waited for


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_next_batch_is_built_while_one_is_measured(ahead: int) -> None:
    class Builder(SimulatedBuilder):
        built = 0

        def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
            self.built += 1
            second.set() if self.built == 2 else None
            return super().build(inputs)

    class Runner(SimulatedRunner):
        def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
            overlapped.append(second.wait(5.0 if ahead else 0.1))
            return super().run(task, built)

    second, overlapped = threading.Event(), list[bool]()
    options = SessionOptions(trials=16, strategy="random", ahead=ahead)
    tuning = TuningSession(
        TASKS, Builder(), Runner(toy.simulate), MemoryLog(), options, spaces=lambda task: toy.space()
    )
    assert tuning.run().trials == 16
    assert overlapped[0] is bool(ahead)


def test_of_small_batches_many_are_on_their_way() -> None:
    class Builder(SimulatedBuilder):
        built = 0

        def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
            self.built += len(inputs)
            enough.set() if self.built == 20 else None
            return super().build(inputs)

    class Runner(SimulatedRunner):
        def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
            ahead.append(enough.wait(5.0))
            return super().run(task, built)

    enough, ahead = threading.Event(), list[bool]()
    tasks = [toy.task(size) for size in (16, 24, 32, 48, 64, 96)]
    options = SessionOptions(trials=48, strategy="random", batch_size=16)
    TuningSession(
        tasks, Builder(), Runner(toy.simulate), MemoryLog(), options, spaces=lambda task: toy.space()
    ).run()
    assert ahead[0]


def test_finalists_are_compared_while_others_are_built() -> None:
    class Builder(SimulatedBuilder):
        def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
            built.set() if comparing.is_set() else None
            return super().build(inputs)

    class Runner(SimulatedRunner):
        def compare(self, task: Task, built_kernels: Sequence[Built]) -> list[MeasureResult]:
            comparing.set()
            overlapped.append(built.wait(5.0 if not overlapped else 0.0))
            return super().compare(task, built_kernels)

    comparing, built, overlapped = threading.Event(), threading.Event(), list[bool]()
    options = SessionOptions(trials=150, strategy="random")
    tasks = [toy.task(size) for size in (16, 24, 32, 48, 64, 96, 128, 160)]
    tuning = TuningSession(
        tasks, Builder(), Runner(toy.simulate), MemoryLog(), options, spaces=lambda task: toy.space()
    )
    assert {task.status for task in tuning.run().tasks} <= {"tuned", "default"}
    assert overlapped[0]


def test_cancelling_keeps_what_was_found() -> None:
    log = MemoryLog()
    result = session(log, cancelled=lambda: len(all_trials(log)) >= 20).run()
    assert result.cancelled
    assert 20 <= result.trials < 40
    assert {t.status for t in result.tasks if t.trials} == {"provisional"}
    for outcome in result.tasks:
        record = log.records([outcome.task.key])[outcome.task.key]
        assert record.provenance["stage"] == "provisional"
        assert outcome.schedule == record.schedule


def test_a_device_that_fails_once_gets_a_second_chance() -> None:
    log = MemoryLog()
    result = session(log, SimulatedRunner(toy.simulate, broken_runs=[1, 4])).run()
    assert result.trials == 60 == len(all_trials(log))


def test_a_device_that_fails_twice_ends_the_run_and_nothing_is_lost() -> None:
    log, events = MemoryLog(), list[Event]()
    with pytest.raises(
        MeasureError, match=r"failed twice .*is lost; plug it in again.*run the same command again"
    ):
        session(log, SimulatedRunner(toy.simulate, broken_runs=[2, 3]), progress=events.append).run()
    assert len(all_trials(log)) == 8
    assert len(log.records([t.key for t in TASKS])) == 2
    assert events[-1].data["state"] == "failed"


def test_failures_are_trials_and_a_task_of_failures_has_no_record() -> None:
    def broken(task: Task, schedule: Schedule) -> MeasureResult:
        return MeasureFailed(FailureKind.CRASH, "it always does")

    log = MemoryLog()
    result = session(log, SimulatedRunner(broken), tasks=TASKS[:1], trials=12).run()
    assert result.failed_trials == result.trials == 12 == len(all_trials(log))
    assert [(t.status, t.schedule, t.tuned_s, t.curve) for t in result.tasks] == [("failed", None, None, ())]


def test_noise_decides_nothing() -> None:
    """All schedules are equal, some look 1 % faster: the default stays."""

    def noisy(task: Task, schedule: Schedule) -> MeasureResult:
        return toy.measured(1e-3 * (1 - 0.01 * (int(schedule.digest[0], 16) % 2)))

    log = MemoryLog()
    result = session(log, SimulatedRunner(noisy)).run()
    assert {t.status for t in result.tasks} == {"default"}
    assert {t.schedule for t in result.tasks} == {toy.default()}


def test_a_lucky_trial_does_not_win_the_final_comparison() -> None:
    lucky: set[str] = set()

    def simulation(task: Task, schedule: Schedule) -> MeasureResult:
        real = toy.seconds(task, schedule)
        if schedule != toy.default() and (not lucky or schedule.digest in lucky):
            first = not lucky
            lucky.add(schedule.digest)
            return toy.measured(real * 2 if not first else real / 100)
        return toy.measured(real)

    log = MemoryLog()
    result = session(log, SimulatedRunner(simulation), tasks=TASKS[:1], trials=40).run()
    schedule = result.tasks[0].schedule
    assert schedule is not None
    assert schedule.digest not in lucky
    assert log.records([TASKS[0].key])[TASKS[0].key].schedule == schedule


def test_records_of_older_code_are_measured_again_and_never_served_as_they_are() -> None:
    log, task = MemoryLog(), TASKS[0]
    old = toy.space().schedule((7, 11, 3, 15))
    best = toy.simulate(task, old)
    assert isinstance(best, Measured)
    log.append_trials([Trial(task.key, old, best, "d", 0, CODEGEN_EPOCH - 1)])
    log.put_records([TuningRecord(task.key, old, toy.measured(1e-9), "d", 0, CODEGEN_EPOCH - 1)])
    result = session(log, tasks=[task], trials=8).run()
    assert result.tasks[0].schedule == old
    record = log.records([task.key])[task.key]
    assert record.codegen_epoch == CODEGEN_EPOCH
    assert record.measured.median_s == pytest.approx(best.median_s)
    assert [t.schedule for t in log.trials(task.key)][1:3] == [toy.default(), old]


def test_trials_that_no_longer_apply_keep_no_other_from_the_record() -> None:
    log, task = MemoryLog(), TASKS[0]
    best = session(log, tasks=[task], trials=30).run().tasks[0].schedule
    gone = Schedule((Split("anchor", "no such loop", 4),))
    log.append_trials([Trial(task.key, gone, toy.measured(1e-9), "d", 0)])
    log.put_records([TuningRecord(task.key, gone, toy.measured(1e-9), "d", 0)])
    result = session(log, tasks=[task], trials=8).run()
    assert best != toy.default()
    assert result.tasks[0].schedule is not None
    assert toy.seconds(task, result.tasks[0].schedule) <= toy.seconds(task, best)
    assert log.records([task.key])[task.key].schedule == result.tasks[0].schedule


def test_a_recorded_log_replays_to_the_same_end() -> None:
    log = MemoryLog()
    first = session(log, tasks=TASKS[:1]).run()
    replayed = session(MemoryLog(), SimulatedRunner(recorded(all_trials(log))), tasks=TASKS[:1]).run()
    assert replayed.tasks[0].schedule == first.tasks[0].schedule
    assert replayed.tasks[0].tuned_s == pytest.approx(first.tasks[0].tuned_s)


def test_events_tell_the_whole_run() -> None:
    log, events = MemoryLog(), list[Event]()
    result = session(log, progress=events.append).run()
    by_type: Callable[[str], list[Event]] = lambda kind: [e for e in events if e.type == kind]  # noqa: E731
    assert [e.data["state"] for e in by_type("state")] == ["running", "finishing", "succeeded"]
    assert len(by_type("trial")) == result.trials
    assert sum(e.data["failure"] is not None for e in by_type("trial")) == result.failed_trials
    assert {e.data["workload"] for e in by_type("task")} == {t.key.workload for t in TASKS}
    for outcome in result.tasks:
        own = [e for e in by_type("best") if e.data["workload"] == outcome.task.key.workload]
        assert [(e.data["trials"], e.data["best_s"]) for e in own] == [
            (t, b) for t, _, b in outcome.curve[: len(own)]
        ]
        assert outcome.curve[-1][0] == outcome.trials


def test_the_cost_model_reports_its_held_out_part() -> None:
    result = session(MemoryLog()).run()
    assert 30 < result.cost_model["samples"] <= 60
    assert result.cost_model["held_out"] > 0
    assert session(MemoryLog(), strategy="random").run().cost_model == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategy": "annealing"}, "unknown strategy"),
        ({"trials": -1}, "-1 trials makes no sense"),
        ({"seconds": float("nan")}, "nan seconds makes no sense"),
        ({"batch_size": 0}, "at least 1"),
        ({"tasks": [TASKS[0], TASKS[0]]}, "same key"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        session(MemoryLog(), **given)  # type: ignore[arg-type]


def test_a_session_without_tasks_ends_at_once() -> None:
    result: SessionResult = session(MemoryLog(), tasks=[]).run()
    assert result.tasks == ()
    assert result.trials == 0
