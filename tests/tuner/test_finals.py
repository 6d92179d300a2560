from __future__ import annotations

from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.finals import finalists, settle
from tuner.measure import Measured

DEFAULT = Candidate(toy.default())


def candidate(*factors: int) -> Candidate:
    return Candidate(Schedule(tuple(Split("s", "i", factor) for factor in factors)))


def timed(time_s: float, spread: float = 0.001) -> Measured:
    return toy.measured(time_s, spread)


def test_the_fastest_wins_when_it_is_clear() -> None:
    fast = candidate(1, 2, 3, 4, 5)
    assert settle([(DEFAULT, timed(1.0)), (fast, timed(0.9))], DEFAULT) == (fast, timed(0.9))


def test_a_tie_goes_to_the_default_then_to_fewer_steps_then_to_the_digest() -> None:
    long, short, other = candidate(1, 2, 3), candidate(1), candidate(2)
    assert settle([(long, timed(0.99)), (DEFAULT, timed(1.0))], DEFAULT)[0] == DEFAULT
    assert settle([(long, timed(0.99)), (short, timed(1.0)), (DEFAULT, timed(1.5))], DEFAULT)[0] == short
    winner = settle([(short, timed(1.0)), (other, timed(1.0))], DEFAULT)[0]
    assert winner.digest == min(short.digest, other.digest)


def test_wide_samples_tie_where_narrow_ones_do_not() -> None:
    fast = candidate(1)
    assert settle([(fast, timed(0.95, 0.2)), (DEFAULT, timed(1.0, 0.2))], DEFAULT)[0] == DEFAULT
    assert settle([(fast, timed(0.95, 0.001)), (DEFAULT, timed(1.0, 0.001))], DEFAULT)[0] == fast


def test_finalists_are_the_default_the_incumbent_and_the_best() -> None:
    best = [(candidate(n), timed(1.0 + n / 100)) for n in range(1, 6)]
    slow, incumbent = (candidate(9), timed(2.0)), candidate(8)
    chosen = finalists([*best, slow, (DEFAULT, timed(3.0))], DEFAULT, incumbent)
    assert chosen == [DEFAULT, incumbent, *(c for c, _ in best[:3])]


def test_what_is_far_behind_is_no_finalist() -> None:
    measured = [(candidate(1), timed(1.0)), (candidate(2), timed(1.2)), (DEFAULT, timed(3.0))]
    assert finalists(measured, DEFAULT, None) == [DEFAULT, candidate(1)]


def test_a_default_that_leads_needs_no_comparison() -> None:
    measured = [(DEFAULT, timed(1.0)), (candidate(1), timed(1.01))]
    assert finalists(measured, DEFAULT, None) == [DEFAULT]
    assert finalists(measured, DEFAULT, DEFAULT) == [DEFAULT]
    assert finalists(measured, DEFAULT, candidate(2)) == [DEFAULT, candidate(2), candidate(1)]
    assert finalists([], DEFAULT, None) == []
