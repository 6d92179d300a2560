"""The final comparison: which schedule is served, decided by evidence and not by noise.

Finalists are timed in turns, and their samples compared pair by pair (`tuner.pairs`). Before that, what leads is told
from trials that were taken at different times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.candidate import Candidate
from tuner.measure import Measured
from tuner.pairs import TIE, differ, ratio_interval

FINALISTS = 3
BAND = 1.1
"""A candidate whose trial took this many times the best one's is no finalist."""
CLEAR = 0.5
"""By how much a trial must lead the default's, which was taken at another time: a neighbour on the machine slows one of
them and not the other, and a record that no comparison has confirmed must not be slower than the default."""

Timed = tuple[Candidate, Measured]


def finalists(measured: Sequence[Timed], default: Candidate, incumbent: Candidate | None) -> list[Candidate]:
    """Who is compared: the default, the incumbent, and the best trials. One alone needs no comparison."""
    ranking = sorted(measured, key=lambda timed: (timed[1].median_s, timed[0].digest))
    if not ranking:
        return [] if incumbent is None else _distinct([default, incumbent])
    limit_s = ranking[0][1].median_s * BAND
    best = [candidate for candidate, m in ranking[:FINALISTS] if m.median_s <= limit_s]
    if best[0].digest == default.digest and (incumbent is None or incumbent.digest == default.digest):
        return [default]
    return _distinct([default, *([incumbent] if incumbent is not None else []), *best])


def leader(timed: Sequence[Timed], default: Candidate) -> Timed:
    """The winner by trials that were taken at different times: the default, unless the best is clearly faster."""
    fastest_s = min(measured.median_s for _, measured in timed)
    for candidate, measured in timed:
        if candidate.digest == default.digest and measured.median_s <= (1 + CLEAR) * fastest_s:
            return candidate, measured
    return _winner(timed, default, lambda a, b: b.median_s <= (1 + TIE) * a.median_s)


def settle(timed: Sequence[Timed], default: Candidate) -> Timed:
    """The winner by samples that were taken in turns, among those that took part to the end."""
    rounds = max(len(measured.samples_s) for _, measured in timed)
    stayed = [entry for entry in timed if len(entry[1].samples_s) == rounds]
    return _winner(stayed, default, lambda a, b: not differ(a.samples_s, b.samples_s))


def evidence(
    timed: Sequence[Timed], winner: Candidate, believed: NDArray[np.float64] | None
) -> list[dict[str, Any]]:
    """What a comparison found, as plain JSON values: per candidate, how much slower than the winner it is.

    `believed`: the cost model's merit of each candidate (larger is better), None where no model was trained.
    """
    won = next(measured for candidate, measured in timed if candidate.digest == winner.digest)
    found = []
    for place, (candidate, measured) in enumerate(timed):
        low, median, high = ratio_interval(won.samples_s, measured.samples_s)
        found.append(
            {
                "schedule": candidate.digest,
                "median_s": measured.median_s,
                "slower": [low, median, None if math.isinf(high) else high],
                "believed": None if believed is None else float(believed[place]),
            }
        )
    return found


def _winner(timed: Sequence[Timed], default: Candidate, ties: Callable[[Measured, Measured], bool]) -> Timed:
    """The fastest, or of those that tie with it the default, else the one of fewest steps."""
    fastest = min(timed, key=lambda entry: (entry[1].median_s, entry[0].digest))
    tied = [entry for entry in timed if entry is fastest or ties(fastest[1], entry[1])]

    def order(entry: Timed) -> tuple[bool, int, str]:
        candidate = entry[0]
        return candidate.digest != default.digest, len(candidate.schedule.steps), candidate.digest

    return min(tied, key=order)


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    return list({candidate.digest: candidate for candidate in candidates}.values())
