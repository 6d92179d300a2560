"""Samples of several contenders taken in turns, so that a drifting clock slows all of them alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from luthier.bench.canary import Canary

Sampler = Callable[[int], float]
"""Seconds per run, over so many runs."""

_SAMPLE_S = 0.01
_WARMING = 10
_MAX_ROUNDS = 1000
_PATIENCE = 4.0
"""How many times the asked time turns may last while a Canary finds samples disturbed."""
SETTLE_S = 0.01
"""Idle threads of our own teams spin for less than that after a run, and take a core away."""
SETTLE_PEERS_S = 0.1
"""The same of other engines."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per run, a sample per round; `runs` counts what they were taken over.

    Attributes:
        disturbed: the share of all samples that a Canary found disturbed. They are left out, unless so few are quiet
            that the quietest ones stand in for them.
    """

    samples_s: tuple[float, ...]
    runs: int
    disturbed: float = 0.0

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
    contenders: Mapping[str, Sampler],
    seconds: float,
    *,
    settle_s: float,
    rounds: int = 5,
    canary: Canary | None = None,
) -> dict[str, Times]:
    """Sample all for about so long in all, and so many rounds at least; the order is another one each round.

    A sample is the mean of as many runs as fill 10 ms, after a tenth as many that are not counted. `settle_s`: pause
    after each turn, in which the idle threads of the contender fall asleep. `canary`: sings before and after each turn,
    pauses left out; only quiet samples count, and the turns go on for up to four times as long until each contender has
    `rounds` of them.
    """
    names, shuffle = list(contenders), random.Random(0)
    runs = {name: _runs(contenders[name]) for name in names}
    samples: dict[str, list[float]] = {name: [] for name in names}
    noise: dict[str, list[float]] = {name: [] for name in names}
    start = time.perf_counter()
    for number in range(_MAX_ROUNDS):
        passed_s = time.perf_counter() - start
        wanting = any(_quiet(noise[name], canary) < rounds for name in names)
        if number >= rounds and passed_s > (_PATIENCE * seconds if wanting else seconds):
            break
        # Each meets the threads and the caches that another one leaves behind: not those of the same one every time.
        for name in shuffle.sample(names, len(names)):
            before = canary.sing() if canary else 0.0
            contenders[name](max(1, runs[name] // _WARMING))
            samples[name].append(contenders[name](runs[name]))
            if settle_s:
                time.sleep(settle_s)
            noise[name].append(max(before, canary.sing()) if canary else 0.0)
    return {name: _counted(samples[name], noise[name], runs[name], rounds, canary) for name in names}


def _quiet(noise: Sequence[float], canary: Canary | None) -> int:
    if canary is None:
        return len(noise)
    limit_s = canary.limit_s
    return sum(sung <= limit_s for sung in noise)


def _counted(
    samples: Sequence[float], noise: Sequence[float], runs: int, rounds: int, canary: Canary | None
) -> Times:
    """The quiet samples in the order they were taken; the `rounds` quietest where fewer are."""
    quiet = _quiet(noise, canary)
    kept = sorted(np.argsort(noise, kind="stable")[: max(quiet, min(rounds, len(noise)))])
    return Times(tuple(samples[k] for k in kept), len(kept) * runs, 1 - quiet / len(noise))


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
