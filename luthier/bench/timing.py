"""Times of several engines, taken in alternation in one run, so that a drifting clock slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from luthier.bench.engines import Engine

_SAMPLE_S = 0.02
_MIN_ROUNDS, _MAX_ROUNDS = 5, 1000
_SETTLE_S = 0.1
"""Pause before each engine's turn: idle threads of the one before may spin for that long and take a core away."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one engine in seconds per run; `runs` counts the timed ones."""

    engine: Engine
    samples_s: tuple[float, ...]
    runs: int

    def percentile_ms(self, percent: float) -> float:
        """Milliseconds per run that so many percent of the samples do not pass."""
        return float(np.percentile(self.samples_s, percent)) * 1e3


def time_engines(engines: Sequence[Engine], seconds: float) -> list[Timing]:
    """Time all engines for about so long in all; at least five rounds, each with every engine.

    A sample is the mean of as many runs as fill 20 ms. Before its turn, an engine waits until the threads of the others
    sleep, and its first run warms it up and is not counted; the order turns by one each round.
    """
    repeats = [_repeats(engine) for engine in engines]
    samples: list[list[float]] = [[] for _ in engines]
    deadline = time.perf_counter() + seconds
    for round_number in range(_MAX_ROUNDS):
        if round_number >= _MIN_ROUNDS and time.perf_counter() > deadline:
            break
        for place in range(len(engines)):
            which = (place + round_number) % len(engines)
            time.sleep(_SETTLE_S)
            engines[which].run()
            samples[which].append(_sample(engines[which], repeats[which]))
    return [
        Timing(engine, tuple(times), len(times) * count)
        for engine, times, count in zip(engines, samples, repeats, strict=True)
    ]


def _repeats(engine: Engine) -> int:
    engine.run()
    return max(1, int(_SAMPLE_S / max(1e-9, _sample(engine, 1))))


def _sample(engine: Engine, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        engine.run()
    return (time.perf_counter() - start) / repeats
