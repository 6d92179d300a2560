"""How many runs a sample has, who is timed in which rounds, and when that stops; on a clock of its own."""

from __future__ import annotations

from statistics import median
from typing import ClassVar

import pytest

from tuner.measure import MeasureOptions
from tuner.pairs import FEWEST
from workers import turns
from workers.sampling import warm_up
from workers.turns import ENOUGH_S, SEEN, Contender, take_trials

OPTIONS = MeasureOptions(samples=8, sample_ms=1.0)


class Clock:
    def __init__(self, run_ns: float, first_ns: float = 0.0) -> None:
        self.run_ns, self.first_ns = run_ns, first_ns
        self.calls: list[int] = []

    def __call__(self, runs: int) -> int:
        extra = self.first_ns if not self.calls else 0.0
        self.calls.append(runs)
        return round(self.run_ns * runs + extra)


class Machine:
    """Is slow for some time and then fast for as long."""

    def __init__(self, slower: float = 1.0, spell_ns: float = 1.0) -> None:
        self.now_ns, self._slower, self._spell_ns = 0.0, slower, spell_ns

    def run(self, ns: float) -> float:
        """How long something takes now."""
        taken = ns * (self._slower if int(self.now_ns / self._spell_ns) % 2 == 0 else 1.0)
        self.now_ns += taken
        return taken


class Timed(Contender):
    """A candidate that takes so long on a machine, and nothing else."""

    def __init__(self, run_ns: float, machine: Machine) -> None:
        self.samples_s, self._run_ns, self._machine = [], run_ns, machine

    def time_ns(self, runs: int, before: int = 0) -> int:
        if before:
            self._machine.run(self._run_ns * before)
        return round(self._machine.run(self._run_ns * runs))


@pytest.mark.parametrize("run_ns", [50, 3_000, 700_000, 900_000, 1_900_000, 2_500_000])
def test_samples_are_as_long_as_whole_runs_allow(run_ns: float) -> None:
    clock = Clock(run_ns, first_ns=100_000)
    runs, run_s = warm_up(clock, 2e-3)
    assert run_s == pytest.approx(run_ns / 1e9)
    assert runs == 1 or abs(runs * run_ns - 2e6) <= run_ns / 2
    assert sum(clock.calls) * run_ns <= 6e6  # the warm-up is not much longer than a sample


def test_a_slow_candidate_gets_fewer_samples() -> None:
    still = Machine()
    hopeless, slow, near = (Timed(ns, still) for ns in (4e5, 2e5, 1.4e5))
    take_trials([hopeless, slow, near], None, OPTIONS, best_s=1e-4)
    assert len(hopeless.samples_s) == 1
    assert len(slow.samples_s) == SEEN
    assert len(near.samples_s) == OPTIONS.samples


def test_the_best_of_a_heat_counts_as_the_best_known_does() -> None:
    still = Machine()
    slow, best = Timed(2e5, still), Timed(1e5, still)
    take_trials([slow, best], None, OPTIONS, best_s=None)
    assert (len(slow.samples_s), len(best.samples_s)) == (SEEN, OPTIONS.samples)


def test_all_are_sampled_alike_where_nothing_may_stop_early() -> None:
    still = Machine()
    entries = [Timed(ns, still) for ns in (9e5, 1e5)]
    take_trials(entries, None, MeasureOptions(samples=8, sample_ms=1.0, stop_early=False), best_s=1e-5)
    assert [len(entry.samples_s) for entry in entries] == [8, 8]


def test_spells_of_a_neighbour_hide_no_order() -> None:
    """A spell is longer than all samples of one candidate, and than its warm-up."""
    machine = Machine(slower=2.0, spell_ns=11e6)
    entries = [Timed(1e5 + 2e3 * place, machine) for place in range(6)]
    take_trials(entries, None, OPTIONS, best_s=None)
    assert [min(entry.samples_s) for entry in entries] == pytest.approx(
        [1e-4 + 2e-6 * place for place in range(6)]
    )


def test_long_runs_are_few() -> None:
    long = Timed(1.1 * ENOUGH_S / FEWEST * 1e9, Machine())
    take_trials([long], None, OPTIONS, best_s=None)
    assert len(long.samples_s) == FEWEST


def test_a_slow_candidate_stops_before_its_time_is_up() -> None:
    slow = Timed(1e9, Machine())
    take_trials([slow], None, MeasureOptions(samples=20, timeout_s=6.0), None)
    assert 2 <= len(slow.samples_s) <= 3


def test_a_pacer_takes_part_in_each_round() -> None:
    """A heat is slower than another, and the times at the pacer's pace are not."""
    times = []
    for slower in (1.0, 1.7):
        machine = Machine(slower, spell_ns=1e12)
        pacer, slow, best = (Timed(ns, machine) for ns in (1.2e5, 2e5, 1e5))
        take_trials([slow, best], pacer, OPTIONS, best_s=None)
        assert len(pacer.samples_s) == len(best.samples_s) > len(slow.samples_s)
        for entry in (slow, best):
            entry._error = entry._verify_s = entry._warming_s = 0.0
        times.append([entry.result(pacer).at_pace(1e-3).median_s for entry in (slow, best)])
    assert times[0] == pytest.approx(times[1])
    assert times[0] == pytest.approx([2e-3 / 1.2, 1e-3 / 1.2])


@pytest.mark.parametrize(("fastest_ns", "before"), [(4e5, 1), (1.2e6, 0)])
def test_all_of_a_heat_have_their_operands_brought_near_or_none(fastest_ns: float, before: int) -> None:
    entries = [Timed(ns, Machine()) for ns in (fastest_ns, 3e6)]
    take_trials(entries, None, OPTIONS, best_s=None)
    assert [entry.before for entry in entries] == [before, before]


class Sharing(Timed):
    """Reads a packed operand: slowly, but where the one before it has just read the same."""

    last: ClassVar[str] = ""

    def __init__(self, packed: str) -> None:
        super().__init__(2e6, Machine())
        self._packed = packed

    def time_ns(self, runs: int, before: int = 0) -> int:
        near, Sharing.last = Sharing.last == self._packed, self._packed
        return round(super().time_ns(runs, before) * (0.7 if near else 1.0))


def test_nobody_always_comes_after_the_same() -> None:
    entries = [Sharing(packed) for packed in ("a", "a", "b", "c", "c", "d")]
    take_trials(entries, None, OPTIONS, best_s=None)
    assert [median(entry.samples_s) for entry in entries] == pytest.approx([2e-3] * len(entries))


class Far(Timed):
    """Reads constants, in a tenth of the time where the run before has left them near."""

    _far = ((4096, 64),)

    def time_ns(self, runs: int, before: int = 0) -> int:
        return sum(self._one() for _ in range(runs))

    def _one(self) -> int:
        near, self.near = getattr(self, "near", False), True
        return round(self._machine.run(self._run_ns * (0.1 if near else 1.0)))


def test_constants_are_driven_away_before_each_run_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [Far(ns, Machine()) for ns in (2e5, 1.4e5)]

    def evict(address: int, count: int) -> None:
        assert (address, count) == (4096, 64)
        for entry in entries:
            entry.near = False

    monkeypatch.setattr(turns, "evictor", lambda: evict)
    take_trials(entries, None, OPTIONS, best_s=None)
    for entry, expected in zip(entries, (2e-4, 1.4e-4), strict=True):
        assert entry.warm_s == pytest.approx(expected)
        assert entry.samples_s == pytest.approx([expected] * OPTIONS.samples)
