"""Samples of several contenders taken in turns, so that a drifting clock slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Sampler = Callable[[int], float]
"""Seconds per run, over so many runs."""

_SAMPLE_S = 0.01
_MAX_ROUNDS = 1000
SETTLE_S = 0.01
"""Idle threads of our own teams spin for less than that after a run, and take a core away."""
SETTLE_PEERS_S = 0.1
"""The same of other engines."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per run, a sample per round; `runs` counts what they were taken over."""

    samples_s: tuple[float, ...]
    runs: int

    @property
    def median_s(self) -> float:
        """What ratios are made of."""
        return float(np.median(self.samples_s))

    def percentiles_s(self) -> tuple[float, float, float]:
        """What 10, 50 and 90 percent of the samples do not pass."""
        low, middle, high = np.percentile(self.samples_s, (10, 50, 90))
        return float(low), float(middle), float(high)

    def to_json(self) -> dict[str, float]:
        """Microseconds: the median, and what 10 and 90 percent of the samples do not pass."""
        low, middle, high = (1e6 * value for value in self.percentiles_s())
        return {"median_us": middle, "p10_us": low, "p90_us": high}


def take_turns(
    contenders: Mapping[str, Sampler], seconds: float, *, settle_s: float, rounds: int = 5
) -> dict[str, Times]:
    """Sample all for about so long in all, and so many rounds at least; the order turns by one each round.

    A sample is the mean of as many runs as fill 10 ms, after one run that is not counted. `settle_s`: pause before each
    turn, in which the idle threads of the contender before it fall asleep.
    """
    names = list(contenders)
    runs = {name: _runs(contenders[name]) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    deadline = time.perf_counter() + seconds
    for number in range(_MAX_ROUNDS):
        if number >= rounds and time.perf_counter() > deadline:
            break
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            if settle_s:
                time.sleep(settle_s)
            contenders[name](1)
            samples[name].append(contenders[name](runs[name]))
    return {name: Times(tuple(taken), len(taken) * runs[name]) for name, taken in samples.items()}


def timed(run: Callable[[], object]) -> Sampler:
    """A Sampler of a Python call."""

    def sample(runs: int) -> float:
        start = time.perf_counter()
        for _ in range(runs):
            run()
        return (time.perf_counter() - start) / runs

    return sample


def _runs(sampler: Sampler) -> int:
    sampler(1)
    return max(1, int(_SAMPLE_S / max(1e-9, min(sampler(1), sampler(1)))))
