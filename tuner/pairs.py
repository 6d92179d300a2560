"""Paired comparison: whether candidates that were timed in turns differ, when a neighbour may load the machine.

In each round all candidates are timed within a few milliseconds, so what slows a round slows all of it, and only the
ratios within rounds count. Their distribution has heavy tails and no known form; the interval of its median that the
sign test gives is right for any form (Gibbons and Chakraborti, Nonparametric Statistical Inference, section 5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

LOOKS = (16, 32, 64, 128, 256)
"""After so many rounds the evidence is looked at; the first look that decides ends the comparison."""
FEWEST = 5
"""Fewer rounds say nothing. Where so few fit into the time, the least and the largest ratio are the interval."""
FALSE_SHARE = 0.02
"""How often two equal candidates may seem to differ, over all looks together."""
TIE = 0.02
"""Candidates with a median ratio closer to 1 are equal: where code and buffers lie makes such differences."""


def ratio_interval(times_s: Sequence[float], others_s: Sequence[float]) -> tuple[float, float, float]:
    """Lower bound, median and upper bound of other / time over the rounds; (0, median, infinity) from too few.

    Raises ValueError where the rounds of the two are not the same ones.
    """
    ratios = sorted(other / time for time, other in zip(times_s, others_s, strict=True))
    count = len(ratios)
    median = (ratios[(count - 1) // 2] + ratios[count // 2]) / 2
    outside = _outside(count)
    if count < FEWEST:
        return 0.0, median, math.inf
    return ratios[max(0, outside - 1)], median, ratios[min(count - 1, count - outside)]


def differ(times_s: Sequence[float], others_s: Sequence[float]) -> bool:
    """Whether one of the two is faster, by more than TIE and beyond doubt."""
    low, median, high = ratio_interval(times_s, others_s)
    return (low > 1 and median > 1 + TIE) or (high < 1 and median < 1 / (1 + TIE))


def decided(samples_s: Sequence[Sequence[float]]) -> bool:
    """Whether more rounds hardly change who wins: all candidates differ from the fastest, or certainly tie with it.

    `samples_s`: seconds per run of each candidate, a sample per round.
    """
    fastest = min(samples_s, key=_median)
    return all(_clear(fastest, other) for other in samples_s if other is not fastest)


def _clear(fastest: Sequence[float], other: Sequence[float]) -> bool:
    low, _, high = ratio_interval(fastest, other)
    return differ(fastest, other) or (low > 1 / (1 + TIE) and high < 1 + TIE)


@cache
def _outside(count: int) -> int:
    """The largest k so that the k-th smallest and k-th largest of `count` values enclose the median surely enough."""
    allowed = FALSE_SHARE / len(LOOKS) / 2 * 2**count
    below, outside = 0, 0
    while (below := below + math.comb(count, outside)) <= allowed:
        outside += 1
    return outside


def _median(samples_s: Sequence[float]) -> float:
    ordered = sorted(samples_s)
    return ordered[len(ordered) // 2]
