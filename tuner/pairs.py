"""Paired comparison: whether candidates that were timed in turns differ, when a neighbour may load the machine.

In each round all candidates are timed within a few milliseconds, so what slows a round slows all of it, and only the
ratios within rounds count. Their distribution has heavy tails and no known form; the interval of its median that the
sign test gives is right for any form (Gibbons and Chakraborti, Nonparametric Statistical Inference, section 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

LOOKS = (16, 32, 64, 128, 256)
"""After so many rounds the evidence is looked at; the first look that decides ends the comparison."""
FEWEST = 5
"""Fewer rounds say nothing. Where so few fit into the time, the least and the largest ratio are the interval."""
FALSE_SHARE = 0.02
"""How often two equal candidates may seem to differ, over all looks together."""
MISSED_SHARE = 0.05
"""How often, at a look, a candidate that could win is given up: that makes nothing slower, and saves most rounds."""
TIE = 0.02
"""Candidates with a median ratio closer to 1 are equal: where code and buffers lie makes such differences."""


def ratio_interval(times_s: Sequence[float], others_s: Sequence[float]) -> tuple[float, float, float]:
    """Lower bound, median and upper bound of other / time over the rounds; (0, median, infinity) from too few.

    Who left early has samples of the first rounds alone: those in which both took part count.
    """
    return _interval(times_s, others_s, FALSE_SHARE / len(LOOKS) / 2)


def differ(times_s: Sequence[float], others_s: Sequence[float]) -> bool:
    """Whether one of the two is faster, by more than TIE and beyond doubt."""
    low, median, high = ratio_interval(times_s, others_s)
    return (low > 1 and median > 1 + TIE) or (high < 1 and median < 1 / (1 + TIE))


def staying(samples_s: Sequence[Sequence[float]]) -> list[int]:
    """Places of those that take part in more rounds; none where the winner is known.

    `samples_s`: seconds per run of each candidate, a sample per round. The first one wins ties: the fastest must differ
    from it, or hardly be faster by more than TIE. It stays to the end, to be timed beside the winner. Another one need
    not be told from the fastest, and leaves when it is hardly faster than that by more than TIE.
    """
    fastest = min(range(len(samples_s)), key=lambda place: _median(samples_s[place]))
    rivals = [
        place
        for place in range(len(samples_s))
        if place != fastest and _is_rival(samples_s[fastest], samples_s[place], wins_ties=place == 0)
    ]
    return sorted({0, fastest, *rivals}) if rivals else []


def _is_rival(fastest: Sequence[float], other: Sequence[float], *, wins_ties: bool) -> bool:
    low, _, high = _interval(fastest, other, MISSED_SHARE)
    if wins_ties:
        return high >= 1 + TIE and not differ(fastest, other)
    return low <= 1 / (1 + TIE)


def _interval(
    times_s: Sequence[float], others_s: Sequence[float], outside_share: float
) -> tuple[float, float, float]:
    """As `ratio_interval`; the true median lies below its lower bound, or above its upper one, that often each."""
    ratios = sorted(other / time for time, other in zip(times_s, others_s, strict=False))
    count = len(ratios)
    median = (ratios[(count - 1) // 2] + ratios[count // 2]) / 2
    outside = _outside(count, outside_share)
    if count < FEWEST:
        return 0.0, median, math.inf
    return ratios[max(0, outside - 1)], median, ratios[min(count - 1, count - outside)]


@cache
def _outside(count: int, share: float) -> int:
    """The largest k so that the median is below the k-th smallest of `count` values no more often than `share`."""
    allowed = Fraction(share) * 2**count
    below, outside = 0, 0
    while (below := below + math.comb(count, outside)) <= allowed:
        outside += 1
    return outside


def _median(samples_s: Sequence[float]) -> float:
    ordered = sorted(samples_s)
    return ordered[len(ordered) // 2]
