from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing

import pytest

from compiler.codegen.kernel import Kernel, Phase
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.deadline import Deadline
from tuner.measure import Built, FailureKind, Measured, MeasureFailed, MeasureInput, MeasureResult
from tuner.phases import PhaseClock
from tuner.search.simulated import SimulatedRunner
from tuner.task import Task
from tuner.workbench import Workbench


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_phases_do_not_overlap_and_sum_to_the_whole() -> None:
    clock = Clock()
    phases = PhaseClock(clock)
    with phases.phase("search"):
        clock.now_s += 1.0
        with phases.phase("model"):
            clock.now_s += 2.0
        with phases.phase("model"):
            clock.now_s += 3.0
        clock.now_s += 4.0
    clock.now_s += 5.0
    seconds = phases.seconds()
    assert (seconds["search"], seconds["model"], seconds["wait"]) == (5.0, 5.0, 5.0)
    assert sum(seconds.values()) == phases.elapsed_s == 15.0


def test_a_phase_that_fails_counts() -> None:
    clock = Clock()
    phases = PhaseClock(clock)

    def break_in_phase() -> None:
        with phases.phase("build"):
            clock.now_s += 2.0
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        break_in_phase()
    assert phases.seconds()["build"] == 2.0


def test_without_a_limit_everything_fits() -> None:
    deadline = Deadline(None)
    deadline.measured(10, 0.0, 100.0)
    assert deadline.affordable_trials(1e9, pending=3) == math.inf
    assert deadline.allows_comparison(1e9)


def test_batches_shrink_to_the_time_left() -> None:
    deadline = Deadline(100.0)
    assert deadline.affordable_trials(0.0, pending=0) == math.inf  # no pace yet
    deadline.measured(10, 0.0, 20.0)
    assert deadline.affordable_trials(20.0, pending=0) == 40
    assert deadline.affordable_trials(20.0, pending=1) == 30  # a comparison takes as long as a batch
    assert deadline.affordable_trials(20.0, pending=9) == 27  # at most a quarter is kept in reserve
    assert deadline.affordable_trials(99.0, pending=0) == 0
    assert deadline.allows_comparison(80.0)
    assert not deadline.allows_comparison(81.0)
    deadline.compared(4.0)
    assert deadline.allows_comparison(96.0)


def test_a_slow_first_batch_leaves_room_for_a_comparison() -> None:
    deadline = Deadline(3.0)
    deadline.measured(4, 0.0, 1.5)  # builds of large kernels
    assert deadline.allows_comparison(2.3)
    assert not deadline.allows_comparison(2.5)


def test_what_starts_in_the_first_batch_is_not_the_pace() -> None:
    deadline = Deadline(4.0)
    deadline.measured(1, 0.0, 3.0)  # children started
    assert deadline.affordable_trials(3.0, pending=1) == 1
    deadline.measured(1, 3.0, 3.1)
    assert deadline.affordable_trials(3.1, pending=0) == 8
    assert deadline.affordable_trials(3.1, pending=1) == 7
    assert deadline.allows_comparison(3.8)
    assert not deadline.allows_comparison(4.0)
    assert deadline.affordable_trials(4.1, pending=0) == 0


class PartlyBuilder:
    """Fails to build every candidate whose first factor is even."""

    def __init__(self) -> None:
        self.built: list[int] = []

    def build(self, inputs: Sequence[MeasureInput]) -> list[Built | MeasureFailed]:
        return [self._build(i.candidate) for i in inputs]

    def close(self) -> None:
        pass

    def _build(self, candidate: Candidate) -> Built | MeasureFailed:
        factor = toy.factors(candidate.schedule)[0]
        if factor % 2 == 0:
            return MeasureFailed(FailureKind.BUILD, f"{factor} is even")
        self.built.append(factor)
        return Built(Kernel(str(factor), (Phase("k", b"", 1),), ()), 0.5)


class CountingRunner:
    """The n-th kernel that it runs takes n seconds; kernel 5 fails when it is run again."""

    device = "counting"

    def __init__(self) -> None:
        self.order: list[str] = []

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        return [self._run(b.kernel.name) for b in built]

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        return self.run(task, [*built, *built])[len(built) :]

    def close(self) -> None:
        pass

    def _run(self, symbol: str) -> MeasureResult:
        self.order.append(symbol)
        if symbol == "5" and self.order.count("5") > 1:
            return MeasureFailed(FailureKind.WRONG_OUTPUT, "wrong the second time")
        return Measured((float(len(self.order)),), error=len(self.order) * 1e-9, build_s=0.5)


def candidates(*factors: int) -> list[Candidate]:
    return [Candidate(toy.space().schedule((f - 1, 0, 0, 0))) for f in factors]


def test_failures_of_the_builder_keep_their_place() -> None:
    with closing(Workbench(PartlyBuilder(), CountingRunner(), PhaseClock(Clock()))) as bench:
        results = bench.submit(toy.task(), candidates(1, 2, 3, 4)).results()
        assert [getattr(r, "samples_s", "failed") for r in results] == [(1.0,), "failed", (2.0,), "failed"]
        assert len(bench.submit(toy.task(), candidates(2, 4)).results()) == 2


def test_what_was_built_for_a_trial_is_not_built_again() -> None:
    builder = PartlyBuilder()
    with closing(Workbench(builder, CountingRunner(), PhaseClock(Clock()))) as bench:
        bench.submit(toy.task(), candidates(1, 3)).results()
        bench.compare(toy.task(), candidates(3, 5, 1)).results()
    assert builder.built == [1, 3, 5]


def test_waiting_is_told_by_what_it_was_for() -> None:
    clock = Clock()

    class Device(CountingRunner):
        def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
            clock.now_s += 10.0
            return [Measured((1.0,), 0.0, verify_s=0.3, measure_s=0.7) for _ in built]

    phases = PhaseClock(clock)
    with closing(Workbench(PartlyBuilder(), Device(), phases)) as bench:
        batch = bench.submit(toy.task(), candidates(1))
        batch._measured.result()
        assert sum(phases.seconds().values()) == phases.seconds()["wait"] == 10.0
        batch.results()
    seconds = phases.seconds()
    assert (seconds["verify"], seconds["time"]) == (0.0, 0.0)  # it had ended before it was waited for


def test_a_comparison_is_of_what_could_be_built() -> None:
    runner = CountingRunner()
    with closing(Workbench(PartlyBuilder(), runner, PhaseClock(Clock()))) as bench:
        first, even, second, broken = bench.compare(toy.task(), candidates(1, 2, 3, 5)).results()
    assert runner.order == ["1", "3", "5"] * 2
    assert isinstance(first, Measured)
    assert (first.samples_s, first.build_s) == ((4.0,), 0.5)
    assert isinstance(second, Measured)
    assert second.samples_s == (5.0,)
    assert isinstance(even, MeasureFailed)
    assert isinstance(broken, MeasureFailed)
    assert broken.kind is FailureKind.WRONG_OUTPUT


def test_nothing_runs_when_nothing_is_built() -> None:
    runner = SimulatedRunner(toy.simulate)
    with closing(Workbench(PartlyBuilder(), runner, PhaseClock(Clock()))) as bench:
        bench.submit(toy.task(), candidates(2)).results()
    assert not runner.measured
