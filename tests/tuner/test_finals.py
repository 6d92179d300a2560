from __future__ import annotations

from compiler.schedule.schedule import Schedule
from compiler.schedule.steps import Split
from tests.tuner import toy
from tuner.candidate import Candidate
from tuner.finals import finalists, leader, settle
from tuner.measure import Measured
from tuner.pairs import LOOKS

DEFAULT = Candidate(toy.default())


def candidate(*factors: int) -> Candidate:
    return Candidate(Schedule(tuple(Split("s", "i", factor) for factor in factors)))


def timed(time_s: float, spread: float = 0.001) -> Measured:
    return toy.measured(time_s, spread)


def in_turns(time_s: float, disturbed: float = 0.0, every: int = 3) -> Measured:
    """A comparison's samples: so much slower in every third round, for all who take part, and a little of its own."""
    rounds = range(LOOKS[0])
    own = 1e-3 * time_s
    return Measured(
        tuple(time_s * (1 + disturbed * (r % every == 0)) + own * (r * 7 % 5) for r in rounds), 1e-7
    )


def test_the_fastest_wins_when_it_is_clear() -> None:
    fast = candidate(1, 2, 3, 4, 5)
    assert leader([(DEFAULT, timed(1.0)), (fast, timed(0.6))], DEFAULT) == (fast, timed(0.6))
    assert settle([(DEFAULT, in_turns(1.0)), (fast, in_turns(0.96))], DEFAULT)[0] == fast
    alone = (DEFAULT, timed(1.0))
    assert settle([alone], DEFAULT) == alone


def test_a_tie_goes_to_the_default_then_to_fewer_steps_then_to_the_digest() -> None:
    long, short, other = candidate(1, 2, 3), candidate(1), candidate(2)
    for settled, measured in ((leader, timed), (settle, in_turns)):
        assert settled([(long, measured(0.99)), (DEFAULT, measured(1.0))], DEFAULT)[0] == DEFAULT
        trio = [(long, measured(0.99)), (short, measured(1.0)), (DEFAULT, measured(1.5))]
        assert settled(trio, DEFAULT)[0] == short
        winner = settled([(short, measured(1.0)), (other, measured(1.0))], DEFAULT)[0]
        assert winner.digest == min(short.digest, other.digest)


def test_a_trial_must_lead_the_default_by_half() -> None:
    fast = candidate(1)
    assert leader([(fast, timed(0.7)), (DEFAULT, timed(1.0))], DEFAULT)[0] == DEFAULT
    assert leader([(fast, timed(0.6)), (DEFAULT, timed(1.0))], DEFAULT)[0] == fast


def test_where_the_default_is_clearly_slower_the_fastest_trial_leads() -> None:
    fast, short = candidate(1, 2, 3), candidate(1)
    assert leader([(short, timed(1.3)), (fast, timed(1.0)), (DEFAULT, timed(2.0))], DEFAULT)[0] == fast


def test_who_left_early_does_not_win() -> None:
    left, stayed = candidate(1), candidate(2)
    early = Measured(in_turns(0.9).samples_s[:8], 1e-7)
    entries = [(DEFAULT, in_turns(1.2)), (left, early), (stayed, in_turns(1.0))]
    assert settle(entries, DEFAULT)[0] == stayed


def test_what_slows_a_round_slows_all_of_it_and_hides_nothing() -> None:
    fast = candidate(1)
    entries = [(fast, in_turns(0.95, disturbed=0.5)), (DEFAULT, in_turns(1.0, disturbed=0.5))]
    assert settle(entries, DEFAULT)[0] == fast


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
