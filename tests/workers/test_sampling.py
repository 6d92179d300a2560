"""How many runs a sample has, and when sampling stops; on a clock of its own."""

from __future__ import annotations

import pytest

from tuner.measure import MeasureOptions
from workers.sampling import sample


class Clock:
    def __init__(self, run_ns: float, first_ns: float = 0.0) -> None:
        self.run_ns, self.first_ns = run_ns, first_ns
        self.calls: list[int] = []

    def __call__(self, runs: int) -> int:
        extra = self.first_ns if not self.calls else 0.0
        self.calls.append(runs)
        return round(self.run_ns * runs + extra)


@pytest.mark.parametrize("run_ns", [50, 3_000, 900_000, 2_500_000])
def test_samples_last_long_enough(run_ns: float) -> None:
    clock = Clock(run_ns, first_ns=100_000)
    samples = sample(clock, MeasureOptions(samples=5, min_sample_ms=2.0), None)

    assert samples == pytest.approx([run_ns / 1e9] * 5)
    assert min(clock.calls[-5:]) * run_ns >= 2e6
    assert sum(clock.calls[:-5]) * run_ns <= 6e6  # the warm-up is not much longer than a sample


def test_a_slow_candidate_gets_fewer_samples() -> None:
    options = MeasureOptions(samples=5)
    hopeless, slow, near = Clock(4e6), Clock(2e6), Clock(1.4e6)
    assert sample(hopeless, options, best_s=1e-3) == (4e-3,)
    assert sample(slow, options, best_s=1e-3) == (2e-3,)
    assert len(sample(near, options, best_s=1e-3)) == 5
    assert sum(hopeless.calls) < sum(slow.calls) < sum(near.calls)


def test_one_slow_moment_does_not_end_it() -> None:
    class Disturbed(Clock):
        def __call__(self, runs: int) -> int:
            return 2 * super().__call__(runs) if len(self.calls) == 2 else super().__call__(runs)

    assert len(sample(Disturbed(1e6), MeasureOptions(samples=5), best_s=1e-3)) == 5


def test_a_slow_candidate_stops_before_its_time_is_up() -> None:
    samples = sample(Clock(1e9), MeasureOptions(samples=20, timeout_s=10.0), None)
    assert 3 <= len(samples) <= 5
